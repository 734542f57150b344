//! Transfers between memory spaces (domain `ai.memc`): each gives its operand back, in another space.

use memc_ir::Operator;

use super::contrib_rules::like_first;
use crate::info::{OpInfo, Repeat, Work};

/// Domain of transfers.
pub const MEMORY: &str = "ai.memc";

const fn transfer(name: &'static str) -> OpInfo {
    // A transfer is scheduled where the plan wants it; running it twice would need a second place for its bytes.
    OpInfo::of(MEMORY, name, like_first).work(Work::None).repeat(Repeat::Stateful)
}

/// What a node of this family does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Copies its operand to a farther space, which its result lies in.
    Out,
    /// Copies its operand, which lies in a farther space, to the near one.
    In,
    /// Copies its operand, a constant that lies in a farther space and stays there, to the near one.
    Fetch,
}

/// Which transfer an operator is; `None` for all others.
pub fn transfer_of(operator: &Operator) -> Option<Transfer> {
    match (&*operator.domain, &*operator.name) {
        (MEMORY, "SwapOut") => Some(Transfer::Out),
        (MEMORY, "SwapIn") => Some(Transfer::In),
        (MEMORY, "Fetch") => Some(Transfer::Fetch),
        _ => None,
    }
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[transfer("Fetch"), transfer("SwapIn"), transfer("SwapOut")];

#[cfg(test)]
mod tests {
    use super::MEMORY;
    use crate::families::testing::Case;

    #[test]
    fn transfers_keep_type_and_shape() {
        for name in ["Fetch", "SwapIn", "SwapOut"] {
            assert_eq!(Case::of(MEMORY, name, 1).input("bf16[N,3]").show(), "bf16[N,3]");
        }
    }
}
