//! Plays a memory plan inside one arena on ONNX Runtime's kernels, and compares and measures models
//! there.
//!
//! ```no_run
//! use memc_ort::{PlayOptions, Player, Runtime, library};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::load(&library::find(None)?)?;
//! let model = memc_onnx_proto::ModelFile::open("out.onnx")?;
//! let layout = memc_layout::read(&std::fs::read_to_string("out.layout.json")?)?;
//! let mut player = Player::new(&runtime, &model, &layout, PlayOptions::default())?;
//! let played = player.play(&memc_ort::inputs::Seeded::new(&model, &layout, 0)?)?;
//! println!("{} nodes ran: {}", played.ran, memc_ort::digest(&player.outputs()?));
//! # Ok(())
//! # }
//! ```

mod allocator;
mod arrays;
mod audit;
mod blame;
mod calibrate;
mod claims;
pub mod codes;
mod compare;
mod content;
mod cut;
mod element;
mod engines;
mod error;
mod guards;
pub mod inputs;
mod integers;
mod joining;
mod joint;
pub mod library;
mod links;
mod loss;
mod memory;
pub mod npz;
mod nudge;
mod options;
mod pinned;
mod places;
mod played;
mod player;
pub mod point;
mod points;
mod prepare;
mod profile;
mod random;
mod running;
mod runtime;
mod sections;
mod sessions;
mod skips;
mod sparse;
mod specials;
mod splitmix;
mod spread;
mod stage;
mod stated;
mod step;
mod steps;
mod swap_file;
mod traffic;
mod transfer;
mod types;
mod units;
mod verified;
mod verify;
mod weights;
mod whole;

pub use allocator::Tally;
pub use arrays::{Array, TensorView};
pub use blame::FragmentDifference;
pub use calibrate::probes;
pub use compare::{Difference, DifferenceKind, Tolerance, Tolerances, compare};
pub use content::{Content, digest, views};
pub use element::Element;
pub use error::Error;
pub use joint::{JointFeed, JointPart, MemberUse, PlayedJoint, Turns, play_joint};
pub use loss::{Loss, OutputLoss};
pub use options::{Clocks, KernelTime, PlayOptions};
pub use played::{ArenaUse, EngineUse, LinkUse, NodeWork, Outside, Played};
pub use player::Player;
pub use point::Point;
pub use points::points;
pub use profile::NodeProfile;
pub use runtime::{Runtime, Session, SessionOptions, Source, Value};
pub use sections::{DeviceUse, Feed, Part, PlayedSections, play_sections};
pub use verified::{LOSSY_BOUND, Stock, Subject, Verified, VerifyOptions};
pub use verify::verify;
pub use whole::Whole;
