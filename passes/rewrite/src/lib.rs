//! Equal forms of pieces of a graph: rules as data, one e-graph a window, and a few candidates for a judge of memory and time.
//!
//! [`RuleBook`] reads the rules; [`windows`] cuts a graph; [`candidates`] saturates one window and extracts its candidates as
//! [`Fragment`]s; [`apply`] puts chosen fragments into the module. Which candidate is best is not decided here: memory depends on the order
//! of the whole graph, so the caller schedules and places, and compares.
//!
//! Nothing here reads a clock: all limits count e-nodes, rounds and matches ([`Limits`]), so results are the same on any machine.

mod apply;
mod candidate;
mod cut;
mod extract;
mod fact;
mod fragment;
mod matching;
mod pricing;
pub mod rules;
mod saturate;
mod setting;
mod tables;
mod term;
mod window;

pub use apply::{Applied, Replaced, apply};
pub use candidate::{Candidate, Measure, candidates, every_form};
pub use cut::{Shift, windows};
pub use fragment::{Fragment, Piece, Source};
pub use pricing::ORIGIN;
pub use rules::{Class, Memory, Rule, RuleBook};
pub use setting::{Limits, Setting};
pub use tables::own_bytes;
pub use window::Window;
