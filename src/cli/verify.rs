//! `memc verify`: checks a plan, then runs both models and the plan on equal inputs.

use memc::{Error, Weights};
use memc_ir::{Diagnostic, Severity};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ort as play;
use play::{Difference, Loss, Subject, Tolerance, Verified, VerifyOptions};
use serde_json::json;

use super::args::Verify;
use super::playing::{given, layout_of, load, nanoseconds, refuse};
use super::{ExitCode, Failure, Outcome, Voice, print, say};

/// Largest number of printed violations and differences.
const MAX_ROWS: usize = 20;
/// Largest number of printed outputs of a plan that rounds values.
const MAX_LOSSES: usize = 5;

/// Verifies a plan by its files and by running it.
pub fn run(arguments: &Verify, voice: &Voice) -> Outcome {
    let input = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let output = ModelFile::open(&arguments.output).map_err(Error::from)?;
    let layout = layout_of(&arguments.output, arguments.layout.as_deref())?;
    let report = Weights::beside(&input, &output).check(&input, &output, &layout);
    for violation in report.violations.iter().take(MAX_ROWS) {
        say(&violation.diagnostic.to_string());
    }
    if !report.holds() {
        voice.say(&format!(
            "check: {} violations; nothing was run. Name the layout that was written with this model (`--layout`), or plan again; `memc explain \
             CODE` explains each code",
            report.violations.len()
        ));
        return Ok(ExitCode::from(1));
    }
    voice.say("check: nothing wrong");
    // Outputs of which the plan has the last row are compared with the last row of the given model's.
    let cut = memc_check::with_last_rows(&input, &layout).ok().flatten();
    let input = cut.as_ref().unwrap_or(&input);
    let runtime = load(arguments.playing.library.ort_lib.as_deref())?;
    let inputs = given(arguments.inputs.as_deref(), input)?;
    let options = VerifyOptions {
        rounds: arguments.rounds,
        seed: arguments.seed,
        tolerance: tolerance(arguments, &layout),
        lossy_bound: arguments.lossy_bound,
        poison_check: arguments.playing.poison_check,
        swap_folder: arguments.playing.swap_dir.clone(),
        at: arguments.at.clone(),
        max_points: arguments.points,
        clock: Some(nanoseconds),
    };
    let found = play::verify(&runtime, input, &output, &layout, inputs.as_ref(), options).map_err(refuse)?;
    differences(&found).iter().for_each(|line| voice.say(line));
    for (round, subject, difference) in found.carried.iter().take(MAX_ROWS) {
        voice.say(&format!(
            "{subject}, {}: {difference}; within the tolerance once integers before it are set equal",
            found.round(*round)
        ));
    }
    for (round, subject, difference, own) in found.unstable.iter().take(MAX_ROWS) {
        voice.say(&format!(
            "{subject}, {}: {difference}; the given model differs from itself by up to {own:e} when its kernels add in another order, as with \
             rows run one at a time: its result is known no better",
            found.round(*round)
        ));
    }
    if let Some(window) = &found.window {
        voice.say(&format!("the first rewritten fragment whose results differ: {window}"));
    }
    if let Some(node) = &found.first {
        voice.say(&format!("the first node whose result differs: {node}"));
    }
    let rounds = match found.points.len() as u64 {
        0 if inputs.is_some() => 1,
        0 => arguments.rounds.max(1),
        points => points,
    };
    points(&found, voice);
    for (name, kind) in found.left_out.iter().take(MAX_ROWS) {
        voice.say(&format!("`{name}` was not compared: it is {kind}"));
    }
    stock(&found, rounds, voice);
    let is_identical = found.loss.is_none()
        && found.differences.is_empty()
        && found.carried.is_empty()
        && found.unstable.is_empty();
    if let Some(loss) = &found.loss {
        say_loss(loss, voice);
    }
    if arguments.json {
        let stock =
            found.stock.differences.iter().map(
                |(round, difference)| json!({"round": round, "text": difference.to_string(), "within": difference.is_within()}),
            );
        let stock = json!({"identical": found.stock.refused.is_none() && found.stock.differences.is_empty(),
            "differences": stock.collect::<Vec<_>>(), "refused": found.stock.refused});
        let left_out: Vec<&str> = found.left_out.iter().map(|(name, _)| name.as_str()).collect();
        let list = |differences: &[(u64, Subject, Difference)]| -> Vec<_> {
            let row = |(round, subject, difference): &(u64, Subject, Difference)| json!({"round": round, "subject": subject.to_string(), "text": difference.to_string(), "within": difference.is_within()});
            differences.iter().map(row).collect()
        };
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
        let unstable: Vec<_> = found.unstable.iter().map(|(round, subject, difference, own)| json!({"round": round, "subject": subject.to_string(), "text": difference.to_string(), "own": own})).collect();
        let object = json!({"ok": found.holds(), "outputs": found.outputs, "rounds": rounds, "identical": is_identical,
            "differences": list(&found.differences), "carried": list(&found.carried), "unstable": unstable, "first": found.first, "window": window, "before_softmaxes": found.softmaxes, "steps": found.steps, "played": played, "left_out": left_out, "stock": stock, "loss": found.loss.as_ref().map(loss_value),
            "points": found.points.iter().map(|point| &point.0).collect::<Vec<_>>(), "points_left_out": found.skipped,
            "special_numbers": found.special.is_some(),
            "points_refused": found.refused.iter().map(|(point, _)| &point.0).collect::<Vec<_>>()});
        print(&format!("{object:#}\n"))?;
    }
    if found.outputs == 0 {
        return Err(nothing(&found));
    }
    if let Some(loss) = found.loss.as_ref().filter(|loss| !loss.is_within()) {
        return Err(too_lossy(loss));
    }
    if !found.holds() {
        let beyond = found.differences.iter().find(|(.., difference)| !difference.is_within());
        let text = match beyond.filter(|_| !found.points.is_empty()) {
            Some((round, ..)) => {
                format!("results differ {}: {} outputs, {rounds} points", found.round(*round), found.outputs)
            }
            None => format!("results differ: {} outputs, {rounds} rounds", found.outputs),
        };
        let help = "random numbers in the model or its kernels may be the cause; else plan it again with `--exact`, and report the difference";
        return Err(Failure {
            diagnostics: vec![Diagnostic::new("E0709", Severity::Error, text).with_help(help)],
            code: 1,
        });
    }
    let word = match &found.loss {
        _ if is_identical => "bit for bit",
        _ if !found.unstable.is_empty() => "as far as the given model is determined",
        Some(_) => "but for rounded values",
        None => "within the tolerance",
    };
    let softmaxes = match found.softmaxes {
        0 => String::new(),
        count => format!("; {count} values before softmaxes too"),
    };
    let left_out = match found.left_out.len() {
        0 => String::new(),
        count => format!("; {count} outputs left out"),
    };
    let special = if found.special.is_some() { ", and on special numbers" } else { "" };
    let steps = if found.steps > 0 { format!(", in {} steps", found.steps) } else { String::new() };
    voice.say(&format!(
        "verify: {} outputs equal {word} in {rounds} {}{special}{steps}: the written model, and the plan played{softmaxes}{left_out}",
        found.outputs,
        if found.points.is_empty() { "rounds" } else { "points" }
    ));
    Ok(ExitCode::SUCCESS)
}

/// Prints the relative error over all outputs, and the outputs with the largest errors.
fn say_loss(loss: &Loss, voice: &Voice) {
    voice.say(&format!(
        "rounded values: relative error {:.1e} over all outputs, at most {:e} is allowed",
        loss.global, loss.bound
    ));
    for row in loss.outputs().iter().take(MAX_LOSSES).filter(|row| row.relative > 0.0) {
        voice.say(&format!("`{}`: relative error {:.1e}", row.output, row.relative));
    }
}

/// Returns the relative errors as JSON; an infinite error is null.
fn loss_value(loss: &Loss) -> serde_json::Value {
    let outputs: Vec<_> = loss
        .outputs()
        .into_iter()
        .map(|row| json!({"output": row.output, "relative": row.relative}))
        .collect();
    json!({"global": loss.global, "bound": loss.bound, "within": loss.is_within(), "outputs": outputs})
}

/// Fails because rounded values change the outputs beyond the bound.
fn too_lossy(loss: &Loss) -> Failure {
    let text =
        format!("relative error {:.1e} over all outputs, at most {:e} is allowed", loss.global, loss.bound);
    let help = "allow more with `--lossy-bound`, or plan without rounded values";
    Failure { diagnostics: vec![Diagnostic::new("E0714", Severity::Error, text).with_help(help)], code: 1 }
}

/// A difference, with its round and its subject.
type Row = (u64, Subject, Difference);

/// Returns a line for each output that differs: its first difference beyond the tolerance, else its first
/// one, and the number of the others. A plan for ranges has many rounds, and a line for each point says
/// which are within the tolerance.
fn differences(found: &Verified) -> Vec<String> {
    let mut outputs: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in
        found.differences.iter().filter(|(.., difference)| found.points.is_empty() || !difference.is_within())
    {
        let name = row.2.output.as_str();
        match outputs.iter_mut().find(|(output, _)| *output == name) {
            Some((_, rows)) => rows.push(row),
            None => outputs.push((name, vec![row])),
        }
    }
    let line = |(_, rows): &(&str, Vec<&Row>)| {
        let (round, subject, difference) =
            rows.iter().find(|(.., difference)| !difference.is_within()).or(rows.first())?;
        let others = match rows.len() - 1 {
            0 => String::new(),
            1 => "; 1 more difference of this output".to_owned(),
            count => format!("; {count} more differences of this output"),
        };
        Some(format!("{subject}, {}: {difference}{others}", found.round(*round)))
    };
    let mut lines: Vec<String> = outputs.iter().take(MAX_ROWS).filter_map(line).collect();
    if outputs.len() > MAX_ROWS {
        lines.push(format!("… and {} more outputs that differ", outputs.len() - MAX_ROWS));
    }
    lines
}

/// Prints the points at which a plan for ranges was run, with the outcome of each.
fn points(found: &Verified, voice: &Voice) {
    for (round, point) in (0u64..).zip(&found.points) {
        let mut differences =
            found.differences.iter().filter(|(of, ..)| *of == round).map(|(.., difference)| difference);
        let is_equal = differences.clone().count() == 0;
        let word = match differences.all(Difference::is_within) {
            true if is_equal => "equal",
            true => "within the tolerance",
            false => "differs",
        };
        voice.say(&format!("{point}: {word}"));
    }
    if let Some((first, message)) = found.refused.first() {
        let (count, all) = (found.refused.len(), found.points.len() + found.refused.len());
        voice.say(&format!(
            "{count} of {all} points were left out: the given model itself fails there, first at {first}: {message}"
        ));
    }
    if found.skipped > 0 {
        let count = found.points.len();
        voice.say(&format!(
            "{count} of {} points ran: more would take long; `--points` and `--at` name others",
            count + found.skipped
        ));
    }
}

/// Prints how sessions with default options of both models differ.
fn stock(found: &Verified, rounds: u64, voice: &Voice) {
    let stock = &found.stock;
    if let Some(message) = &stock.refused {
        return voice.say(&format!("sessions with default options were not compared: {message}"));
    }
    let word = if found.points.is_empty() { "rounds" } else { "points" };
    let is_beyond = |(_, difference): &&(u64, Difference)| !difference.is_within();
    let Some((round, first)) = stock.differences.iter().find(is_beyond).or(stock.differences.first()) else {
        return voice
            .say(&format!("sessions with default options: both models give equal bits in {rounds} {word}"));
    };
    voice
        .say(&format!("sessions with default options differ, first {}: {first}", first_round(found, *round)));
    if !stock.holds() {
        let text =
            "sessions with default options of the given and of the written model differ beyond the tolerance";
        let help = "default sessions fuse nodes and keep float16 sums in float32 until a float16 value is read, so split or rewritten nodes round \
            other values; `memc explain W0701` gives advice";
        voice.say(&Diagnostic::new("W0701", Severity::Warning, text.to_owned()).with_help(help).to_string());
    }
}

/// Describes a round within a sentence.
fn first_round(found: &Verified, round: u64) -> String {
    if found.points.is_empty() { format!("in round {round}") } else { found.round(round) }
}

/// Fails because no output was compared.
fn nothing(found: &Verified) -> Failure {
    let text = match found.left_out.len() {
        0 => "nothing was compared: the model has no outputs".to_owned(),
        count => format!("nothing was compared: the runtime returns no elements of the {count} outputs"),
    };
    let help =
        "make the values to compare graph outputs, as arrays; `memc check` verifies the plan from the files";
    Failure { diagnostics: vec![Diagnostic::new("E0713", Severity::Error, text).with_help(help)], code: 1 }
}

/// The requested tolerance; by default, the tolerance for the plan's options: 0 for exact plans, else
/// that of rewrites that round otherwise. Sums over a buffer that is not full round otherwise, too.
fn tolerance(arguments: &Verify, layout: &Layout) -> Tolerance {
    let grows = layout.caches.iter().any(|cache| !cache.grows.is_empty());
    let is_exact = !grows && layout.options.get("exact").is_some_and(|value| value == "true");
    let usual = if is_exact { Tolerance::default() } else { Tolerance::of_roundings() };
    Tolerance {
        relative: arguments.rtol.unwrap_or(usual.relative),
        absolute: arguments.atol.unwrap_or(usual.absolute),
        of_largest: if arguments.atol.is_some() { 0.0 } else { usual.of_largest },
        of_range: if arguments.atol.is_some() { 0.0 } else { usual.of_range },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use play::DifferenceKind::{Absent, Strings};

    #[test]
    fn an_output_that_differs_has_one_line() {
        let row = |round, subject, output: &str, kind| {
            (round, subject, Difference { output: output.to_owned(), kind })
        };
        let strings = Strings { count: 1, of: 4 };
        let found = Verified {
            special: None,
            outputs: 2,
            left_out: Vec::new(),
            softmaxes: 0,
            differences: vec![
                row(0, Subject::Model, "y", strings.clone()),
                row(1, Subject::Model, "y", Absent),
                row(1, Subject::Plan, "z", Absent),
                row(2, Subject::Plan, "y", strings),
            ],
            carried: Vec::new(),
            unstable: Vec::new(),
            loss: None,
            stock: play::Stock::default(),
            first: None,
            window: None,
            steps: 0,
            played: None,
            points: Vec::new(),
            refused: Vec::new(),
            skipped: 0,
        };
        let lines = differences(&found);
        assert_eq!(
            lines,
            [
                "the written model, round 0: `y`: 1 of 4 strings differ; 2 more differences of this output",
                "the plan, round 1: `z` is absent on one side",
            ]
        );
    }
}
