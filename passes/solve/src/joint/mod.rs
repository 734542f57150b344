//! Joint memory: several programs with steps and buffers in one arena, one after another, one inside
//! another, or two at once.
//!
//! See `doc/joint.md` for the algorithms. In short: programs that run one after another take the largest
//! arena, and values that are handed over shift or re-place the later ones; a guest that runs between two
//! steps of a host takes bytes that no buffer of the host uses across that boundary, and the host can be
//! placed around it; two programs that run at once are placed on the circle of a period, and wait for each
//! other where their bytes meet.

mod around;
mod check;
mod curve;
mod nested;
mod phased;
mod problem;
mod serial;
mod shape;

pub use around::{Around, around};
pub use check::{Violation, check_nested, check_serial};
pub use curve::mean;
pub use nested::{Admission, admissions, free_bytes};
pub use phased::{Phase, Phased, Wait};
pub use problem::{Answer, Handoff, Part, Placed, Serial, SerialError};
pub use serial::{bound, serial};
pub use shape::Extent;
