//! Time and traffic of nodes and schedules; descriptions of machines.
//!
//! The model is a roofline: a node takes the longer of its arithmetic and its memory traffic, and a fixed overhead. What is not known is
//! charged a stated pessimistic bound, never zero.

mod machine;
mod node;

pub use machine::Machine;
pub use node::{UNKNOWN_NANOS, bytes, flops, nanos, total_flops, total_nanos};
