//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod apply;
mod cases;
mod rules;
