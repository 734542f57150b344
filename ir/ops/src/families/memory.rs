//! Transfers between memory spaces (domain `ai.memc`): each gives its operand back, in another space.

use super::contrib_rules::like_first;
use crate::info::{OpInfo, Repeat, Work};

/// Domain of transfers.
const MEMORY: &str = "ai.memc";

const fn transfer(name: &'static str) -> OpInfo {
    // A transfer is scheduled where the plan wants it; running it twice would need a second place for its bytes.
    OpInfo::of(MEMORY, name, like_first).work(Work::None).repeat(Repeat::Stateful)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[transfer("SwapIn"), transfer("SwapOut")];

#[cfg(test)]
mod tests {
    use super::MEMORY;
    use crate::families::testing::Case;

    #[test]
    fn transfers_keep_type_and_shape() {
        for name in ["SwapIn", "SwapOut"] {
            assert_eq!(Case::of(MEMORY, name, 1).input("bf16[N,3]").show(), "bf16[N,3]");
        }
    }
}
