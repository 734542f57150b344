//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod models;
mod reading;
mod splicing;
