//! Profile `ort`: a stock ONNX Runtime CPU session without optimizations and buffer reuse, with nodes in
//! file order.
//!
//! Each fact was measured with ONNX Runtime 1.31.1 as the peak of requested bytes around small generated
//! graphs (one thread, arena and memory pattern off). Facts about single operators are in the table of
//! kernels (`ort_kernels.rs`). In addition, the measurements show:
//! * A buffer is overwritten only at its last use. This holds through views of the buffer, and with
//!   earlier readers. A buffer is never overwritten if it holds a graph input, an initializer, a view of
//!   either, or a graph output. A graph output never overwrites an operand.
//! * Shapes must be equal for ONNX Runtime's own inference. Equal symbols count as equal, and so do
//!   stated value types. A model without value types whose shapes are computed by nodes loses in-place
//!   writes; this profile then promises too small a peak.
//! * Reshape, Flatten, Squeeze, Unsqueeze and Identity share bytes, unless the result is a graph output,
//!   which is a copy. A view of a graph input or of an initializer takes no memory. A Cast to an equal
//!   type copies while its operand is live.
//! * An unread result (a mask, a last state) keeps its buffer until the run ends; an unread view keeps
//!   no memory.
//! * Half precision: most operators have no kernel and run between conversions to full precision, which
//!   count as workspace. A chain of these operators keeps values in full precision between them, which
//!   this profile does not count. A Cast to float32 after an operator of this kind also reads the
//!   unrounded value: from the sequence operator, conversion to float16, conversion to float32, the
//!   runtime removes both conversions, even with all optimizations disabled.
//! * Convolutions of several images or groups use 64 KiB of columns in versions up to 1.22 and from 1.27
//!   on, as counted here. Versions 1.23 to 1.26 allocate the columns of a whole image, and peaks for
//!   them need `memc profile`.

use super::{Kernels, Profile};
use crate::size::GRANULARITY;

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "ort",
    alignment: 64,
    rounding: GRANULARITY,
    windows: false,
    shared_outputs: false,
    caller_buffers: false,
    holds_unread_results: true,
    widens_halves: true,
    takes_workspace: true,
    max_scratch_threads: 1,
    kernels: Kernels::Measured,
    same_type_views: false,
    takes_temporaries: true,
    expands_operators: true,
    multiplies_codes: true,
    keeps_buffers: true,
    sessions: Some(super::ort_session::text),
};
