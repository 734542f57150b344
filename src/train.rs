//! Training steps: makes a step from a forward model, as a standard model that a stock runtime runs.

use std::collections::BTreeSet;

use memc_gradient::{
    Emitted, LORA_ENDINGS, Lora, Norms, Step, StepOptions, Trainable, adapt, choose, make_step, prepare,
};
use memc_ir::{Bytes, ConstData, Diagnostic, Module, Severity, Value};
use memc_onnx_export::{ExportOptions, Exported, Interface};
use memc_onnx_import::{ImportOptions, Imported};
use memc_onnx_proto::ModelFile;
use memc_passes::{Options, PassContext, Pipeline, Silent};
use memc_plan::registry::REGISTRY;

use crate::error::Error;
use crate::external::ExternalFiles;
use crate::panics::caught;
use crate::request::{Known, Request};

/// Passes before gradients: constants, and extents that follow from them, become known.
const BEFORE: &str = "canonicalize,fold,canonicalize,dce";

/// Passes after gradients: equal nodes become one, and the rest of what rules computed for nothing goes. Some
/// forms are seen only without what went.
const AFTER: &str = "canonicalize,fold,cse,dce,canonicalize,dce";

/// A request for a training step.
#[derive(Clone, Debug)]
pub struct Training {
    /// Extents of symbolic dimensions, and other options of the import.
    pub import: ImportOptions,
    /// Patterns of the names of trainable parameters, in which `*` stands for any text; empty for the usual
    /// choice.
    pub trainable: Vec<String>,
    /// Patterns of the names of parameters that stay as they are.
    pub frozen: Vec<String>,
    /// Adapters of low rank. With one, only adapters and named parameters are trained.
    pub adapters: Vec<Lora>,
    /// Loss, optimizer and outputs.
    pub step: StepOptions,
}

impl Training {
    /// Returns a request for a step of all usual parameters.
    #[must_use]
    pub fn new(step: StepOptions) -> Self {
        let (trainable, frozen, adapters) = (Vec::new(), Vec::new(), Vec::new());
        Self { import: ImportOptions::default(), trainable, frozen, adapters, step }
    }
}

/// A training step.
#[derive(Debug)]
pub struct Trained {
    /// The step as a module.
    pub module: Module,
    /// The model to write.
    pub model: Exported,
    /// Trainable parameters, in the order of the model.
    pub trainable: Vec<Trainable>,
    /// Inputs and outputs.
    pub step: Step,
    /// Warnings and remarks.
    pub diagnostics: Vec<Diagnostic>,
}

impl Trained {
    /// Bytes of all trainable parameters that the loss depends on.
    #[must_use]
    pub fn trainable_bytes(&self) -> Bytes {
        let used = self.trainable.iter().filter(|parameter| !self.step.unused.contains(&parameter.name));
        used.fold(Bytes(0), |sum, parameter| sum.saturating_add(parameter.bytes))
    }
}

/// Makes a training step of a forward model: loss, gradients and new parameters, in standard operators.
///
/// Parameters and state are graph inputs with their present values as defaults; `new.NAME` is the new value
/// of input `NAME`. The step gives the same results as the derivative in real arithmetic, up to rounding.
///
/// ```
/// use memc::{Loss, LossKind, Model, Optimizer, StepOptions, Training};
///
/// let model = Model::open("examples/models/perceptron.onnx").map_err(memc::Error::from)?;
/// let mut step = StepOptions::new(Loss::new(LossKind::CrossEntropy), "sgd".parse::<Optimizer>()?);
/// step.labels = Some("labels".to_owned());
/// let trained = memc::train(&model, &Training::new(step))?;
/// assert_eq!(trained.step.added_outputs[0], "loss");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The model is refused, no parameter is trainable, or a node on the way to the loss has no gradient.
pub fn train(file: &ModelFile, training: &Training) -> Result<Trained, Error> {
    caught(|| trained(file, training))?
}

fn trained(file: &ModelFile, training: &Training) -> Result<Trained, Error> {
    let Imported { mut module, data, mut diagnostics, .. } =
        memc_onnx_import::import(file, &training.import)?;
    if module.graph(module.main()).outputs.is_empty() {
        return Err(Error::NoOutputs { graph: module.graph(module.main()).name.clone() });
    }
    let outputs: Vec<String> = file.graph().output.iter().map(|info| info.name().to_owned()).collect();
    prepare(&mut module)?;
    // Folding would bake constants into other constants; inputs stay, and what depends on them is unknown.
    let external = ExternalFiles::beside(file.path());
    let mut options = Request::new().options()?;
    options.rewrite.exact = true;
    let trainable = parameters(&mut module, data, training, &options, &external)?;
    let mut data = memc_ops::infer(&mut module).data;
    data = run(BEFORE, &mut module, data, &options, &external)?;
    let step = make_step(&mut module, &mut data, &trainable, !training.trainable.is_empty(), &training.step)?;
    // The elements of new constants, which gradients are made with.
    data = memc_ops::infer(&mut module).data;
    run(AFTER, &mut module, data, &options, &external)?;
    diagnostics.extend(folded_norms(&module, &trainable, training));
    diagnostics.extend(merged_parameters(&trainable));
    let interface = Interface {
        added_inputs: step.added_inputs.iter().cloned().collect(),
        removed_inputs: BTreeSet::new(),
        added_outputs: step.added_outputs.iter().cloned().collect(),
        removed_outputs: if step.keeps_outputs { BTreeSet::new() } else { outputs.into_iter().collect() },
        changed_outputs: BTreeSet::new(),
    };
    let export =
        ExportOptions { metadata: false, interface, raises_opsets: true, ..ExportOptions::default() };
    let model = memc_onnx_export::export(file, &module, &export)?;
    Ok(Trained { module, model, trainable, step, diagnostics })
}

/// Adds adapters and chooses the trainable parameters. Adapted matrices are frozen.
fn parameters(
    module: &mut Module,
    mut data: Known,
    training: &Training,
    options: &Options,
    external: &ExternalFiles,
) -> Result<Vec<Trainable>, Error> {
    let mut context = PassContext::new(options, Known::default());
    context.external = Some(external);
    let elements = |constant: &ConstData| context.bytes_of(constant);
    if training.adapters.is_empty() || training.step.emitted == Emitted::Evaluation {
        return Ok(choose(module, &training.trainable, &training.frozen, &elements)?);
    }
    let adapters = adapt(module, &mut data, &training.adapters)?;
    if training.trainable.is_empty() {
        return Ok(adapters);
    }
    let adapted = adapters.iter().filter_map(|adapter| adapter.name.strip_suffix(LORA_ENDINGS[0]));
    let frozen: Vec<String> = training.frozen.iter().cloned().chain(adapted.map(str::to_owned)).collect();
    let mut trainable = choose(module, &training.trainable, &frozen, &elements)?;
    trainable.retain(|parameter| adapters.iter().all(|adapter| adapter.name != parameter.name));
    trainable.extend(adapters);
    Ok(trainable)
}

fn run(
    passes: &str,
    module: &mut Module,
    data: Known,
    options: &Options,
    external: &ExternalFiles,
) -> Result<Known, Error> {
    let mut context = PassContext::new(options, data);
    context.external = Some(external);
    Pipeline::parse(passes, module.stage, REGISTRY)?.run(module, &mut context, true, &mut Silent)?;
    Ok(context.data)
}

/// Warns of parameters that an exporter may have merged: they are trained as one.
fn merged_parameters(trainable: &[Trainable]) -> Option<Diagnostic> {
    let mut merged = trainable.iter().filter(|parameter| parameter.is_merged);
    let (first, others) = (merged.next()?, merged.count());
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    let message = format!(
        "several nodes read `{}`{more} as their parameter, and all its elements are equal: parameters that an \
         exporter merged are trained as one",
        first.name
    );
    let help = "export the model in training mode, or with `torch.onnx.export(..., optimize=False)`";
    Some(Diagnostic::new("W0334", Severity::Warning, message).with_help(help))
}

/// Remarks that statistics of batches may be folded into convolutions, as exports for inference have them,
/// and warns if they were to be trained.
fn folded_norms(module: &Module, trainable: &[Trainable], training: &Training) -> Option<Diagnostic> {
    let nodes = || module.graph(module.main()).nodes.iter().map(|node| module.node(*node));
    if nodes().any(|node| node.operator.name.ends_with("Normalization")) {
        return None;
    }
    if training.step.norms == Norms::Train {
        let message = "`--norms train` has no effect: the model has no BatchNormalization, or it is folded";
        let help = "export the model in training mode, which keeps normalizations apart";
        return Some(Diagnostic::new("W0333", Severity::Warning, message).with_help(help));
    }
    let is_trained = |value: Value| trainable.iter().any(|parameter| parameter.value == value);
    let mut convolutions = nodes().filter(|node| &*node.operator.name == "Conv");
    let has_bias = convolutions.any(|node| node.inputs.get(2).copied().flatten().is_some_and(is_trained));
    let message = "convolutions have trained biases and the model has no normalization: if its export folded \
        statistics of batches into them, the folded weights are trained";
    has_bias.then(|| {
        Diagnostic::new("W0333", Severity::Remark, message)
            .with_help("to train with statistics, export in training mode")
    })
}
