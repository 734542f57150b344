//! Random problems of the three kinds, small enough that their optimum is found by exhaustion; each test takes what it needs.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

pub mod budget;
pub mod order;
pub mod place;
