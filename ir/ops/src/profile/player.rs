//! Profile `player`: memc's own player, which obeys the layout as `arena` does and runs ONNX Runtime's kernels, one node at a time.
//!
//! Places, windows and in-place writes are those of `arena`, but for kernels that read their operand again; the workspace is what ONNX Runtime's
//! kernels take.

use super::ort_temporaries::temporaries;
use super::{Kernels, Profile, arena};

/// The profile.
pub(crate) const PROFILE: Profile =
    Profile { name: "player", temporaries, kernels: Kernels::AllBut(READ_AGAIN), ..arena::PROFILE };

/// Operators, by domain and name, whose kernels write a first result and then read the operand again (an error function, a hyperbolic tangent or a
/// logistic function over the whole tensor, then a product with what came in). On some processors another kernel does it in one pass.
const READ_AGAIN: &[(&str, &str)] =
    &[("", "Gelu"), ("com.microsoft", "FastGelu"), ("com.microsoft", "Gelu"), ("com.microsoft", "QuickGelu")];

/// Whether an operator's kernel of ONNX Runtime may read an operand again after it began to write its result.
pub fn reads_again(domain: &str, name: &str) -> bool {
    READ_AGAIN.contains(&(domain, name))
}

/// Operators, by domain and name, whose kernels add up runs of elements by vectors of 16 bytes that begin at aligned addresses, and single elements
/// before the first: another address gives other partial sums, and other last bits. Found by running 90 operators of ONNX Runtime 1.31 on operands at
/// 8 to 16 addresses (x86-64).
const SUMS_BY_ADDRESS: &[(&str, &str)] = &[("", "Einsum"), ("", "InstanceNormalization"), ("", "ReduceMean"), ("", "ReduceSum")];

/// Whether the last bits of what an operator's kernel of ONNX Runtime gives may follow from the address of what it reads.
pub fn sums_by_address(domain: &str, name: &str) -> bool {
    SUMS_BY_ADDRESS.contains(&(domain, name))
}
