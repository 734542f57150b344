//! Random problems of the three kinds, small enough for an exhaustive search of the optimum; each test
//! uses the problems of its kind.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

pub mod budget;
pub mod order;
pub mod place;
