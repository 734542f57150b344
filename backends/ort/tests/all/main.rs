//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod damages;
mod engines;
mod kinds;
mod plays;
mod random_ranges;
mod ranges;
mod refusals;
mod rewritten;
mod session_options;
mod support;
mod transfers;
mod workspace;
