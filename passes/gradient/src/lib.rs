//! Makes a training step of a forward module: loss, gradients of trainable parameters, new parameters.
//!
//! [`choose`] selects the parameters, [`make_step`] appends the nodes. All of them are standard
//! operators, so a stock runtime runs the step and the planner sees every value. `doc/gradient.md` has the
//! form of the rules and how to add one.
//!
//! Gradients are derived in reverse mode: each node on a path from a trainable parameter to the loss is
//! visited once, from the loss backwards, and its rule turns the gradients of its results into those of
//! its operands. A value without a gradient has the gradient zero, which is never written down.

mod batch_norms;
mod emit;
mod error;
mod lora;
mod loss;
mod merged;
mod optimizer;
mod prepare;
mod raise;
mod recurrent;
mod rules;
mod step;
mod trainable;
mod walk;

pub use error::{GradientError, MissingRule, Refusal};
pub use lora::{ENDINGS as LORA_ENDINGS, Lora, adapt};
pub use loss::{Loss, LossKind};
pub use optimizer::{Clip, Moments, Optimizer};
pub use prepare::prepare;
pub use rules::{RuleReads, rule_names, rule_reads};
pub use step::{Emitted, Norms, Step, StepOptions, make_step};
pub use trainable::{Elements, Trainable, choose};

/// Name of the pass, as the origin of its nodes.
pub const NAME: &str = "differentiate";

/// Elements of the small tensors of a module that inference knows.
pub type Known = memc_ir::SecondaryMap<memc_ir::Value, Option<std::sync::Arc<memc_ops::Data>>>;
