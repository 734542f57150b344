//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod nodes;
mod targets;
mod timeline;
mod timings;
