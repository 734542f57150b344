//! `memc profile`: measures every node of a model on this machine, or the bytes of a session.

use std::collections::BTreeMap;
use std::path::Path;

use memc::Error;
use memc_cost::{CostModel, timings};
use memc_ir::{Bytes, Module};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ort as play;
use play::inputs::{Inputs, Seeded};
use play::{NodeProfile, PlayOptions, Player, Whole};
use serde_json::{Value, json};

use super::args::{Counted, ProfileArguments};
use super::playing::{archive, given, layout_of, load, nanoseconds, refuse};
use super::{ExitCode, Failure, Outcome, Voice, print, sessions};
use memc::Outputs;

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
    let passes = arguments.planning.machine.passes.clone().unwrap_or_else(|| OWN_NODES.to_owned());
    let request = arguments.planning.request()?.passes(passes);
    let optimized = memc::plan(&file, &request)?;
    let mut bytes = Vec::new();
    let unwritable = |source| Error::File { what: "write", path: output.clone(), source };
    optimized.model.write_to(&mut bytes).map_err(unwritable)?;
    let planned = ModelFile::from_bytes(bytes).map_err(Error::from)?;
    let runtime = load(arguments.library.ort_lib.as_deref())?;
    let folder = arguments.input.parent().unwrap_or(Path::new(""));
    let layout = &optimized.layout;
    let mut player = Player::with_weights_in(&runtime, &planned, layout, PlayOptions::default(), folder).map_err(refuse)?;
    let given: Box<dyn Inputs> = match archive(arguments.inputs.as_deref(), &planned)? {
        Some(archive) => Box::new(archive),
        None => Box::new(Seeded::new(&planned, layout, arguments.seed).map_err(refuse)?),
    };
    let nodes = player.profile(&*given, arguments.repeat, nanoseconds).map_err(refuse)?;
    let results = results(&optimized.module);
    let rows = nodes.iter().zip(&layout.schedule).zip(results).map(|((node, row), results)| {
        json!({
            "node": node.node, "op": node.op, "domain": row.domain, "ns": node.nanoseconds, "workspace": node.workspace,
            "results": results,
        })
    });
    let object = json!({
        "schema": timings::VERSION, "model_sha256": layout.model.input_sha256, "library": runtime.version(), "threads": 1,
        "repeats": arguments.repeat, "nodes": rows.collect::<Vec<_>>(),
    });
    let mut outputs = Outputs::default();
    outputs.add(output, |out| writeln!(out, "{object:#}"))?;
    outputs.commit()?;
    let total: u64 = nodes.iter().map(|node| node.nanoseconds).sum();
    voice.say(&format!("{} nodes, {:.3} ms in kernels (median of {})", nodes.len(), total as f64 / 1e6, arguments.repeat));
    voice.say(&comparison(&nodes, &optimized.module, &request.options()?.cost));
    Ok(ExitCode::SUCCESS)
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
            let choice = sessions::counted_choice(&arguments.input, arguments.library.ort_lib.as_deref(), *recipe, needs);
            let choice = choice.ok_or_else(|| refuse(play::Error::Unsupported { what: "this model in a session" }))?;
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
    print(&format!("{}\n", json!({"settings": settings.to_string(), "bytes": bytes, "runs": RUNS, "library": runtime.version()})))
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
    let pairs = nodes.iter().zip(&module.graph(module.main()).nodes).filter(|(row, _)| row.nanoseconds > 0);
    for (row, node) in pairs {
        let sum = rows.entry(&row.op).or_default();
        *sum = (sum.0 + 1, sum.1 + row.nanoseconds as f64, sum.2 + costs.nanos(module, *node).0);
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
