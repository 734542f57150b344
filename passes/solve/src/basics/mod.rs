//! Structures and algorithms that several solvers share: flows, lists, matchings, hashes of states,
//! random numbers, topological orders, and a tree of sums.

pub(crate) mod flow;
pub(crate) mod lists;
pub(crate) mod matching;
pub(crate) mod no_goods;
pub(crate) mod random;
pub(crate) mod topological;
pub(crate) mod tree;
