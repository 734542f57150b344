//! Text, JSON and self-contained HTML reports of a plan.
//!
//! Every report is derived from a [`memc_layout::Layout`] alone, and equal layouts give equal bytes:
//! [`summary_line`] (one line for people and logs), [`text`] (one screen), [`json`] (for scripts),
//! [`html`] (one page without network) and [`trace`] (for trace viewers). For pipelines, [`compare`]
//! holds a plan against limits, and [`markdown`], [`github`] and [`sarif`] show the answer. [`Changes`]
//! compares two plans, and [`joint()`] shows several models in one memory.
//!
//! Reports count their numbers from the tensors of the layout and do not copy the layout's own claims.
//! Names are untrusted: they are escaped, shortened or drawn as text, never interpreted.

mod decisions;
mod diff;
mod encoded;
mod facts;
mod html;
mod joint;
mod json;
mod limits;
mod markdown;
mod options;
mod pareto;
mod picture;
mod quantity;
mod ranges;
mod sarif;
mod summary;
mod text;
mod trace;

pub use diff::{Changes, Quantity, Unit};
pub use html::{HtmlOptions, html};
pub use joint::joint;
pub use json::{json, json_with_limits};
pub use limits::{Limits, Row, compare};
pub use markdown::{github, markdown, sentence};
pub use quantity::bytes;
pub use sarif::sarif;
pub use summary::summary_line;
pub use text::text;
pub use trace::trace;
