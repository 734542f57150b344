//! Structures and algorithms that several solvers share: flows, lists, hashes of states, random numbers
//! and a tree of sums.

pub(crate) mod flow;
pub(crate) mod lists;
pub(crate) mod no_goods;
pub(crate) mod random;
pub(crate) mod tree;
