//! `memc profile`: measures every node of a model on this machine, or the bytes of a session.

use std::collections::BTreeMap;
use std::path::Path;

use memc::Error;
use memc_cost::{CostModel, timings};
use memc_ir::{Bytes, Module};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ops::KernelKind;
use memc_ort as play;
use play::inputs::{Inputs, Seeded};
use play::{NodeProfile, PlayOptions, Player, Runtime, Whole};
use serde_json::{Value, json};

use super::args::{Counted, ProfileArguments};
use super::playing::{CLOCKS, archive, given, layout_of, load, refuse};
use super::{ExitCode, Failure, Outcome, Voice, print, sessions, this_machine};
use memc::{Outputs, Request};

/// Passes that plan a model with all its nodes, so that the profile has each one, even nodes that
/// `optimize` folds.
const OWN_NODES: &str = "view,in-place,place";

/// Plans the model in its own order, plays that, and writes times and workspace.
pub fn run(arguments: &ProfileArguments, voice: &Voice) -> Outcome {
    if let Some(session) = &arguments.session {
        return count(arguments, session, voice);
    }
    let Some(output) = &arguments.output else { return Ok(ExitCode::from(2)) };
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let request = arguments.planning.request()?;
    let runtime = load(arguments.library.ort_lib.as_deref())?;
    let feed = Feed { inputs: arguments.inputs.as_deref(), seed: arguments.seed };
    let Measured { planned: optimized, rows: nodes } =
        measure(&file, &request, feed, &runtime, arguments.repeat)?;
    let layout = &optimized.layout;
    let results = results(&optimized.module);
    let order = &optimized.module.graph(optimized.module.main()).nodes;
    let rows = nodes.iter().zip(&layout.schedule).zip(order).zip(results).map(|(((node, row), id), results)| {
        json!({
            "node": node.node, "op": node.op, "domain": row.domain, "kind": KernelKind::of(&optimized.module, *id).name(),
            "cpu_ns": node.processor, "wall_ns": node.wall, "disturbed": node.is_disturbed, "workspace": node.workspace,
            "results": results,
        })
    });
    let object = json!({
        "schema": timings::VERSION, "model_sha256": layout.model.input_sha256, "library": runtime.version(), "threads": 1,
        "processor": this_machine::processor(), "repeats": arguments.repeat, "nodes": rows.collect::<Vec<_>>(),
    });
    let mut outputs = Outputs::default();
    outputs.add(output, |out| writeln!(out, "{object:#}"))?;
    outputs.commit()?;
    let total: u64 = nodes.iter().map(|node| node.processor).sum();
    let repeats = arguments.repeat;
    voice.say(&format!(
        "{} nodes, {:.3} ms of processor in kernels (least of {repeats})",
        nodes.len(),
        total as f64 / 1e6
    ));
    let disturbed: Vec<&NodeProfile> = nodes.iter().filter(|node| node.is_disturbed).collect();
    if !disturbed.is_empty() {
        let share = disturbed.iter().map(|node| node.processor).sum::<u64>() as f64 / total.max(1) as f64;
        voice.say(&format!(
            "{} nodes ({:.0} % of the time) waited in each run, for other work on this machine: their rows are marked",
            disturbed.len(),
            share * 100.0
        ));
    }
    voice.say(&comparison(&nodes, &optimized.module, &request.options()?.cost));
    Ok(ExitCode::SUCCESS)
}

/// Inputs of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feed<'a> {
    /// File of arrays; `None` for random numbers.
    pub inputs: Option<&'a Path>,
    /// Seed of random numbers.
    pub seed: u64,
}

/// A plan with the times of its nodes, in the order of the schedule.
pub struct Measured {
    /// The plan.
    pub planned: memc::Planned,
    /// Times and workspace.
    pub rows: Vec<NodeProfile>,
}

/// Plans a model in its own order, with all its nodes unless the request names passes, and measures each
/// node.
pub fn measure(
    file: &ModelFile,
    request: &Request,
    feed: Feed<'_>,
    runtime: &Runtime,
    repeat: u32,
) -> Result<Measured, Failure> {
    let passes = request.passes.clone().unwrap_or_else(|| OWN_NODES.to_owned());
    let planned = memc::plan(file, &request.clone().passes(passes))?;
    let folder = file.path().and_then(Path::parent).unwrap_or(Path::new(""));
    let written = written(&planned)?;
    let rows = measure_planned(&planned, &written, folder, feed, runtime, repeat)?;
    Ok(Measured { planned, rows })
}

/// The planned model as a file in memory.
pub fn written(planned: &memc::Planned) -> Result<ModelFile, Failure> {
    let unread = |source| Error::File { what: "read", path: "the weights of the model".into(), source };
    Ok(ModelFile::from_bytes(planned.model_bytes().map_err(unread)?).map_err(Error::from)?)
}

/// Measures each node of a plan. Weights in other files are in `folder`.
pub fn measure_planned(
    planned: &memc::Planned,
    written: &ModelFile,
    folder: &Path,
    feed: Feed<'_>,
    runtime: &Runtime,
    repeat: u32,
) -> Result<Vec<NodeProfile>, Failure> {
    let layout = &planned.layout;
    let mut player =
        Player::with_weights_in(runtime, written, layout, PlayOptions::default(), folder).map_err(refuse)?;
    let given: Box<dyn Inputs> = match archive(feed.inputs, written)? {
        Some(archive) => Box::new(archive),
        None => Box::new(Seeded::new(written, layout, feed.seed).map_err(refuse)?),
    };
    player.profile(&*given, repeat, CLOCKS).map_err(refuse)
}

/// Number of runs of a counted session: later runs of a plain one add the block of the memory pattern.
const RUNS: u32 = 4;

/// Counts the bytes of a session of the model as it is, and prints them as JSON.
fn count(arguments: &ProfileArguments, session: &Counted, voice: &Voice) -> Outcome {
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let layout = extents(arguments, &file)?;
    let settings = match session {
        Counted::Settings(settings) => settings,
        Counted::Recipe(recipe) => {
            let needs = memc::session_needs(&layout);
            let choice = sessions::counted_choice(
                &arguments.input,
                arguments.library.ort_lib.as_deref(),
                *recipe,
                needs,
            );
            let choice =
                choice.ok_or_else(|| refuse(play::Error::Unsupported { what: "this model in a session" }))?;
            let bytes = choice.bytes.unwrap_or_default();
            voice.say(&format!("{}: {} ({})", recipe.name(), Bytes(bytes).exact(), choice.settings));
            return print(&format!(
                "{}\n",
                json!({"recipe": recipe.name(), "settings": choice.settings.to_string(), "bytes": bytes})
            ));
        }
    };
    let runtime = load(arguments.library.ort_lib.as_deref())?;
    let inputs = match given(arguments.inputs.as_deref(), &file)? {
        Some(inputs) => inputs,
        None => play::inputs::make(&file, &layout, arguments.seed).map_err(refuse)?,
    };
    let whole = Whole::stock(&runtime, &file, settings).map_err(refuse)?;
    let bytes = whole.most_bytes(&inputs, settings, RUNS).map_err(refuse)?;
    voice.say(&format!("{} ({settings})", Bytes(bytes).exact()));
    print(&format!(
        "{}\n",
        json!({"settings": settings.to_string(), "bytes": bytes, "runs": RUNS, "library": runtime.version()})
    ))
}

/// Returns a layout of the model, which states the extents of its inputs: the one beside it, or one of a
/// plan in the model's own order.
fn extents(arguments: &ProfileArguments, file: &ModelFile) -> Result<Layout, Failure> {
    if let Ok(layout) = layout_of(&arguments.input, None)
        && layout.model.output_sha256 == memc::sha256(file.bytes())
    {
        return Ok(layout);
    }
    let request = arguments.planning.request()?.passes(OWN_NODES.to_owned());
    Ok(memc::plan(file, &request)?.layout)
}

/// Names and extents of the results of each node, in the order of the schedule.
fn results(module: &Module) -> Vec<Vec<Value>> {
    let value = |value| {
        let shape = module.ty(value).tensor().and_then(|ty| ty.known_dims());
        json!({"name": module.value(value).name, "shape": shape})
    };
    let nodes = &module.graph(module.main()).nodes;
    nodes.iter().map(|node| module.node(*node).results().map(value).collect()).collect()
}

/// Formats measured and modelled time by operator, largest share first.
fn comparison(nodes: &[NodeProfile], module: &Module, costs: &CostModel) -> String {
    const MAX_ROWS: usize = 15;
    let mut rows: BTreeMap<&str, (u64, f64, f64)> = BTreeMap::new();
    // Nodes that have nothing to do count for neither.
    let pairs = nodes.iter().zip(&module.graph(module.main()).nodes).filter(|(row, _)| row.processor > 0);
    for (row, node) in pairs {
        let sum = rows.entry(&row.op).or_default();
        *sum = (sum.0 + 1, sum.1 + row.processor as f64, sum.2 + costs.nanos(module, *node).0);
    }
    let whole = rows.values().fold((0.0, 0.0), |whole, row| (whole.0 + row.1, whole.1 + row.2));
    let mut sorted: Vec<_> = rows.into_iter().collect();
    let weight = |row: &(u64, f64, f64)| (row.1 / whole.0).max(row.2 / whole.1);
    sorted.sort_by(|left, right| weight(&right.1).total_cmp(&weight(&left.1)));
    let mut text = format!(
        "{:<24} {:>6} {:>12} {:>8} {:>12} {:>8} {:>8}\n",
        "operator", "nodes", "measured", "share", "modelled", "share", "ratio"
    );
    let line = |name: &str, (count, measured, modelled): (u64, f64, f64)| {
        format!(
            "{name:<24} {count:>6} {:>9.3} ms {:>6.1} % {:>9.3} ms {:>6.1} % {:>8.2}\n",
            measured / 1e6,
            measured / whole.0 * 100.0,
            modelled / 1e6,
            modelled / whole.1 * 100.0,
            measured / modelled
        )
    };
    text.extend(sorted.iter().take(MAX_ROWS).map(|(name, row)| line(name, *row)));
    let count = sorted.iter().map(|(_, row)| row.0).sum();
    text.push_str(&line("all", (count, whole.0, whole.1)));
    text.pop();
    text
}
