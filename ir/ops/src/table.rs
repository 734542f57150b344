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

/// All operators, sorted by domain and name.
pub fn all() -> &'static [&'static OpInfo] {
    &TABLE
}

/// The entry of an operator; `None` for one that memc does not know (it stays opaque).
pub fn lookup(operator: &Operator) -> Option<&'static OpInfo> {
    find(&operator.domain, &operator.name)
}

/// The entry of the operator with this domain and name.
pub fn find(domain: &str, name: &str) -> Option<&'static OpInfo> {
    let key = (domain, name);
    let at = TABLE.binary_search_by(|info| (info.domain, info.name).cmp(&key)).ok()?;
    Some(TABLE[at])
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
}
