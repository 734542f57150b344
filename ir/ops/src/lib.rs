//! The operator table: everything that memc knows about each ONNX operator, one file per operator
//! family.
//!
//! All operator-dependent facts live here: result types ([`infer`]), in-place and view rules,
//! algebra, arithmetic, kernel workspace, split axes and repeatability. No other crate states facts of
//! operators by their names.
//! An operator that is not in the table is opaque: its results have the types that the file states, it
//! shares no bytes, and it never runs twice.

pub mod algebra;
pub mod assume;
pub mod context;
pub mod describe;
pub mod driver;
pub mod elements;
pub mod fact;
pub mod families;
pub mod gradient;
pub mod held;
pub mod indices;
pub mod info;
pub mod inverse;
pub mod kind;
pub mod pieces;
pub mod profile;
pub mod repeat;
pub mod size;
pub mod table;
pub mod target;
pub mod unchanged;

pub use algebra::{Algebra, AtZero, Neutral};
pub use assume::{Assumption, AssumptionError};
pub use context::{Bodies, Infer, InferError, broadcast, normalize_axis};
pub use describe::{describe, table_text};
pub use driver::{Inference, claimed, elements_of, infer, infer_assuming};
pub use elements::{Table, Tables, table_of};
pub use fact::{Data, Fact, Item, MAX_ITEMS};
pub use families::training::{buffer_extent, new_values};
pub use gradient::{Gradient, gradient, gradient_named};
pub use held::held_constant;
pub use indices::{IndexRule, PoolAxis, PoolWindows, pool_windows};
pub use info::{
    Gathers, InPlace, InferFn, Linear, OpInfo, Reads, Repeat, Rounding, Scalar, SplitAxes, Typed, View, Work,
};
pub use inverse::{Inverse, inverse, inverse_named};
pub use kind::KernelKind;
pub use pieces::{
    Piece, Pieces, Reach, ReachRule, Share, Stretch, Taken, holds_zeros, pieces, pieces_between,
    pieces_giving, pieces_in_blocks, pieces_reaching,
};
pub use profile::Profile;
pub use repeat::{feeds_unrepeatable, is_seeded, may_train, repeatable};
pub use size::{Counted, Formula, Size};
pub use table::{all, find, lookup};
pub use target::{expand_target, reshape_target};
pub use unchanged::{Zero, passing_on, rests_on_defaults, same_type, unchanged};
