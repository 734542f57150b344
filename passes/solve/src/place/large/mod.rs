//! Large placements: a part of the buffers is placed first and with care, the rest around it.

pub(super) mod aside;
pub(super) mod core;
pub(super) mod skeleton;
