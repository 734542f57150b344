//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod forms;
mod json;
mod live_curve;
mod ranges;
