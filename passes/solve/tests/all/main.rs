//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod budget;
mod budget_bound;
mod chaos;
mod engines;
mod joint;
mod order;
mod partition;
mod place;
mod problems;
