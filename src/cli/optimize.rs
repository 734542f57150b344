//! `memc optimize`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use memc::{Error, Measurements, Model, Outputs, Planned, Request, Runtime, known_extension, read};
use memc_ir::{Bytes, Diagnostic, text};
use memc_layout as layout;
use memc_ops::Rounding;
use memc_passes::{Encoding, PipelineError, Rewriting};
use memc_plan::{Entry, Verdict};

use super::args::{Codes, Optimize};
use super::knowledge;
use super::observe::Watch;
use super::progress::Progress;
use super::sessions;
use super::weights::Elsewhere;
use super::{DEFECT, ExitCode, Failure, Outcome, Voice, depfile, is_stream, open, print, usage};

/// Plans a model and writes it with its layouts and reports.
pub fn run(arguments: &Optimize, voice: &Voice) -> Outcome {
    check(arguments)?;
    let layouts = layouts(arguments);
    let file = open(&arguments.input)?;
    let request = request(arguments)?;
    // Contradictory options are rejected before the model is read.
    request.options()?;
    let mut watch =
        Watch::new(arguments.print_ir_after.clone(), arguments.dump_dir.clone(), arguments.time_passes);
    let mut progress = Progress::new(voice, file.graph().node.len());
    let mut seen = Vec::new();
    let planned = memc::plan_watched(&file, &request, &mut watch, &mut |entry| {
        progress.tell(entry);
        seen.extend(Some(entry).filter(|entry| entry.verdict != Verdict::Searching).cloned());
    });
    progress.end();
    let optimized = match planned {
        Ok(optimized) => optimized,
        Err(error) => {
            if arguments.log_plans && !seen.is_empty() {
                voice.say(candidates(&seen).trim_end());
            }
            return Err(reproduce(error, &file, &request, arguments));
        }
    };
    let files = |arguments: &Optimize, file: &Model, planned: &Planned| {
        write(arguments, file, &self::layouts(arguments), planned).map(drop)
    };
    let (optimized, program) = sessions::settle(arguments, &request, &file, optimized, voice, &files)?;
    voice.diagnostics(&optimized.diagnostics);
    if arguments.log_plans {
        voice.say(&log(&optimized));
    }
    let missed = write(arguments, &file, &layouts, &optimized)?;
    voice.diagnostics(missed.as_slice());
    if arguments.json {
        return print(&memc_report::json(&optimized.layout));
    }
    if !optimized.layout.pareto.is_empty() {
        voice.say(&curve(&optimized.layout));
    }
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, count) in optimized.claims.rewritten().flat_map(|window| &window.rules) {
        *rules.entry(rule).or_default() += count;
    }
    if !rules.is_empty() {
        let rules: Vec<String> = rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
        voice.say(&format!("rewritten by {}", rules.join(", ")));
    }
    if !arguments.integer_kernels
        && !arguments.exact
        && arguments.encode_weights.is_none()
        && computes_with_dequantized(&optimized)
    {
        voice.say(
            "this model dequantizes before it computes; `--integer-kernels` uses integer kernels instead",
        );
    }
    if !arguments.exact
        && !rules.is_empty()
        && let Some(op) = rounds(&optimized.layout)
    {
        voice.say(&format!(
            "this model rounds to integers or lengths ({op}): if a rewrite changes the last bit of a number, the integer may change by 1; `--exact` keeps every bit"
        ));
    }
    if let Some(row) = optimized.layout.unpaired.iter().find(|row| row.candidates.len() > 1)
        && let Some(old) = row.candidates.first()
    {
        let message = "outputs that may be new values of several inputs have storage of their own (`unpaired` in the layout)";
        voice.say(&format!("{message}; name a pair to share it: `--state {}={old}`", row.result));
    }
    if let Some(recipes) = recipes(arguments, &optimized.layout) {
        voice.say(recipes);
    }
    voice.say(&memc_report::text(&optimized.layout));
    if arguments.output.is_none() {
        voice.say(&unwritten(arguments));
    }
    program.map_or(Ok(ExitCode::SUCCESS), |program| print(&program))
}

/// Rejects arguments that name an unknown format or pass, or that have no effect without another one.
pub fn check(arguments: &Optimize) -> Result<(), Failure> {
    for path in &layouts(arguments) {
        known_extension(path, memc::LAYOUTS)?;
    }
    for path in &arguments.report {
        known_extension(path, memc::REPORTS)?;
    }
    if arguments.session.is_some() && arguments.machine.runtime != Runtime::Ort {
        return Err(usage(
            "`--session` sets up ONNX Runtime sessions, which need `--runtime ort`".to_owned(),
            match arguments.machine.runtime {
                Runtime::Cuda => "in Python, `memc.ort.replay` sets up a session on the device",
                _ => "add `--runtime ort`",
            },
        ));
    }
    if (arguments.json || arguments.session.is_some()) && arguments.output.as_deref().is_some_and(is_stream) {
        return Err(usage(
            "stdout cannot hold the model and other text".to_owned(),
            "name a file: `-o OUT.onnx`",
        ));
    }
    if arguments.depfile.is_some() && arguments.output.as_deref().is_none_or(is_stream) {
        return Err(usage(
            "`--depfile` needs a planned model as the target of its rule".to_owned(),
            "name it: `-o OUT.onnx`",
        ));
    }
    if arguments.external_data.is_some() && arguments.output.as_deref().is_none_or(is_stream) {
        return Err(usage(
            "`--external-data` needs a folder to write to".to_owned(),
            "name the planned model: `-o OUT.onnx`",
        ));
    }
    if !arguments.force
        && let Some(path) = outputs(arguments).find(|path| is_same_file(path, &arguments.input))
    {
        let message = format!("{} is the given model, which would be lost", path.display());
        return Err(usage(message, "name another file, or replace the given model with `--force`"));
    }
    for name in arguments.print_ir_after.iter().filter(|name| *name != "all") {
        knowledge::known_pass(name)?;
    }
    outputs(arguments).try_for_each(Outputs::check_path)?;
    Ok(())
}

/// The files that a run writes, without weights.
fn outputs(arguments: &Optimize) -> impl Iterator<Item = &Path> {
    let models = arguments.output.iter().filter(|output| !is_stream(output));
    models.chain(&arguments.layout).chain(&arguments.report).chain(&arguments.depfile).map(PathBuf::as_path)
}

/// Whether two paths name one file that exists.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The request that the arguments state.
pub fn request(arguments: &Optimize) -> Result<Request, Failure> {
    let mut request = arguments.machine.request(&arguments.inputs)?;
    request.measured = arguments.profile.as_deref().map(measured).transpose()?;
    request.rewrite = Rewriting {
        enabled: !arguments.no_rewrite,
        exact: arguments.exact,
        standard: arguments.std_ops,
        integer_kernels: arguments.integer_kernels,
        rows: true,
        nchwc: arguments.nchwc.and_then(|blocks| blocks.0),
        micro_batches: arguments.micro_batches,
        slowdown: arguments.slowdown,
    };
    request.encode = Encoding {
        exact: arguments.encode == Codes::Exact,
        lossy: arguments.lossy.iter().map(|form| (*form).into()).collect(),
        keep_wide: arguments.keep_wide.clone(),
        weights: arguments.encode_weights.map(Into::into),
    };
    request.budgets.clone_from(&arguments.budget);
    request.slo = arguments.slo;
    request.max_value = arguments.max_value.map(Bytes);
    request.pareto = arguments.pareto;
    request.last_token = arguments.last_token;
    request.engines = arguments.engines;
    request.anchors = arguments.anchors;
    request.external_data.clone_from(&arguments.external_data);
    request.time_limit = arguments.time_limit;
    request.compare =
        arguments.report.iter().any(|path| path.extension().is_some_and(|extension| extension == "html"));
    request.verify = cfg!(debug_assertions);
    Ok(request)
}

/// Reads measured times.
fn measured(path: &Path) -> Result<Measurements, Failure> {
    let told = |source| Error::Profile { path: path.to_owned(), source };
    Ok(Measurements::from_json(&read(path)?).map_err(told)?)
}

/// The layouts to write: those requested, or one next to the planned model.
pub fn layouts(arguments: &Optimize) -> Vec<PathBuf> {
    match (&arguments.layout[..], &arguments.output) {
        ([], Some(output)) if is_stream(output) => Vec::new(),
        ([], Some(output)) => vec![beside(output, "layout.json")],
        (given, _) => given.to_vec(),
    }
}

/// States which option writes the planned model, and to which files.
fn unwritten(arguments: &Optimize) -> String {
    let output = arguments.input.with_extension("planned.onnx");
    let layout = beside(&output, "layout.json");
    format!(
        "no model was written; `-o {}` writes it, and its layout to {}",
        output.display(),
        layout.display()
    )
}

/// Whether the model dequantizes integers, computes with numbers, and quantizes the results.
fn computes_with_dequantized(optimized: &Planned) -> bool {
    let schedule = &optimized.layout.schedule;
    let has = |op: &str| schedule.iter().any(|row| row.op == op);
    has("QuantizeLinear") && has("DequantizeLinear") && ["Conv", "Gemm", "MatMul"].into_iter().any(has)
}

/// Finds the first operator that can turn a last bit into another integer: it rounds to integers of few
/// bits, or to whole numbers in a model with sizes that follow from data.
fn rounds(layout: &layout::Layout) -> Option<&str> {
    let has_lengths = !layout.unplanned.is_empty();
    let decides =
        |row: &&layout::ScheduledNode| match memc_ops::find(&row.domain, &row.op).map(|info| info.rounding) {
            Some(Rounding::FewBits) => true,
            Some(Rounding::Whole) => has_lengths,
            Some(Rounding::None) | None => false,
        };
    layout.schedule.iter().find(decides).map(|row| row.op.as_str())
}

/// Formats the candidates, a line each, and the pipeline that repeats the plan.
fn log(optimized: &Planned) -> String {
    if optimized.log.is_empty() {
        return format!("the plan repeats with --passes '{}'", optimized.trace);
    }
    let text = candidates(&optimized.log);
    text + &format!("the plan of `{}` repeats with --passes '{}'", optimized.strategy, optimized.trace)
}

/// Returns the candidates of a search as a table, a line each.
fn candidates(entries: &[Entry]) -> String {
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(String::new, |bytes| bytes.exact());
    let time =
        |nanos: Option<u64>| nanos.map_or_else(String::new, |nanos| format!("{:.3} ms", nanos as f64 / 1e6));
    let mut text = format!(
        "{:<28} {:>16} {:>14} {:>8}  {:<32} {}\n",
        "strategy", "bytes", "time", "effort", "verdict", "candidate"
    );
    let mut without = entries.first().map_or("", |entry| &entry.without);
    if !without.is_empty() {
        text += &format!("without {without}:\n");
    }
    for entry in entries {
        if entry.without != without {
            without = &entry.without;
            text += &if without.is_empty() {
                "with all requested options:\n".to_owned()
            } else {
                format!("without {without}:\n")
            };
        }
        let (bytes, time, verdict) = (bytes(entry.bytes), time(entry.nanos), entry.verdict.words());
        text += &format!(
            "{:<28} {bytes:>16} {time:>14} {:>8}  {verdict:<32} {}\n",
            entry.strategy, entry.effort, entry.candidate
        );
    }
    text
}

/// Formats budgets with arena and extra time of their plans, in percent of the given model's time, as a
/// table.
fn curve(layout: &layout::Layout) -> String {
    let Some(last) = layout.pareto.last() else { return String::new() };
    let base = layout.pareto.iter().map(|point| point.budget).fold(last.budget, u64::max);
    let percent = |part: u64, whole: f64| 100.0 * part as f64 / whole;
    let time = layout.cost.modelled_ns_before.max(1.0);
    let rows = layout.pareto.iter().map(|point| {
        let bound =
            point.bound.map_or_else(|| "?".to_owned(), |bound| format!("{:.2} %", percent(bound, time)));
        let (share, extra) = (percent(point.budget, base as f64), percent(point.extra_ns, time));
        let (budget, arena) = (Bytes(point.budget).exact(), Bytes(point.arena).exact());
        format!("{budget:>18} {share:>6.1} % {arena:>18} {extra:>8.2} % {bound:>10}\n")
    });
    let head = format!("{:>18} {:>8} {:>18} {:>10} {:>10}\n", "budget", "", "arena", "extra time", "bound");
    std::iter::once(head).chain(rows).collect()
}

/// Names the session options that a plan for stock ONNX Runtime needs, unless `--session` prints them.
fn recipes(arguments: &Optimize, layout: &layout::Layout) -> Option<&'static str> {
    if arguments.machine.runtime == Runtime::Cuda {
        return Some("to run the plan on the device in one block, use `memc.ort.replay` in Python");
    }
    let is_open = arguments.machine.runtime == Runtime::Ort && arguments.session.is_none();
    let text = match layout.cost.recomputed_nodes {
        0 => {
            "to keep the peak, set up the session with `--session python=smallest` (or cpp, csharp, rust); `fast` keeps a session's optimizations"
        }
        _ => {
            "`--session python` (or cpp, csharp, rust) prints the options that this plan needs: `smallest` keeps the peak; a default session undoes the plan"
        }
    };
    is_open.then_some(text)
}

/// `dir/name.onnx` to `dir/name.SUFFIX`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    path.with_extension(suffix)
}

/// Writes the planned model, its layouts and its reports. Returns a warning if the written model reads
/// weights that are not beside it.
pub fn write(
    arguments: &Optimize,
    file: &Model,
    layouts: &[PathBuf],
    optimized: &Planned,
) -> Result<Option<Diagnostic>, Failure> {
    let mut outputs = Outputs::default();
    let output = arguments.output.as_ref().filter(|output| !is_stream(output));
    if let Some(output) = output {
        outputs.add(output, |out| optimized.model.write_to(out))?;
    }
    for path in layouts {
        let text = optimized.layout_text(path)?;
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    }
    let title =
        arguments.input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    for path in &arguments.report {
        let text = optimized.report_text(path, &title)?;
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    }
    if let (Some(external), Some(output)) = (&arguments.external_data, output) {
        external.add_to(&mut outputs, optimized, &arguments.input, output)?;
    }
    if let (Some(path), Some(output)) = (&arguments.depfile, output) {
        let mut sources = depfile::sources(&arguments.input, file, &arguments.machine);
        sources.extend(arguments.profile.clone());
        let rule = depfile::rule(
            [output.as_path()].into_iter().chain(layouts.iter().map(PathBuf::as_path)),
            &sources,
        );
        outputs.add(path, |out| out.write_all(rule.as_bytes()))?;
    }
    let weights = output.map(|output| Elsewhere::of(&optimized.model.weight_files, &arguments.input, output));
    if let Some(weights) = weights.as_ref().filter(|_| !arguments.weights_in_place) {
        weights.send_along(&mut outputs)?;
    }
    outputs.commit()?;
    if arguments.output.as_deref().is_some_and(is_stream) {
        stream(optimized)?;
    }
    Ok(weights.and_then(|weights| weights.missed()))
}

/// Writes the planned model to stdout.
fn stream(optimized: &Planned) -> Result<(), Error> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = optimized.model.write_to(&mut out).and_then(|()| out.flush());
    written.map_err(|source| Error::File { what: "write", path: "the model to stdout".into(), source })
}

/// Writes the imported module and the pipeline beside the output if the error is a defect of memc.
fn reproduce(error: Error, file: &Model, request: &Request, arguments: &Optimize) -> Failure {
    let trace = match &error {
        Error::Pipeline(PipelineError::Defect { trace, .. }) => Some(trace.clone()),
        _ => request.passes.clone(),
    };
    let mut failure = Failure::from(error);
    if failure.code == DEFECT
        && let Ok(imported) = memc_onnx_import::import(file, &request.import)
    {
        let path = beside(arguments.output.as_ref().unwrap_or(&arguments.input), "repro.mem");
        let contents = format!("// RUN: {}\n{}", trace.unwrap_or_default(), text::print(&imported.module));
        if std::fs::write(&path, contents).is_ok()
            && let Some(diagnostic) = failure.diagnostics.last_mut()
        {
            diagnostic.notes.push(format!("the reproducer is {}", path.display()));
        }
    }
    failure
}
