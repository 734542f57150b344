//! `memc train`.

use std::io::Read as _;
use std::path::PathBuf;

use memc::{Emitted, Outputs, StepOptions, Trained, Training};
use memc_ir::ValueType;

use super::args::IoArg;
use super::optimize;
use super::train_args::{EmitArg, NormsArg, Train};
use super::weights::Elsewhere;
use super::{ExitCode, Failure, Outcome, Voice, is_stream, open, usage};

/// Makes a training step of a forward model and writes it.
pub fn run(arguments: &Train, voice: &Voice) -> Outcome {
    check(arguments)?;
    let file = open(&arguments.planning.input)?;
    #[cfg(feature = "ort")]
    if let Some(state) = &arguments.bake {
        return bake(arguments, &file, state, voice);
    }
    let training = training(arguments)?;
    let trained = memc::train(&file, &training)?;
    check_pairs(arguments, &trained)?;
    let evaluation = match &arguments.eval {
        Some(_) => {
            let step = StepOptions { emitted: Emitted::Evaluation, ..training.step.clone() };
            Some(memc::train(&file, &Training { step, ..training })?)
        }
        None => None,
    };
    voice.diagnostics(&trained.diagnostics);
    voice.say(&summary(&trained));
    let mut outputs = Outputs::default();
    let step = step_path(arguments);
    let models = [(&step, Some(&trained)), (&arguments.eval, evaluation.as_ref())];
    for (path, model) in models.into_iter().filter_map(|(path, model)| path.as_ref().zip(model)) {
        outputs.add(path, |out| model.model.write_to(out))?;
        if !is_stream(&arguments.planning.input) {
            Elsewhere::of(&model.model.weight_files, &arguments.planning.input, path)
                .send_along(&mut outputs)?;
        }
    }
    let zeros = zeros_path(arguments).filter(|_| trained.step.zeros.0 > 0);
    if let Some(path) = &zeros {
        outputs.add(path, |out| {
            std::io::copy(&mut std::io::repeat(0).take(trained.step.zeros.0), out).map(drop)
        })?;
    }
    outputs.commit()?;
    match step.filter(|_| arguments.plans()) {
        Some(step) => plan(arguments, step, voice),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The file of the step: the output, or a file beside it if the output is the planned step.
fn step_path(arguments: &Train) -> Option<PathBuf> {
    let output = arguments.planning.output.as_ref()?;
    Some(if arguments.plans() { output.with_extension("step.onnx") } else { output.clone() })
}

/// The file of zeros beside the step.
fn zeros_path(arguments: &Train) -> Option<PathBuf> {
    step_path(arguments).filter(|step| !is_stream(step)).map(|step| step.with_extension("zeros"))
}

/// Plans the step that was just written, with parameters and moments over their old values. A step without
/// a plan does not stay.
fn plan(arguments: &Train, step: PathBuf, voice: &Voice) -> Outcome {
    let mut planning = arguments.planning.clone();
    planning.input.clone_from(&step);
    // Bound extents are numbers in the step; ranges stay.
    planning.inputs.dims.retain(|(_, extent)| !matches!(extent, memc::Extent::Only(_)));
    planning.inputs.assume.clear();
    #[cfg(feature = "ort")]
    {
        planning.inputs.dim_from = None;
    }
    let has_updates = arguments.emit == EmitArg::Updates;
    planning.machine.alias_state |=
        has_updates && matches!(planning.machine.io, None | Some(IoArg::External));
    optimize::run(&planning, voice).inspect_err(|_| {
        let _ = std::fs::remove_file(&step);
        let _ = std::fs::remove_file(step.with_extension("zeros"));
    })
}

/// Rejects arguments that have no effect, or that would lose the given model.
fn check(arguments: &Train) -> Result<(), Failure> {
    let same = |path: &std::path::Path| {
        path.canonicalize()
            .is_ok_and(|path| arguments.planning.input.canonicalize().is_ok_and(|input| input == path))
    };
    if let Some(path) = arguments.planning.output.iter().chain(&arguments.eval).find(|path| same(path)) {
        let message = format!("{} is the given model, which would be lost", path.display());
        return Err(usage(message, "name another file"));
    }
    if arguments.plans() && arguments.planning.output.as_deref().is_none_or(is_stream) {
        let message = "options of planning need a planned step to write".to_owned();
        return Err(usage(message, "name it: `-o STEP.onnx`"));
    }
    if arguments.planning.output.iter().chain(&arguments.eval).any(|path| is_stream(path)) {
        let message = "`memc train` writes files, which may refer to weights beside them".to_owned();
        return Err(usage(message, "name a file: `-o STEP.onnx`"));
    }
    let updates = matches!(arguments.emit, EmitArg::Updates);
    if !updates && arguments.accumulate > 1 {
        let message = "`--accumulate` adds gradients up inside of the step, which `--emit gradients` leaves to the caller";
        return Err(usage(message.to_owned(), "leave out one of both"));
    }
    Ok(())
}

/// Rejects pairs whose outputs the step does not have, as the caches of a decoder.
fn check_pairs(arguments: &Train, trained: &Trained) -> Result<(), Failure> {
    let is_made =
        |pattern: &str| trained.step.added_outputs.iter().any(|name| memc_ir::matches(pattern, name));
    let Some(pair) = arguments.planning.machine.state.iter().find(|pair| !is_made(&pair.new)) else {
        return Ok(());
    };
    let message = format!(
        "`--state {}={}` pairs outputs that a training step does not have: it computes a loss, and no caches of a decoder",
        pair.new, pair.old
    );
    let help = "leave it out: parameters and moments are paired without it, and `--dim NAME=0` trains without cached rows";
    Err(usage(message, help))
}

/// The request that the arguments state.
fn training(arguments: &Train) -> Result<Training, Failure> {
    let Some(loss) = arguments.loss.clone() else {
        let message = "`memc train` needs a loss".to_owned();
        return Err(usage(message, "name it: `--loss cross-entropy --labels NAME`, or `--loss output:NAME`"));
    };
    let step = StepOptions {
        loss,
        labels: arguments.labels.clone(),
        optimizer: arguments.optimizer,
        decay: arguments.weight_decay.clone(),
        clip: arguments.clip,
        loss_scale: arguments.loss_scale,
        accumulate: arguments.accumulate,
        norms: match arguments.norms {
            NormsArg::AsGiven => memc::Norms::AsGiven,
            NormsArg::Train => memc::Norms::Train,
            NormsArg::Eval => memc::Norms::Eval,
        },
        emitted: match arguments.emit {
            EmitArg::Updates => Emitted::Updates,
            EmitArg::Gradients => Emitted::Gradients,
        },
        zeros: zeros_path(arguments).and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
    };
    let mut import = arguments.planning.inputs.request()?.import;
    // Only a plan needs extents: dimensions of a step stay open.
    import.allow_unbound |= !arguments.plans();
    let (trainable, frozen) = (arguments.trainable.clone(), arguments.freeze.clone());
    Ok(Training { import, trainable, frozen, adapters: arguments.lora.clone(), step })
}

/// Writes trained values into the given model.
#[cfg(feature = "ort")]
fn bake(arguments: &Train, file: &memc::Model, state: &std::path::Path, voice: &Voice) -> Outcome {
    let arrays = memc_ort::npz::Archive::open(state)
        .and_then(|archive| archive.arrays())
        .map_err(super::playing::refuse)?;
    let values = arrays.into_iter().map(|(name, array)| {
        let view = array.view();
        let (element, dims) = (memc_ir::ElementType::from_onnx(view.element.onnx()), view.shape.to_vec());
        (name, memc::TrainedValue { element, dims, bytes: array.bytes().to_vec() })
    });
    let baked = memc::bake(file, &values.collect())?;
    let mut outputs = Outputs::default();
    if let Some(path) = &arguments.planning.output {
        outputs.add(path, |out| baked.model.write_to(out))?;
        if !is_stream(&arguments.planning.input) {
            Elsewhere::of(&baked.model.weight_files, &arguments.planning.input, path)
                .send_along(&mut outputs)?;
        }
    }
    outputs.commit()?;
    voice.say(&format!("{} trained values written", baked.replaced.len()));
    Ok(ExitCode::SUCCESS)
}

/// The trainable parameters with their bytes, and the interface of the step.
fn summary(trained: &Trained) -> String {
    let used = trained.trainable.iter().filter(|parameter| !trained.step.unused.contains(&parameter.name));
    let rows: Vec<(String, String, String)> = used
        .map(|parameter| {
            (
                parameter.name.clone(),
                ValueType::Tensor(parameter.ty.clone()).to_string(),
                parameter.bytes.exact(),
            )
        })
        .collect();
    let width = |of: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0)
    };
    let (names, types, sizes) = (width(|row| &row.0), width(|row| &row.1), width(|row| &row.2));
    let count = rows.len();
    let mut text = format!("trainable: {count} tensors, {}\n", trained.trainable_bytes());
    for (name, ty, bytes) in &rows {
        text += &format!("  {name:names$}  {ty:types$}  {bytes:>sizes$}\n");
    }
    let inputs: Vec<&str> =
        trained.step.added_inputs.iter().map(String::as_str).filter(|name| is_call(trained, name)).collect();
    text += &format!("inputs of each call besides those of the model: {}\n", inputs.join(", "));
    let nodes = trained.module.graph(trained.module.main()).nodes.len();
    text += &format!(
        "step: {nodes} nodes, {} values of state; `memc optimize STEP -o OUT --alias-state` plans it",
        trained.step.state.len()
    );
    text
}

/// Whether an input has no default, so that each call states it.
fn is_call(trained: &Trained, name: &str) -> bool {
    let module = &trained.module;
    let mut inputs = module.graph(module.main()).inputs.iter().map(|input| module.value(*input));
    inputs.any(|input| input.name == name && input.default.is_none())
}
