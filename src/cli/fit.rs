//! `memc fit`.

use memc::{Extent, Fitted, Fitting, Need};
use memc_ir::Bytes;
use serde_json::json;

use super::fit_args::Fit;
use super::{ExitCode, Outcome, Voice, is_stream, open, print, usage};
use super::{command_words, optimize};

/// Finds the largest extent with which a model fits, prints what it takes, and plans it.
pub fn run(arguments: &Fit, voice: &Voice) -> Outcome {
    if is_stream(&arguments.planning.input) {
        return Err(usage(
            "`memc fit` reads the model several times".to_owned(),
            "name a file in place of `-`",
        ));
    }
    optimize::check(&arguments.planning)?;
    let file = open(&arguments.planning.input)?;
    let request = optimize::request(&arguments.planning)?;
    request.options()?;
    let fitting =
        Fitting { ram: arguments.ram, largest: arguments.largest.clone(), context: arguments.context };
    let fitted = memc::fit(&file, &request, &fitting, &mut |line| voice.say(line))?;
    voice.say(&summary(&fitted, arguments.ram));
    if arguments.planning.json {
        print(&format!("{:#}\n", numbers(arguments, &fitted)))?;
    }
    if arguments.planning.output.is_none() {
        voice.say(&format!(
            "nothing is written; `-o OUT.onnx` writes the plan of `{}`",
            command(arguments, &fitted)
        ));
        return Ok(ExitCode::SUCCESS);
    }
    voice.say(&format!("as by `{}`", command(arguments, &fitted)));
    optimize::run(&settled(arguments, &fitted), voice)
}

/// The numbers of a model that fits, as `--json` prints them.
fn numbers(arguments: &Fit, fitted: &Fitted) -> serde_json::Value {
    let Need { weights, state, interface, arena, workspace } = fitted.need;
    let largest = fitted.largest.as_ref().map(|(growing, extent)| {
        json!({"name": growing.name, "min": growing.extents.min, "is_range": growing.is_range, "extent": extent})
    });
    let beyond = fitted.beyond.as_ref().map(|(extent, why)| json!({"extent": extent, "why": why}));
    let far = fitted.far.as_ref().map(|far| {
        json!({"space": far.space, "weights": far.weights, "fetched": far.fetched, "modelled_ns": far.time.0,
            "smallest_ns": far.smallest.map(|time| time.0)})
    });
    let need = json!({"weights": weights, "state": state, "interface": interface, "activations": arena - workspace,
        "workspace": workspace, "at_rest": fitted.need.at_rest(), "in_run": fitted.need.in_run()});
    json!({"ram": arguments.ram, "context": arguments.context, "largest": largest, "beyond": beyond, "plans": fitted.plans,
        "need": need, "far": far, "command": command(arguments, fitted)})
}

/// The arguments of `memc optimize` that give the plan.
fn settled(arguments: &Fit, fitted: &Fitted) -> super::args::Optimize {
    let mut planning = arguments.planning.clone();
    planning.json = false;
    let import = &fitted.request.import;
    let dims = &mut planning.inputs.dims;
    dims.clear();
    dims.extend(import.dims.iter().map(|(name, extent)| (name.clone(), Extent::Only(*extent))));
    let listed = |name: &&String| !fitted.request.buckets.contains_key(*name);
    let ranges = import.ranges.iter().filter(|(name, _)| listed(name));
    dims.extend(ranges.map(|(name, range)| (name.clone(), Extent::Range(*range))));
    dims.extend(import.equal.iter().map(|(name, of)| (name.clone(), Extent::Equal(of.clone()))));
    dims.extend(
        fitted.request.buckets.iter().map(|(name, all)| (name.clone(), Extent::Buckets(all.clone()))),
    );
    planning.inputs.dim_max.clone_from(&import.limits);
    planning.machine.state.clone_from(&fitted.request.state);
    planning.machine.links.clone_from(&fitted.request.links);
    planning.machine.weights.clone_from(&fitted.request.weights);
    planning.budget.clone_from(&fitted.request.budgets);
    planning
}

/// The command that gives the plan without a search, up to where it is written.
fn command(arguments: &Fit, fitted: &Fitted) -> String {
    command_words::of(&super::args::Optimize { output: None, ..settled(arguments, fitted) })
}

/// The extent, why no larger one fits, and a table of bytes at rest and in a run.
fn summary(fitted: &Fitted, ram: u64) -> String {
    let extent = match &fitted.largest {
        Some((growing, extent)) if growing.is_range => {
            format!(" with {}={}..{extent}", growing.name, growing.extents.min)
        }
        Some((growing, extent)) => format!(" with {}={extent}", growing.name),
        None => String::new(),
    };
    let beyond = match (&fitted.beyond, &fitted.largest) {
        (Some((next, why)), _) => format!("; {next} {why}"),
        (None, Some(_)) => "; larger extents were not asked for".to_owned(),
        (None, None) => String::new(),
    };
    let plans = if fitted.plans == 1 { "1 plan".to_owned() } else { format!("{} plans", fitted.plans) };
    let Need { weights, state, interface, arena, workspace } = fitted.need;
    let mut text = format!(
        "fits {}{extent} ({plans}{beyond})\n{:18} {:>12} {:>12}\n",
        Bytes(ram),
        "",
        "at rest",
        "in a run"
    );
    let kept = if fitted.planned.layout.caches.is_empty() { "state" } else { "caches" };
    let rows = [
        ("weights", weights, weights),
        (kept, state, state),
        ("inputs and outputs", 0, interface),
        ("activations", 0, arena - workspace),
        ("workspace", 0, workspace),
    ];
    for (name, rest, run) in rows.into_iter().filter(|(.., run)| *run > 0) {
        let rest = if rest > 0 { Bytes(rest).to_string() } else { "-".to_owned() };
        text += &format!("{name:18} {rest:>12} {:>12}\n", Bytes(run).to_string());
    }
    let (rest, run) = (Bytes(fitted.need.at_rest()), Bytes(fitted.need.in_run()));
    text += &format!("{:18} {:>12} {:>12}", "sum", rest.to_string(), run.to_string());
    if let Some(far) = &fitted.far {
        text += &format!(
            "\n{} of weights stay in `{}`: a run fetches {} and takes {} by the model; the smallest extent takes {}, and {} with \
             all weights in memory",
            Bytes(far.weights),
            far.space,
            Bytes(far.fetched),
            time(far.time.0),
            time(far.smallest[1].0),
            time(far.smallest[0].0)
        );
    }
    text
}

/// Formats a modelled time.
fn time(nanos: f64) -> String {
    if nanos < 1e9 { format!("{:.3} ms", nanos / 1e6) } else { format!("{:.2} s", nanos / 1e9) }
}
