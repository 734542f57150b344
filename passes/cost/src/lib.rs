//! Time and traffic of nodes and schedules; descriptions of targets.
//!
//! The model is a roofline: a node takes the longer of its arithmetic (including gathering) and its
//! memory traffic, plus a fixed overhead. A node with unknown extents is charged a stated pessimistic
//! bound, never zero. If a runtime's profile is available, measured times replace modelled times. A
//! calibrated target has a line for each kind of kernel, whose time is then a sum of terms ([`fit`]).

pub mod fit;
mod form;
mod line;
mod machine;
mod measured;
mod model;
mod node;
pub mod scratch;
pub mod target;
mod timeline;
pub mod timings;

pub use line::{Amounts, Line, Lines};
pub use machine::{ArithmeticRates, Cache, Machine, Traffic};
pub use measured::Measured;
pub use model::CostModel;
pub use node::{
    UNKNOWN_NANOS, accesses, amounts, flops, gathered, makes_nothing, nanos, scalar_steps, total_flops,
    traffic,
};
pub use scratch::{ScratchError, ScratchRules};
pub use target::{Kernels, Link, Space, Target, TargetError};
pub use timeline::{Span, timeline};
