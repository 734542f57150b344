//! Descriptions of machines and requests: target files, profiles, sizes and links.

use memc::memc_cost::{Target, timings};
use memc::memc_passes::Options;
use memc::{LinkOption, Size};

/// Reads bytes as a target file, as a profile, and line by line as sizes and links.
pub fn read_target(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Target::parse(&text) {
        Ok(mut target) => {
            assert!(!target.spaces.is_empty(), "a target without a space");
            assert!(
                target
                    .links
                    .iter()
                    .all(|link| link.from < target.spaces.len() && link.to < target.spaces.len())
            );
            for line in text.lines() {
                if let Ok(link) = line.parse::<LinkOption>() {
                    let _ = link.add_to(&mut target);
                }
            }
            let _ = target.constants();
            for profile in memc::memc_ops::Profile::ALL {
                let options = Options::on(profile, target.clone());
                assert!(
                    options.space.alignment.is_power_of_two(),
                    "an alignment of {}",
                    options.space.alignment
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = timings::read(&text) {
        assert!(!error.to_string().is_empty());
    }
    for line in text.lines().take(64) {
        if let Ok(size) = line.parse::<Size>() {
            assert_eq!(size.to_string().parse(), Ok(size), "{line}");
        }
        if let Ok(link) = line.parse::<LinkOption>() {
            assert!(link.to_string().parse::<LinkOption>().is_ok(), "{line}");
        }
    }
}
