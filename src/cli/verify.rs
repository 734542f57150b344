//! `memc verify`: checks a plan, then runs both models and the plan on the same inputs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use memc::ir::{Diagnostic, Severity};
use memc::proto::ModelFile;
use memc::{Error, play};
use play::{Tolerance, VerifyOptions};
use serde_json::json;

use super::args::Verify;
use super::playing::{given, layout, load, refuse};
use super::{Failure, Outcome, Voice, print, say};

/// Violations and differences that are printed.
const MOST: usize = 20;

/// Verifies a plan by its files and by running it.
pub fn run(arguments: &Verify, voice: &Voice) -> Outcome {
    let input = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let output = ModelFile::open(&arguments.output).map_err(Error::from)?;
    let beside = arguments.output.with_extension("layout.json");
    let layout = layout(arguments.layout.as_deref().unwrap_or(&beside))?;
    let report = memc::check::check(&input, &output, &layout, Default::default());
    for violation in report.violations.iter().take(MOST) {
        say(&violation.diagnostic.to_string());
    }
    if !report.holds() {
        voice.say(&format!("check: {} violations; nothing was run", report.violations.len()));
        return Ok(ExitCode::from(1));
    }
    voice.say("check: nothing wrong");
    let runtime = load(arguments.playing.library.ort_lib.as_deref())?;
    let inputs = given(arguments.inputs.as_deref())?;
    let options = VerifyOptions {
        rounds: arguments.rounds,
        seed: arguments.seed,
        tolerance: tolerance(arguments, &layout.options),
        poison_check: arguments.playing.poison_check,
        swap_folder: arguments.playing.swap_dir.clone(),
    };
    let found = play::verify(&runtime, &input, &output, &layout, inputs.as_ref(), options).map_err(refuse)?;
    for (round, subject, difference) in found.differences.iter().take(MOST) {
        voice.say(&format!("{subject}, round {round}: {difference}"));
    }
    if let Some(window) = &found.window {
        voice.say(&format!("the first rewritten window whose results differ: {window}"));
    }
    if let Some(node) = &found.first {
        voice.say(&format!("the first node whose result differs: {node}"));
    }
    let rounds = if inputs.is_some() { 1 } else { arguments.rounds.max(1) };
    if arguments.json {
        let differences = found.differences.iter().map(|(round, subject, difference)| {
            json!({"round": round, "subject": subject.to_string(), "text": difference.to_string(), "within": difference.is_within()})
        });
        let window = found.window.as_ref().map(|window| {
            json!({"window": window.window, "rules": window.rules, "given": window.given, "written": window.difference.output,
                "text": window.difference.to_string()})
        });
        let played = found.played.as_ref().map(|played| {
            let arenas =
                played.arenas.iter().map(|arena| json!({"space": arena.space, "planned": arena.planned, "used": arena.used}));
            json!({"arenas": arenas.collect::<Vec<_>>(), "bytes_outside": played.bytes_outside(), "outside": played.outside.len(),
                "workspace_beyond": played.workspace_beyond(), "ran": played.ran, "skipped": played.skipped})
        });
        let object = json!({"ok": found.holds(), "outputs": found.outputs, "rounds": rounds, "identical": found.differences.is_empty(),
            "differences": differences.collect::<Vec<_>>(), "first": found.first, "window": window, "before_softmaxes": found.softmaxes, "played": played});
        print(&format!("{object:#}\n"))?;
    }
    if !found.holds() {
        let text = format!("results differ: {} outputs, {rounds} rounds", found.outputs);
        return Err(Failure { diagnostics: vec![Diagnostic::new("E0709", Severity::Error, text)], code: 1 });
    }
    let word = if found.differences.is_empty() { "bit for bit" } else { "within the tolerance" };
    let softmaxes = match found.softmaxes {
        0 => String::new(),
        count => format!("; {count} values before softmaxes too"),
    };
    voice.say(&format!(
        "verify: {} outputs equal {word} in {rounds} rounds: the written model, and the plan played{softmaxes}",
        found.outputs
    ));
    Ok(ExitCode::SUCCESS)
}

/// What was asked for. Without, what the plan's options admit: rewrites that round otherwise unless it was asked to be exact.
fn tolerance(arguments: &Verify, options: &BTreeMap<String, String>) -> Tolerance {
    let is_exact = options.get("exact").is_some_and(|value| value == "true");
    let usual = if is_exact { Tolerance::default() } else { Tolerance::of_roundings() };
    Tolerance {
        relative: arguments.rtol.unwrap_or(usual.relative),
        absolute: arguments.atol.unwrap_or(usual.absolute),
        of_largest: if arguments.atol.is_some() { 0.0 } else { usual.of_largest },
        of_range: if arguments.atol.is_some() { 0.0 } else { usual.of_range },
    }
}
