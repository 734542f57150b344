//! The operator table: the entries of all families in one list, sorted by domain and name, with a hash
//! index.

use std::sync::LazyLock;

use memc_ir::Operator;

use crate::families::FAMILIES;
use crate::info::{OpInfo, Typed};

static TABLE: LazyLock<Vec<&'static OpInfo>> = LazyLock::new(|| {
    let mut all: Vec<&'static OpInfo> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    all.sort_by_key(|info| (info.domain, info.name));
    all
});

/// Number of buckets of [`INDEX`]; several times the number of operators.
const BUCKETS: usize = 2048;

/// Hash index of the table by operator name. Passes look operators up repeatedly for every node.
static INDEX: LazyLock<Vec<Vec<&'static OpInfo>>> = LazyLock::new(|| {
    let mut buckets = vec![Vec::new(); BUCKETS];
    for info in TABLE.iter() {
        buckets[bucket(info.name)].push(*info);
    }
    buckets
});

/// Returns the bucket of a name, by the FNV-1a hash (Fowler, Noll and Vo).
fn bucket(name: &str) -> usize {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize % BUCKETS
}

/// Returns all entries, sorted by domain and name.
pub fn all() -> &'static [&'static OpInfo] {
    &TABLE
}

/// Returns the entry of an operator; `None` if memc does not know the operator, which then stays opaque.
pub fn lookup(operator: &Operator) -> Option<&'static OpInfo> {
    find(&operator.domain, &operator.name)
}

impl Typed<'_> {
    /// Returns the entry of the node's operator; `None` if the node is opaque, because memc does not know
    /// the operator, or because the operands do not fit it.
    pub fn info(&self) -> Option<&'static OpInfo> {
        lookup(&self.data().operator).filter(|_| !self.module.misfits.contains(&self.node))
    }
}

/// Returns the entry for this domain and name, or `None`. O(1).
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
