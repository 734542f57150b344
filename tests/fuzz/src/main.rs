//! All fuzz targets in one binary, which links memc once: `MEMC_FUZZ` names the target, and without it the
//! names are printed.
#![no_main]

use std::sync::OnceLock;

use memc_fuzz::targets::{TARGETS, Target};

/// Target of this run.
static TARGET: OnceLock<Target> = OnceLock::new();

/// Finds the target that the environment names; without one, prints all names and exits.
fn choose() {
    let name = std::env::var("MEMC_FUZZ").unwrap_or_default();
    match TARGETS.iter().find(|(other, _)| *other == name) {
        Some((_, target)) => {
            let _ = TARGET.set(*target);
        }
        None => {
            TARGETS.iter().for_each(|(name, _)| println!("{name}"));
            std::process::exit(if name.is_empty() { 0 } else { 2 });
        }
    }
}

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(bytes);
    }
});
