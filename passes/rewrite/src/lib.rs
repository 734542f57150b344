//! Equal forms of nodes of a graph: rules as data, one e-graph a fragment, and a few candidates for a
//! judge of memory and time.
//!
//! [`RuleBook`] reads the rules; [`fragments`] cuts a graph; [`candidates`] saturates one fragment and
//! extracts its candidates as [`Replacement`]s; [`apply`] inserts chosen replacements into the module.
//! The crate does not decide which candidate is best: memory depends on the order of the whole graph, so
//! the caller schedules and places, and compares.
//!
//! Nothing here reads a clock: all limits count e-nodes, rounds and matches ([`Limits`]), so results are
//! equal on any machine.

mod apply;
mod candidate;
mod cut;
mod extract;
mod fact;
mod fragment;
mod matching;
mod pricing;
mod replacement;
pub mod rules;
mod saturate;
mod setting;
mod tables;
mod term;

pub use apply::{Applied, Replaced, apply};
pub use candidate::{Candidate, Measure, candidates, every_form};
pub use cut::{Shift, fragments};
pub use fragment::Fragment;
pub use pricing::NAME;
pub use replacement::{FormNode, Replacement, Source};
pub use rules::{Class, Memory, Rule, RuleBook};
pub use setting::{Limits, Setting};
pub use tables::own_bytes;
