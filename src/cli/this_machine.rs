//! The target `auto`: the machine that memc runs on, as the text of a target file.

use std::fs;

use memc_cost::target;

/// Name of this target.
pub const NAME: &str = "auto";

/// Facts that the system states; `None` if it states none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Facts {
    /// Memory that processes may take, in bytes.
    memory: Option<u64>,
    /// Largest cache of the first processor, in bytes.
    cache: Option<u64>,
}

/// Returns a target file for this machine: the rates of the target `cpu`, with the memory and the cache
/// that the system states. Linux states both.
pub fn text() -> String {
    written(target::built_in("cpu").unwrap_or_default(), facts())
}

fn facts() -> Facts {
    let read = |path: &str| fs::read_to_string(path).ok();
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let caches =
        (0..8).filter_map(|index| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")));
    Facts {
        memory: memory(
            &read("/proc/meminfo").unwrap_or_default(),
            limits.iter().filter_map(|path| read(path)),
        ),
        cache: caches.filter_map(|text| cache(&text)).max(),
    }
}

/// Returns the name of the processor as the system states it.
pub fn processor() -> String {
    let all = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = all
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    named.filter(|name| !name.is_empty()).unwrap_or("an unnamed processor").to_owned()
}

/// Returns the installed memory, or a smaller limit of the process's group.
fn memory(installed: &str, limits: impl Iterator<Item = String>) -> Option<u64> {
    let line = installed.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let installed =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024));
    // A group without a limit states `max`, or a number beyond all memory.
    installed
        .into_iter()
        .chain(limits.filter_map(|limit| limit.trim().parse().ok()))
        .filter(|bytes| *bytes > 0)
        .min()
}

/// Returns the size of a cache in bytes: the system states `32768K`.
fn cache(text: &str) -> Option<u64> {
    let text = text.trim();
    let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("", 1_u64)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(*unit).filter(|bytes| *bytes > 0)
}

/// Rewrites the file of a target: name, capacity of the cache, and capacity of the first space.
fn written(base: &str, facts: Facts) -> String {
    let mut text =
        "# This machine: memory and cache as the system states them, rates of the target `cpu`.\n".to_owned();
    let mut section = "";
    // The first line of the base describes its machine.
    for line in base.lines().skip(1) {
        let key = line.split('=').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            section = line.trim();
        }
        match (section, key, facts) {
            ("", "name", _) => text += &format!("name = \"{NAME}\"\n"),
            ("", "summary", _) => text += "summary = \"the machine that memc runs on\"\n",
            ("[machine.cache]", "capacity", Facts { cache: Some(bytes), .. }) => {
                text += &format!("capacity = {bytes}\n")
            }
            ("[machine.cache]", _, Facts { cache: Some(_), .. })
                if line.starts_with("# The third-level cache") => {}
            ("[[spaces]]", "name", Facts { memory: Some(bytes), .. }) => {
                text += &format!("{line}\ncapacity = {bytes}\n")
            }
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use memc_cost::target::Target;

    #[test]
    fn memory_is_the_smaller_of_installed_memory_and_limit() {
        let installed = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        let found = |limits: &[&str]| memory(installed, limits.iter().map(|&limit| limit.to_owned()));
        assert_eq!(found(&[]), Some(16 << 20));
        assert_eq!(found(&["max\n"]), Some(16 << 20));
        assert_eq!(found(&["9223372036854771712\n"]), Some(16 << 20));
        assert_eq!(found(&["1048576\n"]), Some(1 << 20));
        assert_eq!(memory("", std::iter::empty()), None);
        assert_eq!(memory("MemTotal: many kB", std::iter::once("0".to_owned())), None);
    }

    #[test]
    fn sizes_of_caches_have_units() {
        assert_eq!(
            ["32768K\n", "8M", "1G", "512", "", "0K", "K", "-1K"].map(cache),
            [Some(32 << 20), Some(8 << 20), Some(1 << 30), Some(512), None, None, None, None]
        );
    }

    #[test]
    fn the_file_differs_from_its_base_in_the_stated_facts_only() {
        let base = target::built_in("cpu").unwrap();
        let parsed = |facts| Target::parse(&written(base, facts)).unwrap();
        let (plain, known) =
            (Target::parse(base).unwrap(), parsed(Facts { memory: Some(1 << 30), cache: Some(1 << 20) }));
        assert_eq!(known.name, NAME);
        assert_eq!(known.spaces[0].capacity.map(|bytes| bytes.0), Some(1 << 30));
        let cpu =
            |target: Target| Target { name: "cpu".to_owned(), summary: plain.summary.clone(), ..target };
        assert_eq!(format!("{:?}", cpu(parsed(Facts::default()))), format!("{plain:?}"));
        assert_ne!(format!("{:?}", cpu(known)), format!("{plain:?}"));
        assert!(Target::parse(&text()).is_ok());
    }
}
