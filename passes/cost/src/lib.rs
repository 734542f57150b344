//! Time and traffic of nodes and schedules; descriptions of targets.
//!
//! The model is a roofline: a node takes the longer of its arithmetic (with what it gathers for it) and its memory traffic, and a fixed overhead. What is not known is
//! charged a stated pessimistic bound, never zero. Where a runtime's profile is at hand, what was measured takes the model's place.

mod form;
mod machine;
mod measured;
mod model;
mod node;
pub mod target;
mod timeline;
pub mod timings;

pub use machine::{ArithmeticRates, Cache, Machine, Traffic};
pub use measured::Measured;
pub use model::CostModel;
pub use node::{UNKNOWN_NANOS, flops, gathered, nanos, scalar_steps, total_flops, traffic};
pub use target::{Kernels, Link, Space, Target, TargetError};
pub use timeline::{Span, timeline};
