//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod html;
mod plans;
mod text;
