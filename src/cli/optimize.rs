//! `memc optimize`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memc::cost::timings;
use memc::ir::text;
use memc::layout_file as layout;
use memc::ops::Profile;
use memc::ops::profile::SessionNeeds;
use memc::passes::{PipelineError, Rewriting};
use memc::plan::{Entry, Verdict};
use memc::proto::ModelFile;
use memc::report::HtmlOptions;
use memc::{Error, OptimizeOptions, Optimized};

use super::args::{Optimize, Runtime};
use super::files::{Outputs, read};
use super::observe::Watch;
use super::weights::Elsewhere;
use super::{Failure, Outcome, Voice, print, usage};

/// Progress is shown for models of more nodes.
const LONG: usize = 5_000;

/// Plans a model and writes it with its layouts and reports.
pub fn run(arguments: &Optimize, voice: &Voice) -> Outcome {
    let layouts = match arguments.layout.as_slice() {
        [] => vec![beside(&arguments.output, "layout.json")],
        given => given.to_vec(),
    };
    for path in &layouts {
        known_extension(path, &["json", "h", "rs", "csv"])?;
    }
    for path in &arguments.report {
        known_extension(path, &["html", "txt", "json"])?;
    }
    if arguments.session.is_some() && !matches!(arguments.planning.runtime, Runtime::Ort) {
        return Err(usage("--session is for sessions of ONNX Runtime".to_owned(), "add --runtime ort"));
    }
    if arguments.nchwc.is_some() && matches!(arguments.planning.runtime, Runtime::Arena) {
        let help = "add --runtime ort, or --runtime player";
        return Err(usage("--nchwc makes operators that only ONNX Runtime's kernels compute".to_owned(), help));
    }
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let mut stated = stated(arguments);
    let profile = match &arguments.profile {
        Some(path) => {
            let text = read(path)?;
            stated.insert("profile".to_owned(), memc::sha256(text.as_bytes()));
            Some(timings::read(&text).map_err(|source| Error::Profile { path: path.clone(), source })?)
        }
        None => None,
    };
    let mut plan = arguments.planning.options()?;
    plan.stop = arguments.time_limit.map(stop_after).unwrap_or_default();
    plan.rewrite = Rewriting {
        enabled: !arguments.no_rewrite,
        exact: arguments.exact,
        standard: arguments.std_ops,
        integer_kernels: arguments.integer_kernels,
        nchwc: arguments.nchwc.and_then(|blocks| blocks.0),
        micro_batches: arguments.micro_batches,
        slowdown: arguments.slowdown,
    };
    let options = OptimizeOptions {
        import: arguments.planning.import()?,
        plan,
        profile,
        passes: arguments.planning.passes.clone(),
        budget: arguments.budget.clone(),
        pareto: arguments.pareto,
        anchors: arguments.anchors,
        compare: arguments.report.iter().any(|path| extension(path) == "html"),
        verify: cfg!(debug_assertions),
        stated,
    };
    let mut watch = Watch::new(arguments.print_ir_after.clone(), arguments.dump_dir.clone(), arguments.time_passes);
    // Plans of small models are found before anybody could read how.
    let is_long = voice.is_watched() && file.graph().node.len() > LONG;
    let mut tell = |entry: &Entry| {
        if is_long && entry.verdict != Verdict::NotAsked {
            voice.say(&format!("{}: {}, {} …", entry.strategy, entry.candidate, entry.verdict.words()));
        }
    };
    let optimized = memc::optimize_aloud(&file, &options, &mut watch, &mut tell)
        .map_err(|error| reproduce(error, &file, &options, &arguments.output))?;
    voice.diagnostics(&optimized.diagnostics);
    if arguments.log_plans {
        voice.say(&log(&optimized));
    }
    write(arguments, &layouts, &optimized, voice)?;
    if arguments.json {
        return print(&memc::report::json(&optimized.layout));
    }
    if !optimized.layout.pareto.is_empty() {
        voice.say(&curve(&optimized.layout));
    }
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, count) in optimized.rewrites.iter().flat_map(|window| &window.rules) {
        *rules.entry(rule).or_default() += count;
    }
    if !rules.is_empty() {
        let rules: Vec<String> = rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
        voice.say(&format!("rewritten by {}", rules.join(", ")));
    }
    if !arguments.integer_kernels && !arguments.exact && computes_with_dequantized(&optimized) {
        voice.say("integers are made numbers to compute with them: --integer-kernels computes with the integers");
    }
    if !arguments.exact
        && !rules.is_empty()
        && let Some(op) = rounds(&optimized.layout)
    {
        voice.say(&format!(
            "rounding decides integers or lengths here ({op}): where a rewrite changes a last bit, one may become its neighbour; --exact keeps every bit"
        ));
    }
    if let Some(row) = optimized.layout.unpaired.iter().find(|row| row.candidates.len() > 1)
        && let Some(old) = row.candidates.first()
    {
        let message = "outputs that may be the new values of several inputs have storage of their own (`unpaired` in the layout)";
        voice.say(&format!("{message}: `--state {}={old}` would name a pair", row.result));
    }
    if let Some(recipes) = recipes(arguments, &optimized.layout) {
        voice.say(recipes);
    }
    voice.say(&memc::report::text(&optimized.layout));
    session(arguments, &optimized)
}

/// Whether products of numbers are made integers again, as quantized models write them.
fn computes_with_dequantized(optimized: &Optimized) -> bool {
    let schedule = &optimized.layout.schedule;
    let has = |op: &str| schedule.iter().any(|row| row.op == op);
    has("QuantizeLinear") && has("DequantizeLinear") && ["Conv", "Gemm", "MatMul"].into_iter().any(has)
}

/// The first operator that makes much of a last bit: it rounds to integers of few bits, or to whole numbers in a model with sizes that follow from
/// data.
fn rounds(layout: &layout::Layout) -> Option<&str> {
    let has_lengths = !layout.unplanned.is_empty();
    let decides = |row: &&layout::ScheduledNode| {
        let is_whole = row.domain.is_empty() && matches!(row.op.as_str(), "Ceil" | "Floor" | "Round");
        memc::ops::find(&row.domain, &row.op).is_some_and(|info| info.rounds) || has_lengths && is_whole
    };
    layout.schedule.iter().find(decides).map(|row| row.op.as_str())
}

/// A stop that is due after a time.
fn stop_after(time: Duration) -> memc::solve::Stop {
    static IS_DUE: AtomicBool = AtomicBool::new(false);
    // Nobody waits for the thread: it ends with the process.
    std::thread::spawn(move || {
        std::thread::sleep(time);
        IS_DUE.store(true, Ordering::Relaxed);
    });
    memc::solve::Stop::when(&IS_DUE)
}

/// What was tried, a line a candidate, and the pipeline that repeats the plan.
fn log(optimized: &Optimized) -> String {
    let bytes = |bytes: Option<memc::ir::Bytes>| bytes.map_or_else(String::new, |bytes| bytes.exact());
    let time = |nanos: Option<u64>| nanos.map_or_else(String::new, |nanos| format!("{:.3} ms", nanos as f64 / 1e6));
    let mut text =
        format!("{:<28} {:>16} {:>14} {:>8}  {:<32} {}\n", "strategy", "bytes", "time", "effort", "verdict", "candidate");
    let mut without = optimized.log.first().map_or("", |entry| &entry.without);
    if !without.is_empty() {
        text += &format!("without {without}:\n");
    }
    for entry in &optimized.log {
        if entry.without != without {
            without = &entry.without;
            text +=
                &if without.is_empty() { "with all that was asked for:\n".to_owned() } else { format!("without {without}:\n") };
        }
        let (bytes, time, verdict) = (bytes(entry.bytes), time(entry.nanos), entry.verdict.words());
        text +=
            &format!("{:<28} {bytes:>16} {time:>14} {:>8}  {verdict:<32} {}\n", entry.strategy, entry.effort, entry.candidate);
    }
    text + &format!("the plan of `{}` repeats with --passes '{}'", optimized.strategy, optimized.trace)
}

/// Budgets and what they take, in parts of the given model's time, as a table.
fn curve(layout: &layout::Layout) -> String {
    let Some(last) = layout.pareto.last() else { return String::new() };
    let base = layout.pareto.iter().map(|point| point.budget).fold(last.budget, u64::max);
    let percent = |part: u64, whole: f64| 100.0 * part as f64 / whole;
    let time = layout.cost.modelled_ns_before.max(1.0);
    let rows = layout.pareto.iter().map(|point| {
        let bound = point.bound.map_or_else(|| "?".to_owned(), |bound| format!("{:.2} %", percent(bound, time)));
        let (share, extra) = (percent(point.budget, base as f64), percent(point.extra_ns, time));
        format!("{:>14} {share:>6.1} % {:>14} {extra:>8.2} % {bound:>10}\n", point.budget, point.arena)
    });
    let head = format!("{:>14} {:>8} {:>14} {:>10} {:>10}\n", "budget", "", "arena", "extra time", "bound");
    std::iter::once(head).chain(rows).collect()
}

/// Which options of a session a plan for stock ONNX Runtime needs, where they were not asked for.
fn recipes(arguments: &Optimize, layout: &layout::Layout) -> Option<&'static str> {
    let is_open = matches!(arguments.planning.runtime, Runtime::Ort) && arguments.session.is_none();
    let text = match layout.cost.recomputed_nodes {
        0 => {
            "the peak holds by the recipe `smallest` of --session python (cpp, csharp, rust); `fast` keeps a session's optimizations"
        }
        _ => {
            "--session python (cpp, csharp, rust) prints the recipes this plan needs: `smallest` holds the peak; a default session undoes it"
        }
    };
    is_open.then_some(text)
}

/// How to set up a session for the plan, or where to learn it.
fn session(arguments: &Optimize, optimized: &Optimized) -> Outcome {
    if !matches!(arguments.planning.runtime, Runtime::Ort) {
        return Ok(ExitCode::SUCCESS);
    }
    let layout = &optimized.layout;
    let Some((language, recipe)) = arguments.session else { return Ok(ExitCode::SUCCESS) };
    let schedule = &layout.schedule;
    let needs = SessionNeeds {
        anchored: arguments.anchors,
        quantized: schedule.iter().any(|row| matches!(row.op.as_str(), "QuantizeLinear" | "DequantizeLinear")),
        transfers: !layout.transfers.is_empty(),
        recomputed: layout.cost.recomputed_nodes > 0,
        peak: layout.target.spaces.first().and_then(|space| layout.peak.get(&space.name)).map_or(0, |peak| peak.bytes),
    };
    print(&Profile::ORT.session_options(language, recipe, needs).unwrap_or_default())
}

/// `dir/name.onnx` to `dir/name.SUFFIX`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    path.with_extension(suffix)
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn known_extension(path: &Path, known: &[&str]) -> Result<(), Failure> {
    if known.contains(&extension(path)) {
        return Ok(());
    }
    let listed = known.join(", .");
    Err(usage(format!("{}: the extension says the format, and this one says none", path.display()), &format!("use .{listed}")))
}

/// The options that shape the plan, as the layout file states them; no paths.
fn stated(arguments: &Optimize) -> BTreeMap<String, String> {
    let planning = &arguments.planning;
    let mut stated = BTreeMap::from([
        ("anchors".to_owned(), arguments.anchors.to_string()),
        ("effort".to_owned(), planning.effort.to_string()),
        ("exact".to_owned(), arguments.exact.to_string()),
        ("rewrite".to_owned(), (!arguments.no_rewrite).to_string()),
        ("std_ops".to_owned(), arguments.std_ops.to_string()),
        ("io".to_owned(), format!("{:?}", planning.io).to_lowercase()),
        ("max_fold_bytes".to_owned(), planning.max_fold_bytes.to_string()),
        ("runtime".to_owned(), format!("{:?}", planning.runtime).to_lowercase()),
    ]);
    let links: Vec<String> = planning.links.iter().map(ToString::to_string).collect();
    if !links.is_empty() {
        stated.insert("link".to_owned(), links.join(" "));
    }
    if let Some(time) = arguments.time_limit {
        stated.insert("time_limit".to_owned(), time.as_secs_f64().to_string());
    }
    if planning.alias_state {
        stated.insert("alias_state".to_owned(), "true".to_owned());
    }
    let pairs: Vec<String> = planning.state.iter().map(|pair| format!("{}={}", pair.new, pair.old)).collect();
    if !pairs.is_empty() {
        stated.insert("state".to_owned(), pairs.join(" "));
    }
    if let Some(space) = &planning.weights {
        stated.insert("weights".to_owned(), space.clone());
    }
    if let Some(parts) = arguments.micro_batches {
        stated.insert("micro_batches".to_owned(), parts.to_string());
    }
    if arguments.slowdown > 0 {
        stated.insert("slowdown".to_owned(), format!("{}%", f64::from(arguments.slowdown) / 100.0));
    }
    if arguments.integer_kernels {
        stated.insert("integer_kernels".to_owned(), "true".to_owned());
    }
    if let Some(block) = arguments.nchwc.and_then(|blocks| blocks.0) {
        stated.insert("nchwc".to_owned(), block.to_string());
    }
    if let Some(passes) = &planning.passes {
        stated.insert("passes".to_owned(), passes.clone());
    }
    let budgets: Vec<String> = arguments
        .budget
        .iter()
        .map(|(space, size)| if space.is_empty() { size.to_string() } else { format!("{space}={size}") })
        .collect();
    if !budgets.is_empty() {
        stated.insert("budget".to_owned(), budgets.join(","));
    }
    if arguments.pareto > 0 {
        stated.insert("pareto".to_owned(), arguments.pareto.to_string());
    }
    let dims: Vec<String> = planning.dims.iter().map(|(name, extent)| format!("{name}={extent}")).collect();
    if !dims.is_empty() {
        stated.insert("dims".to_owned(), dims.join(","));
    }
    let assumed: Vec<String> = planning.assume.iter().map(|(name, size)| format!("{name}={size}")).collect();
    if !assumed.is_empty() {
        stated.insert("assume".to_owned(), assumed.join(","));
    }
    stated
}

fn write(arguments: &Optimize, layouts: &[PathBuf], optimized: &Optimized, voice: &Voice) -> Result<(), Failure> {
    let mut outputs = Outputs::default();
    outputs.add(&arguments.output, |out| optimized.model.write_to(out))?;
    for path in layouts {
        let text = match extension(path) {
            "h" => layout::to_c_header(&optimized.layout),
            "rs" => layout::to_rust(&optimized.layout),
            "csv" => {
                let space = optimized.layout.arenas.first().map(|arena| arena.space.as_str()).unwrap_or_default();
                layout::to_minimalloc_csv(&optimized.layout, space)
            }
            _ => layout::to_json(&optimized.layout).map_err(Error::from)?,
        };
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    }
    let title = arguments.input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    for path in &arguments.report {
        let text = match extension(path) {
            "html" => memc::report::html(&optimized.layout, &HtmlOptions { title: &title, before: optimized.before.as_ref() }),
            "json" => memc::report::json(&optimized.layout),
            _ => memc::report::text(&optimized.layout),
        };
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    }
    let weights = Elsewhere::of(&optimized.model.weight_files, &arguments.input, &arguments.output);
    if arguments.copy_weights {
        weights.copy(&mut outputs)?;
    }
    outputs.commit()?;
    voice.diagnostics(weights.missed().as_slice());
    Ok(())
}

/// For a defect of memc: leaves the imported module and the pipeline beside the output.
fn reproduce(error: Error, file: &ModelFile, options: &OptimizeOptions, output: &Path) -> Failure {
    let trace = match &error {
        Error::Pipeline(PipelineError::Defect { trace, .. }) => Some(trace.clone()),
        _ => options.passes.clone(),
    };
    let mut failure = Failure::from(error);
    if failure.code == 70
        && let Ok(imported) = memc::import::import(file, &options.import)
    {
        let path = beside(output, "repro.mem");
        let contents = format!("// RUN: {}\n{}", trace.unwrap_or_default(), text::print(&imported.module));
        if std::fs::write(&path, contents).is_ok()
            && let Some(diagnostic) = failure.diagnostics.last_mut()
        {
            diagnostic.notes.push(format!("the reproducer is {}", path.display()));
        }
    }
    failure
}
