//! The operator table: one sorted list of all families, looked up by domain and name.

use std::sync::LazyLock;

use memc_ir::Operator;

use crate::families::FAMILIES;
use crate::info::OpInfo;

static TABLE: LazyLock<Vec<&'static OpInfo>> = LazyLock::new(|| {
    let mut all: Vec<&'static OpInfo> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    all.sort_by_key(|info| (info.domain, info.name));
    all
});

/// Buckets of [`INDEX`]; some times as many as there are operators.
const BUCKETS: usize = 2048;

/// The table by a hash of the name. Passes look operators up for every node again and again.
static INDEX: LazyLock<Vec<Vec<&'static OpInfo>>> = LazyLock::new(|| {
    let mut buckets = vec![Vec::new(); BUCKETS];
    for info in TABLE.iter() {
        buckets[bucket(info.name)].push(*info);
    }
    buckets
});

/// The bucket of a name: FNV-1a (Fowler, Noll and Vo).
fn bucket(name: &str) -> usize {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize % BUCKETS
}

/// All operators, sorted by domain and name.
pub fn all() -> &'static [&'static OpInfo] {
    &TABLE
}

/// The entry of an operator; `None` for one that memc does not know (it stays opaque).
pub fn lookup(operator: &Operator) -> Option<&'static OpInfo> {
    find(&operator.domain, &operator.name)
}

/// The entry of the operator with this domain and name. O(1).
pub fn find(domain: &str, name: &str) -> Option<&'static OpInfo> {
    INDEX[bucket(name)].iter().find(|info| info.name == name && info.domain == domain).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_stands_once() {
        for pair in all().windows(2) {
            assert!((pair[0].domain, pair[0].name) < (pair[1].domain, pair[1].name), "{} stands twice", pair[1].name);
        }
    }

    #[test]
    fn every_operator_is_found() {
        for info in all() {
            assert!(find(info.domain, info.name).is_some_and(|found| std::ptr::eq(found, *info)), "{}", info.name);
            assert!(find("elsewhere", info.name).is_none());
        }
        assert!(INDEX.iter().all(|bucket| bucket.len() <= 6), "names crowd together");
    }
}
