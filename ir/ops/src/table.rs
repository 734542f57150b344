//! The operator table: the entries of all families in one list, sorted by domain and name, with a hash
//! index.

use std::sync::LazyLock;

use memc_ir::Operator;
use rustc_hash::FxHashMap;

use crate::families::FAMILIES;
use crate::info::{OpInfo, Typed};

static TABLE: LazyLock<Vec<&'static OpInfo>> = LazyLock::new(|| {
    let mut all: Vec<&'static OpInfo> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    all.sort_by_key(|info| (info.domain, info.name));
    all
});

/// Entries by domain and name. Passes look operators up repeatedly for every node.
static INDEX: LazyLock<FxHashMap<(&str, &str), &OpInfo>> =
    LazyLock::new(|| TABLE.iter().map(|info| ((info.domain, info.name), *info)).collect());

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
    INDEX.get(&(domain, name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_stands_once() {
        for pair in all().windows(2) {
            assert!(
                (pair[0].domain, pair[0].name) < (pair[1].domain, pair[1].name),
                "{} stands twice",
                pair[1].name
            );
        }
    }

    #[test]
    fn every_operator_is_found() {
        for info in all() {
            assert!(
                find(info.domain, info.name).is_some_and(|found| std::ptr::eq(found, *info)),
                "{}",
                info.name
            );
            assert!(find("elsewhere", info.name).is_none());
        }
    }
}
