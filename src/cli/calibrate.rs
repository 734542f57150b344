//! `memc calibrate`: measures kernels of all kinds on this machine, and writes a target file whose modelled
//! times follow from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memc::{Error, Outputs, Planned, Request};
use memc_cost::fit::{self, Probe};
use memc_cost::target::{self, Target};
use memc_cost::{Lines, Machine, amounts};
use memc_ir::{Definition, Module, Node};
use memc_onnx_proto::ModelFile;
use memc_ops::KernelKind;
use memc_ort as play;
use play::{Runtime, SessionOptions, Whole};

use super::calibrate_args::Calibrate;
use super::playing::{load, processor_nanoseconds, refuse};
use super::profile::{Feed, measure, measure_planned, written};
use super::race::median;
use super::{ExitCode, Failure, Outcome, Voice, knowledge, print, read, this_machine, usage};

/// Runs before a session is measured: the first ones pack weights, map them and allocate.
const WARM: u32 = 2;

/// Largest factor by which kernels are taken to be slower in a session than alone.
const MOST_LONGER: f64 = 1.5;

/// Measured kernels of one kind.
type Probes = BTreeMap<KernelKind, Vec<Probe>>;

/// Measures, fits and writes; or compares a target with models.
pub fn run(arguments: &Calibrate, voice: &Voice) -> Outcome {
    let path = match (&arguments.output, &arguments.target) {
        (Some(path), _) | (None, Some(path)) => path,
        (None, None) => {
            return Err(usage(
                "`memc calibrate` has nothing to write".to_owned(),
                "name the target: `-o mine.toml`",
            ));
        }
    };
    if path.extension().is_none_or(|extension| extension != "toml") {
        let message = format!("{} is no name of a target file", path.display());
        return Err(usage(message, "`--target` reads files that end in .toml: name it `mine.toml`"));
    }
    // Names and models are refused before anything is measured.
    let base = base(&arguments.base)?;
    let files: Vec<ModelFile> = opened(&arguments.models)?;
    let checked: Vec<ModelFile> = opened(&arguments.check)?;
    let request = arguments.inputs.request()?;
    let runtime = load(arguments.library.ort_lib.as_deref())?;
    let target = match &arguments.output {
        Some(output) => {
            let text = calibrated(&base, output, &files, &request, &runtime, arguments.repeat, voice)?;
            let mut outputs = Outputs::default();
            outputs.add(output, |out| out.write_all(text.as_bytes()))?;
            outputs.commit()?;
            parsed(output, &text)?
        }
        None => parsed(path, &read(path)?)?,
    };
    if checked.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let request = request.target(target);
    let mut rows = Vec::new();
    for (file, path) in checked.iter().zip(&arguments.check) {
        voice.say(&format!("measuring {} ...", path.display()));
        rows.push(compare(file, path, &request, &runtime, arguments.repeat)?);
    }
    if arguments.json {
        return print(&format!("{:#}\n", json(&rows)));
    }
    print(&table(&rows))
}

/// The text of the target to start from.
fn base(name: &str) -> Result<String, Failure> {
    match target::built_in(name) {
        Some(text) => Ok(text.to_owned()),
        None if name == this_machine::NAME => Ok(this_machine::text()),
        None if Path::new(name).extension().is_some_and(|extension| extension == "toml") => {
            Ok(read(Path::new(name))?)
        }
        None => Err(knowledge::unknown_target(name)),
    }
}

fn parsed(path: &Path, text: &str) -> Result<Target, Failure> {
    Ok(Target::parse(text).map_err(|source| Error::Target { path: path.to_owned(), source })?)
}

fn opened(paths: &[PathBuf]) -> Result<Vec<ModelFile>, Failure> {
    paths.iter().map(|path| Ok(ModelFile::open(path).map_err(Error::from)?)).collect()
}

/// Measures probes and models, and returns the text of the target with a line for each kind.
fn calibrated(
    base: &str,
    output: &Path,
    models: &[ModelFile],
    request: &Request,
    runtime: &Runtime,
    repeat: u32,
    voice: &Voice,
) -> Result<String, Failure> {
    let machine = parsed(output, base)?.machine;
    let mut probes = Probes::new();
    let made = play::probes(memc_passes::nchwc::native_block()).map_err(refuse)?;
    let (mut disturbed, mut longer) = (0, Vec::new());
    let own = Request::default();
    let all = made.iter().map(|file| (file, &own)).chain(models.iter().map(|file| (file, request)));
    for (file, request) in all {
        let planned = measure(file, request, Feed::default(), runtime, repeat)?;
        let module = &planned.planned.module;
        // Kernels take longer in a session: other values are in the caches, and no run has the least time
        // of each.
        let alone: u64 = planned.rows.iter().map(|row| row.processor).sum();
        let folder = file.path().and_then(Path::parent).unwrap_or(Path::new(""));
        let whole = in_session(&planned.planned, &written(&planned.planned)?, folder, runtime, repeat)?;
        longer.push(whole / (alone as f64).max(1.0));
        for (row, node) in planned.rows.iter().zip(&module.graph(module.main()).nodes) {
            disturbed += u32::from(row.is_disturbed);
            if row.processor == 0 || reads_input(module, *node) {
                continue;
            }
            if let Some(amounts) = amounts(module, *node, &machine) {
                let kind = KernelKind::of(module, *node);
                probes.entry(kind).or_default().push(Probe { amounts, nanos: row.processor as f64 });
            }
        }
    }
    let longer = median(&longer).clamp(1.0, MOST_LONGER);
    probes.values_mut().flatten().for_each(|probe| probe.nanos *= longer);
    let mut lines = Lines::default();
    let mut text = format!("{:<22} {:>7} {:>9}\n", "kind", "probes", "error");
    for (kind, probes) in &probes {
        let Some(line) = fit::fit(probes, 1e9 / machine.bytes_per_second) else { continue };
        text += &format!("{:<22} {:>7} {:>7.1} %\n", kind.name(), probes.len(), line.error * 100.0);
        lines.set(*kind, line);
    }
    voice.say(text.trim_end());
    voice.say(&format!(
        "kernels take {longer:.2} of their own time in a session (median over {} models)",
        made.len() + models.len()
    ));
    if disturbed > 0 {
        voice.say(&format!(
            "{disturbed} kernels were disturbed by other work in each run: their least processor time is used"
        ));
    }
    let stem = output.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let from = format!("{}; {}", this_machine::processor(), runtime.version());
    Ok(target::calibrated(base, &name_of(&stem), &from, &lines))
}

/// A name that target files accept, from the name of a file.
fn name_of(stem: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let name: String = stem.chars().map(|letter| if plain(letter) { letter } else { '-' }).take(64).collect();
    if name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        name
    } else {
        format!("m{name}").chars().take(64).collect()
    }
}

/// Whether a node reads an input of the graph: no node has left it in a cache.
fn reads_input(module: &Module, node: Node) -> bool {
    module.node(node).operands().any(|value| matches!(module.value(value).definition, Definition::Input(..)))
}

/// Modelled and measured time of a model.
struct Compared {
    name: String,
    /// Modelled nanoseconds of the plan.
    modelled: f64,
    /// Least processor nanoseconds of a run of the planned model in one session.
    measured: f64,
    /// Measured and modelled nanoseconds by kind of kernel, each kernel alone.
    kinds: BTreeMap<KernelKind, (f64, f64)>,
}

/// Plans a model for the target, and measures its plan in one session and kernel by kernel.
fn compare(
    file: &ModelFile,
    path: &Path,
    request: &Request,
    runtime: &Runtime,
    repeat: u32,
) -> Result<Compared, Failure> {
    let planned = memc::plan(file, &request.clone().runtime(memc::Runtime::Ort))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let written = written(&planned)?;
    let mut kinds: BTreeMap<KernelKind, (f64, f64)> = BTreeMap::new();
    let machine: Machine = request.target.machine;
    let measured = measure_planned(&planned, &written, folder, Feed::default(), runtime, repeat)?;
    for (row, node) in measured.iter().zip(&planned.module.graph(planned.module.main()).nodes) {
        let sum = kinds.entry(KernelKind::of(&planned.module, *node)).or_default();
        sum.0 += row.processor as f64;
        sum.1 += if row.processor > 0 { memc_cost::nanos(&planned.module, *node, &machine).0 } else { 0.0 };
    }
    let least = in_session(&planned, &written, folder, runtime, repeat)?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Compared { name, modelled: planned.layout.cost.modelled_ns_after, measured: least, kinds })
}

/// Returns the least processor nanoseconds of a run of a planned model in one session.
fn in_session(
    planned: &Planned,
    written: &ModelFile,
    folder: &Path,
    runtime: &Runtime,
    repeat: u32,
) -> Result<f64, Failure> {
    let inputs = play::inputs::make(written, &planned.layout, 0).map_err(refuse)?;
    let options = SessionOptions { arena: true, ..SessionOptions::PLAIN };
    let session = Whole::beside(runtime, written, folder, options).map_err(refuse)?;
    let mut least = u64::MAX;
    for round in 0..repeat.max(1) + WARM {
        let before = processor_nanoseconds();
        let results = session.results(&inputs).map_err(refuse)?;
        let after = processor_nanoseconds();
        drop(results);
        least = if round < WARM { least } else { least.min(after.saturating_sub(before)) };
    }
    Ok(least as f64)
}

/// Formats the comparison: a line for each model, then for each kind over all models.
fn table(rows: &[Compared]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(22);
    let mut text = format!(
        "{:<width$} {:>12} {:>12} {:>8} {:>12}\n",
        "model", "modelled", "measured", "ratio", "kernels"
    );
    let line = |name: &str, modelled: f64, measured: f64| {
        let ratio = if measured > 0.0 { format!("{:.2}", modelled / measured) } else { "-".to_owned() };
        format!("{name:<width$} {:>9.3} ms {:>9.3} ms {ratio:>8}\n", modelled / 1e6, measured / 1e6)
    };
    for row in rows {
        let kernels: f64 = row.kinds.values().map(|(measured, _)| measured).sum();
        text += line(&row.name, row.modelled, row.measured).trim_end();
        text += &format!(" {:>9.3} ms\n", kernels / 1e6);
    }
    let (error, spread) = verdict(rows);
    text += &format!("mean error {:.1} %, largest ratio over smallest {spread:.2}\n\n", error * 100.0);
    text += &format!("{:<width$} {:>12} {:>12} {:>8}\n", "kernels alone", "modelled", "measured", "ratio");
    text.extend(
        by_kind(rows).into_iter().map(|(kind, (measured, modelled))| line(kind.name(), modelled, measured)),
    );
    text
}

/// Sums of all models by kind.
fn by_kind(rows: &[Compared]) -> BTreeMap<KernelKind, (f64, f64)> {
    let mut kinds: BTreeMap<KernelKind, (f64, f64)> = BTreeMap::new();
    for (kind, (measured, modelled)) in rows.iter().flat_map(|row| &row.kinds) {
        let sum = kinds.entry(*kind).or_default();
        *sum = (sum.0 + measured, sum.1 + modelled);
    }
    kinds.retain(|_, (measured, _)| *measured > 0.0);
    kinds
}

/// Mean of the relative errors, and the largest ratio of modelled to measured time over the smallest.
fn verdict(rows: &[Compared]) -> (f64, f64) {
    let ratios: Vec<f64> = rows.iter().map(|row| row.modelled / row.measured.max(1.0)).collect();
    let error = ratios.iter().map(|ratio| (ratio - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64;
    let (least, most) = ratios
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
    (error, if least > 0.0 { most / least } else { f64::INFINITY })
}

fn json(rows: &[Compared]) -> serde_json::Value {
    let (error, spread) = verdict(rows);
    let kinds = |kinds: &BTreeMap<KernelKind, (f64, f64)>| {
        let row = |(kind, (measured, modelled)): (&KernelKind, &(f64, f64))| serde_json::json!({"kind": kind.name(), "modelled_ns": modelled.round(), "cpu_ns": measured});
        kinds.iter().map(row).collect::<Vec<_>>()
    };
    let models = rows.iter().map(|row| {
        serde_json::json!({
            "name": row.name, "modelled_ns": row.modelled.round(), "cpu_ns": row.measured, "kinds": kinds(&row.kinds),
        })
    });
    serde_json::json!({"models": models.collect::<Vec<_>>(), "mean_error": error, "spread": spread, "kinds": kinds(&by_kind(rows))})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_become_names_of_targets() {
        for (stem, name) in
            [("mine", "mine"), ("my machine", "my-machine"), ("7950x", "m7950x"), ("", "m"), ("ü", "m-")]
        {
            assert_eq!(name_of(stem), name);
        }
    }

    #[test]
    fn the_verdict_weighs_ratios() {
        let row =
            |modelled, measured| Compared { name: String::new(), modelled, measured, kinds: BTreeMap::new() };
        let (error, spread) = verdict(&[row(110.0, 100.0), row(80.0, 100.0)]);
        assert!((error - 0.15).abs() < 1e-9 && (spread - 1.375).abs() < 1e-9, "{error} {spread}");
    }
}
