//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod codes;
mod dims;
mod doc;
mod random;
mod text;
