//! Profile `player`: memc's player, which obeys the layout like `arena` and runs ONNX Runtime's kernels
//! one node at a time.
//!
//! Offsets, sub-views and in-place writes follow `arena`, except for kernels that reread their operand.
//! The workspace is that of ONNX Runtime's kernels.

use super::ort_temporaries::temporaries;
use super::{Kernels, Profile, arena};

/// The profile.
pub(crate) const PROFILE: Profile =
    Profile { name: "player", temporaries, kernels: Kernels::AllBut(READ_AGAIN), ..arena::PROFILE };

/// Operators, by domain and name, whose kernels write a first result and then reread the operand: an
/// error function, hyperbolic tangent or logistic function over the whole tensor, then a product with
/// the operand. On some processors another kernel does it in one pass.
const READ_AGAIN: &[(&str, &str)] =
    &[("", "Gelu"), ("com.microsoft", "FastGelu"), ("com.microsoft", "Gelu"), ("com.microsoft", "QuickGelu")];

/// Whether an operator's ONNX Runtime kernel may read an operand again after it has started to write its
/// result.
pub fn reads_again(domain: &str, name: &str) -> bool {
    READ_AGAIN.contains(&(domain, name))
}

/// Operators, by domain and name, whose kernels sum elements in vectors of 16 bytes at aligned
/// addresses, and sum single elements before the first aligned address. Another address gives other
/// partial sums, and other last bits. Found by running 90 operators of ONNX Runtime 1.31 on operands at
/// 8 to 16 addresses (x86-64).
const SUMS_BY_ADDRESS: &[(&str, &str)] = &[("", "Einsum"), ("", "InstanceNormalization"), ("", "ReduceMean"), ("", "ReduceSum")];

/// Whether the last bits of an operator's ONNX Runtime results may depend on the addresses of its
/// operands.
pub fn sums_by_address(domain: &str, name: &str) -> bool {
    SUMS_BY_ADDRESS.contains(&(domain, name))
}
