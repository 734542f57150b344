//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod edits;
mod models;
mod plan;
mod unchanged;
