//! Transfers between memory spaces (domain `ai.memc`): each returns its operand in another space.

use memc_ir::Operator;

use super::contrib_rules::like_first;
use crate::info::{OpInfo, Repeat, Work};

/// Domain of transfers.
pub const MEMORY: &str = "ai.memc";

const fn transfer(name: &'static str) -> OpInfo {
    // The plan determines the step of a transfer; a second run would need a second place for its bytes.
    OpInfo::of(MEMORY, name, like_first).work(Work::None).repeat(Repeat::Stateful)
}

/// The kind of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Copies its operand to a farther space, which contains the result.
    Out,
    /// Copies its operand from a farther space to the near space.
    In,
    /// Copies its operand, a constant that stays in a farther space, to the near space.
    Fetch,
}

/// Returns the kind of transfer of an operator; `None` for all other operators.
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
