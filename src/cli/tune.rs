//! `memc tune`: plans a model with several options, measures the plans against each other, and writes the
//! best.
//!
//! Bytes of a plan are proved and need no run; only times are measured. Options are those of `memc
//! optimize`, so the chosen file follows from one command without measuring.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memc::{Budget, Error, Model, Outputs, Planned, Size, SloError};
use memc_ir::Bytes;
use memc_onnx_proto::ModelFile;
use memc_ort as play;
use play::{Array, Runtime, SessionOptions, Whole};
use serde_json::{Value, json};

use super::args::{Blocks, Optimize};
use super::optimize;
use super::playing::{given, load, processor_nanoseconds, refuse};
use super::profile::written;
use super::race::{INDIFFERENCE, Race, median};
use super::tune_args::Tune;
use super::{ExitCode, Failure, Outcome, Voice, command_words, is_stream, open, this_machine, usage};

/// Value of the key `schema` of the file beside the model.
pub const VERSION: &str = "memc.tune/1";

/// Slowdowns of candidates, in hundredths of a percent.
const SLOWDOWNS: [u32; 3] = [100, 300, 1_000];

/// Number of budgets of candidates, along the front of memory and time.
const BUDGETS: u32 = 5;

/// Error that modelled times of a target without calibration are taken to have: six models differed by this
/// much.
const UNCALIBRATED: f64 = 0.53;

/// Runs before a candidate is measured: the first ones pack weights and allocate.
const WARM: u32 = 2;

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Another one needs no more bytes, and takes less time beyond any error of the model.
    Dominated,
    /// Another one gives the same file.
    Equal,
    /// It was measured, and was slower for sure.
    Slower,
    /// It was measured to the end.
    Finalist,
    /// It is written.
    Chosen,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Dominated => "dominated",
            Self::Equal => "equal",
            Self::Slower => "slower",
            Self::Finalist => "finalist",
            Self::Chosen => "chosen",
        }
    }
}

/// A plan to measure.
struct Candidate {
    /// Arguments of `memc optimize` that give the plan.
    arguments: Optimize,
    /// Options in addition to those of the user.
    label: String,
    planned: Planned,
    state: State,
    /// Processor times of runs, in nanoseconds.
    times: Vec<f64>,
}

impl Candidate {
    fn bytes(&self) -> u64 {
        self.planned.arena()
    }

    /// Interval of the modelled time, in nanoseconds.
    fn interval(&self) -> (f64, f64) {
        let cost = &self.planned.layout.cost;
        let error = cost.modelled_error.unwrap_or(UNCALIBRATED);
        (cost.modelled_ns_after * (1.0 - error), cost.modelled_ns_after * (1.0 + error))
    }
}

/// Plans, races, and writes the best plan with a file of all candidates.
pub fn run(arguments: &Tune, voice: &Voice) -> Outcome {
    let planning = &arguments.planning;
    let output = check(planning)?;
    let file = open(&planning.input)?;
    let mut all = candidates(planning, &file, voice)?;
    drop_dominated(&mut all);
    let library = load(arguments.library.ort_lib.as_deref())?;
    let raced = race(&mut all, planning, &library, arguments.trials, voice)?;
    let chosen = choose(&mut all, &raced, planning)?;
    let command = command_words::of(&all[chosen].arguments);
    voice.say(table(&all).trim_end());
    voice.say(&format!("{} runs; the same file without measuring: {command}", raced.runs()));
    let best = &all[chosen];
    optimize::write(&best.arguments, &file, &optimize::layouts(&best.arguments), &best.planned)?;
    let path = output.with_extension("tune.json");
    let object = report(&all, &raced, &library, &command);
    let mut outputs = Outputs::default();
    outputs.add(&path, |out| writeln!(out, "{object:#}"))?;
    outputs.commit()?;
    voice.say(&memc_report::text(&best.planned.layout));
    Ok(ExitCode::SUCCESS)
}

/// Refuses options that leave nothing to choose or that no command repeats.
fn check(planning: &Optimize) -> Result<PathBuf, Failure> {
    optimize::check(planning)?;
    let Some(output) = planning.output.clone().filter(|output| !is_stream(output)) else {
        return Err(usage(
            "`memc tune` writes the plan that it chooses".to_owned(),
            "name it: `-o OUT.onnx`",
        ));
    };
    if is_stream(&planning.input) {
        return Err(usage(
            "`memc tune` names the model in a command".to_owned(),
            "name a file in place of `-`",
        ));
    }
    if planning.machine.passes.is_some() || planning.session.is_some() || planning.pareto > 0 || planning.json
    {
        let message = "`memc tune` chooses among plans: `--passes`, `--session`, `--pareto` and `--json` leave no choice";
        return Err(usage(message.to_owned(), "give them to `memc optimize`"));
    }
    Ok(output)
}

/// Plans the model with all sets of options. Sets that no plan keeps are left out, but the user's own are
/// not.
fn candidates(planning: &Optimize, file: &Model, voice: &Voice) -> Result<Vec<Candidate>, Failure> {
    let mut all: Vec<Candidate> = Vec::new();
    let mut own = Optimize { slo: None, ..planning.clone() };
    let curve = planning.budget.is_empty() && own.slowdown == 0;
    voice.say("planning candidates ...");
    let base = {
        let mut request = optimize::request(&own)?;
        request.pareto = if curve { BUDGETS } else { 0 };
        memc::plan(file, &request)?
    };
    let budgets: Vec<u64> =
        base.layout.pareto.iter().map(|point| point.arena).filter(|arena| *arena < base.arena()).collect();
    let mut families = vec![(own.clone(), String::new())];
    let has = |name: &str| base.layout.schedule.iter().any(|row| row.op == name);
    let may_change = !own.exact && !own.std_ops && !own.no_rewrite;
    if may_change
        && own.nchwc.is_none()
        && matches!(own.machine.runtime, memc::Runtime::Ort | memc::Runtime::Player)
        && (has("Conv") || has("FusedConv"))
        && let Some(block) = memc_passes::nchwc::native_block()
    {
        families
            .push((Optimize { nchwc: Some(Blocks(Some(block))), ..own.clone() }, format!("--nchwc {block}")));
    }
    if may_change && !own.integer_kernels && has("QuantizeLinear") && has("DequantizeLinear") {
        families.push((Optimize { integer_kernels: true, ..own.clone() }, "--integer-kernels".to_owned()));
    }
    own.slo = planning.slo;
    if own.slo.is_some() && own.slowdown == 0 {
        families.push((own, "--slo".to_owned()));
    }
    for (family, label) in families {
        let mut sets = vec![(family.clone(), label.clone())];
        if family.slo.is_none() {
            let budget = |bytes: &u64| {
                let limit = Budget { space: None, size: Size::Bytes(*bytes) };
                (
                    Optimize { budget: vec![limit], ..family.clone() },
                    format!("{label} --budget {bytes}").trim().to_owned(),
                )
            };
            // Blocks of channels take more bytes: what the plan without them needs is a point of their front.
            let without = Some(base.arena()).filter(|_| curve && family.nchwc.is_some());
            sets.extend(budgets.iter().chain(&without).map(budget));
            let slower = SLOWDOWNS.into_iter().filter(|_| planning.slowdown == 0).map(|slowdown| {
                let percent = f64::from(slowdown) / 100.0;
                (
                    Optimize { slowdown, ..family.clone() },
                    format!("{label} --slowdown {percent}%").trim().to_owned(),
                )
            });
            sets.extend(slower);
        }
        for (arguments, label) in sets {
            let planned = match memc::plan(file, &optimize::request(&arguments)?) {
                Ok(planned) => planned,
                // No plan keeps this budget or time: other candidates may.
                Err(error) if error.exit_code() == 3 && !label.is_empty() => continue,
                Err(error) => return Err(error.into()),
            };
            // Sessions have no operators for transfers.
            if planned.layout.transfers.is_empty() && planned.layout.fetches.is_empty() {
                all.push(Candidate { arguments, label, planned, state: State::Finalist, times: Vec::new() });
            }
        }
    }
    if all.is_empty() {
        let message =
            "every plan moves values between spaces, which sessions of ONNX Runtime do not".to_owned();
        return Err(usage(message, "measure such a plan with `memc run`, or raise the budget"));
    }
    Ok(all)
}

/// Marks candidates with the file of an earlier one, and candidates that another one beats in bytes and time.
fn drop_dominated(all: &mut [Candidate]) {
    let facts: Vec<(u64, (f64, f64), String)> = all
        .iter()
        .map(|one| (one.bytes(), one.interval(), one.planned.layout.model.output_sha256.clone()))
        .collect();
    for (index, one) in all.iter_mut().enumerate() {
        one.state = dominated(&facts, index);
    }
}

/// The state of a candidate before the race, given bytes, interval of time, and file of all.
fn dominated(facts: &[(u64, (f64, f64), String)], index: usize) -> State {
    let (bytes, (least, _), file) = &facts[index];
    if facts[..index].iter().any(|(.., other)| other == file) {
        return State::Equal;
    }
    let is_beaten = facts.iter().any(|(other, (_, most), _)| other <= bytes && most < least);
    if is_beaten { State::Dominated } else { State::Finalist }
}

/// Measures the candidates that are left, one run each in turn.
fn race(
    all: &mut [Candidate],
    planning: &Optimize,
    library: &Runtime,
    trials: u32,
    voice: &Voice,
) -> Result<Race, Failure> {
    let folder = planning.input.parent().unwrap_or(Path::new(""));
    let mut open: Vec<(usize, ModelFile)> = Vec::new();
    for (index, one) in all.iter().enumerate().filter(|(_, one)| one.state == State::Finalist) {
        open.push((index, written(&one.planned)?));
    }
    if open.len() > trials as usize {
        return Err(usage(
            format!("`--trials {trials}` allows fewer runs than there are candidates to measure"),
            &format!("give at least `--trials {}`: one run for each", open.len()),
        ));
    }
    voice.say(&format!("measuring {} of {} candidates ...", open.len(), all.len()));
    let options = SessionOptions { arena: true, ..SessionOptions::PLAIN };
    let mut sessions = Vec::new();
    for (index, file) in &open {
        let session = Whole::beside(library, file, folder, options).map_err(refuse)?;
        let feed = match given(planning.inputs.dim_from.as_deref(), file)? {
            Some(feed) => feed,
            None => play::inputs::make(file, &all[*index].planned.layout, 0).map_err(refuse)?,
        };
        sessions.push((session, feed));
    }
    let one_run = |(session, feed): &(Whole<'_>, BTreeMap<String, Array>)| -> Result<f64, Failure> {
        let before = processor_nanoseconds();
        let results = session.results(feed).map_err(refuse)?;
        let after = processor_nanoseconds();
        drop(results);
        Ok(after.saturating_sub(before) as f64)
    };
    for session in &sessions {
        for _ in 0..WARM {
            one_run(session)?;
        }
    }
    let mut race = Race::new(sessions.len());
    // With a time to keep, candidates may be slow: all of them are measured.
    let keeps_all = planning.slo.is_some();
    while race.runs() + sessions.len() <= trials as usize && (keeps_all || !race.is_over()) {
        let mut times = Vec::new();
        for candidate in race.round() {
            times.push((candidate, one_run(&sessions[candidate])?));
        }
        race.record(&times);
        if keeps_all && race.runs() >= 7 * sessions.len() {
            break;
        }
    }
    for (place, (index, _)) in open.iter().enumerate() {
        all[*index].times = race.times(place).to_vec();
        all[*index].state = if race.has_left(place) { State::Slower } else { State::Finalist };
    }
    Ok(race)
}

/// Marks and returns the candidate to write: of those as fast as the fastest, or within the time, the one
/// of fewest bytes.
fn choose(all: &mut [Candidate], race: &Race, planning: &Optimize) -> Result<usize, Failure> {
    let measured: Vec<usize> = (0..all.len()).filter(|index| !all[*index].times.is_empty()).collect();
    let kept: Vec<usize> = match planning.slo {
        Some(slo) => measured.iter().copied().filter(|index| median(&all[*index].times) <= slo.0.0).collect(),
        None => race.fastest().into_iter().filter_map(|place| measured.get(place).copied()).collect(),
    };
    let Some(chosen) = kept.into_iter().min_by_key(|index| (all[*index].bytes(), *index)) else {
        let nanos = |index: &usize| median(&all[*index].times) as u64;
        let mut front: Vec<(u64, u64)> =
            measured.iter().map(|index| (all[*index].bytes(), nanos(index))).collect();
        front.sort_unstable();
        let fastest = measured.iter().map(nanos).min().unwrap_or(0);
        let slo = planning.slo.map_or(0, |slo| slo.0.0 as u64);
        return Err(Error::from(SloError { slo, limit: None, fastest, smallest: None, front }).into());
    };
    all[chosen].state = State::Chosen;
    Ok(chosen)
}

/// Formats the candidates, a line each.
fn table(all: &[Candidate]) -> String {
    let width = all.iter().map(|one| one.label.len()).max().unwrap_or(0).max("as requested".len());
    let mut text = format!(
        "{:<width$} {:>16} {:>12} {:>12} {:>5}  {}\n",
        "options", "arena", "modelled", "measured", "runs", ""
    );
    for one in all {
        let label = if one.label.is_empty() { "as requested" } else { &one.label };
        let measured =
            if one.times.is_empty() { "-".to_owned() } else { format!("{:.3} ms", median(&one.times) / 1e6) };
        text += &format!(
            "{label:<width$} {:>16} {:>9.3} ms {measured:>12} {:>5}  {}\n",
            Bytes(one.bytes()).exact(),
            one.planned.layout.cost.modelled_ns_after / 1e6,
            one.times.len(),
            one.state.name()
        );
    }
    text
}

/// The file beside the model.
fn report(all: &[Candidate], race: &Race, library: &Runtime, command: &str) -> Value {
    let rows = all.iter().map(|one| {
        let layout = &one.planned.layout;
        let least = one.times.iter().copied().fold(f64::INFINITY, f64::min);
        let cpu = (!one.times.is_empty())
            .then(|| json!({"min": least, "median": median(&one.times), "n": one.times.len()}));
        json!({
            "options": one.label, "arena": one.bytes(), "modelled_ns": layout.cost.modelled_ns_after,
            "modelled_error": layout.cost.modelled_error, "cpu_ns": cpu, "state": one.state.name(),
            "output_sha256": layout.model.output_sha256,
        })
    });
    let input = all.first().map_or("", |one| one.planned.layout.model.input_sha256.as_str());
    json!({
        "schema": VERSION, "processor": this_machine::processor(), "library": library.version(), "threads": 1,
        "model_sha256": input, "indifference": INDIFFERENCE, "runs": race.runs(), "candidates": rows.collect::<Vec<_>>(),
        "command": command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beaten_candidates_are_not_measured() {
        let fact = |bytes, least, most, file: &str| (bytes, (least, most), file.to_owned());
        let facts = [
            fact(10, 90.0, 110.0, "a"),
            fact(10, 111.0, 130.0, "b"),
            fact(9, 111.0, 130.0, "c"),
            fact(12, 100.0, 120.0, "d"),
            fact(10, 1.0, 2.0, "a"),
        ];
        let states: Vec<State> = (0..4).map(|index| dominated(&facts[..4], index)).collect();
        assert_eq!(states, [State::Finalist, State::Dominated, State::Finalist, State::Finalist]);
        assert_eq!(dominated(&facts, 4), State::Equal);
    }
}
