//! Facts that passes derive from a module and never store in it.

pub mod buffers;
pub mod class;
pub mod corners;
pub mod dependence;
pub mod forward;
pub mod liveness;
pub mod memory;
pub mod open;
pub mod scratch;
pub mod state;
pub mod windows;

pub use buffers::Buffer;
pub use class::{StorageClass, body_constants, classes, near_constants};
pub use dependence::predecessors;
pub use forward::{Forward, forward};
pub use liveness::Liveness;
pub use memory::Memory;
