//! Arguments of `memc train`, as declared to clap.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use memc::{Clip, Lora, Loss, Optimizer, Runtime};

use super::args::{Optimize, heading};

/// `memc train`.
#[derive(Args, Debug)]
pub struct Train {
    /// Loss: cross-entropy, mse, l1, bce, or an output that is the loss, output:NAME. Parameters follow a
    /// colon: of=OUTPUT, axis=N, ignore=N|none, smoothing=SHARE
    #[arg(long, value_name = "NAME[:PARAMETERS]", help_heading = heading::USUAL)]
    pub loss: Option<Loss>,
    /// Graph input of the labels, which is added unless the model has it
    #[arg(long, value_name = "NAME", help_heading = heading::USUAL)]
    pub labels: Option<String>,
    /// Optimizer: sgd, adam, adamw, lamb or lars. Parameters follow a colon: momentum=0.9,nesterov for sgd;
    /// beta1, beta2, eps; trust for lars
    #[arg(long, value_name = "NAME[:PARAMETERS]", default_value = "sgd", help_heading = heading::USUAL)]
    pub optimizer: Optimizer,
    /// Names of trainable parameters (repeatable); `*` stands for any text [default: weights, tables, biases,
    /// and parameters of normalizations]
    #[arg(long, value_name = "PATTERN", help_heading = heading::USUAL)]
    pub trainable: Vec<String>,
    /// Names of parameters that stay as they are (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = heading::USUAL)]
    pub freeze: Vec<String>,
    /// Train two small matrices of rank N beside each frozen matrix of a name, W + A B (repeatable). Without
    /// --trainable, nothing else is trained
    #[arg(long, value_name = "r=N:PATTERN", help_heading = heading::TRAINING)]
    pub lora: Vec<Lora>,
    /// Weight decay, for all parameters or for a pattern of names; the last one that fits counts (repeatable)
    /// [default: 0.01 for adamw, else 0]
    #[arg(long, value_name = "[PATTERN=]RATE", value_parser = decay, help_heading = heading::TRAINING)]
    pub weight_decay: Vec<(String, f64)>,
    /// Limit of gradients: of each element, of the norm of each tensor, or of the norm over all tensors
    #[arg(long, value_name = "value=X|tensor=X|global=X", help_heading = heading::TRAINING)]
    pub clip: Option<Clip>,
    /// Compute gradients times the input `loss_scale`. A step whose gradients overflow changes nothing, and
    /// its output `overflow` is true
    #[arg(long, help_heading = heading::TRAINING)]
    pub loss_scale: bool,
    /// Add up the gradients of N calls, in state `acc.NAME`; a call with the input `apply` applies them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=65536), help_heading = heading::TRAINING)]
    pub accumulate: u64,
    /// Statistics of BatchNormalization: of the batch where its parameters are trained, with new running
    /// statistics, or the running ones
    #[arg(long, value_enum, default_value_t = NormsArg::AsGiven, help_heading = heading::TRAINING)]
    pub norms: NormsArg,
    /// Outputs besides the loss: new parameters and state, or gradients for an optimizer of the caller
    #[arg(long, value_enum, default_value_t = EmitArg::Updates, help_heading = heading::OUTPUT)]
    pub emit: EmitArg,
    /// Model to write that gives the loss besides the outputs of the given model, for evaluations
    #[arg(long, value_name = "EVAL.onnx", help_heading = heading::OUTPUT)]
    pub eval: Option<PathBuf>,
    /// Write trained values into the given model instead of making a step: a file of numpy.savez with
    /// parameters by name, as `Trainer.save` writes it
    #[cfg(feature = "ort")]
    #[arg(long, value_name = "STATE.npz", requires = "output", conflicts_with_all = ["loss", "eval"], help_heading = heading::OUTPUT)]
    pub bake: Option<PathBuf>,
    /// The given model, the step to write, and all options of `memc optimize`: with one that asks for a plan,
    /// the planned step is written, and the step itself beside it
    #[command(flatten)]
    pub planning: Optimize,
}

impl Train {
    /// Moves the second positional argument to the option that it stands for.
    pub fn settled(mut self) -> Self {
        self.planning = self.planning.settled();
        self
    }

    /// Whether an option asks for a plan of the step.
    pub fn plans(&self) -> bool {
        let plan = &self.planning;
        let lists = [
            plan.budget.len(),
            plan.layout.len(),
            plan.report.len(),
            plan.lossy.len(),
            plan.machine.links.len(),
        ];
        let goals = plan.pareto > 0
            || plan.slowdown > 0
            || plan.machine.alias_state
            || !plan.machine.state.is_empty();
        let changes = plan.micro_batches.is_some()
            || plan.nchwc.is_some()
            || plan.anchors
            || plan.exact
            || plan.no_rewrite;
        let files =
            plan.profile.is_some() || plan.external_data.is_some() || plan.session.is_some() || plan.json;
        let is_for = !matches!(plan.machine.runtime, Runtime::Arena)
            || plan.machine.io.is_some()
            || plan.machine.weights.is_some();
        lists.into_iter().any(|count| count > 0)
            || goals
            || changes
            || files
            || is_for
            || plan.machine.passes.is_some()
    }
}

/// Statistics of normalizations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum NormsArg {
    /// As each node states
    AsGiven,
    /// Of the batch
    Train,
    /// Running ones
    Eval,
}

/// Outputs of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EmitArg {
    /// New parameters and state
    Updates,
    /// Gradients
    Gradients,
}

/// Parses `RATE` or `PATTERN=RATE`, split at the last `=`.
fn decay(text: &str) -> Result<(String, f64), String> {
    let (pattern, rate) = text.rsplit_once('=').unwrap_or(("*", text));
    let rate = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    let rate =
        rate.ok_or_else(|| format!("`{text}` is not RATE or PATTERN=RATE: write a number such as 0.01"))?;
    Ok((pattern.to_owned(), rate))
}
