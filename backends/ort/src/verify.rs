//! Verifies a plan by running it: the given model whole, the written model whole, and the plan, on the same inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;

use crate::arrays::{Array, TensorView, views};
use crate::blame::{WindowDifference, before_softmaxes, first_node, first_window, traceable};
use crate::compare::{Difference, Tolerance, compare};
use crate::error::Error;
use crate::inputs;
use crate::memory::require;
use crate::options::{PlayOptions, reference};
use crate::played::Played;
use crate::player::Player;
use crate::runtime::{Runtime, SessionOptions};
use crate::weights::Weights;
use crate::whole::Whole;

/// Most bytes of values that are kept to find the first node that differs.
const MAX_TRACE: u64 = 4 << 30;
/// Most bytes of what feeds softmaxes that are kept, of all rounds together.
const MAX_SOFTMAX: u64 = 1 << 30;

/// How a plan is verified.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Input sets, made from `seed`, `seed + 1`, and so on.
    pub rounds: u64,
    /// First seed.
    pub seed: u64,
    /// What is allowed between numbers that are not equal.
    pub tolerance: Tolerance,
    /// Watch every value in the arena.
    pub poison_check: bool,
    /// Where the files of spaces lie that are no memory.
    pub swap_folder: Option<PathBuf>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { rounds: 1, seed: 0, tolerance: Tolerance::default(), poison_check: false, swap_folder: None }
    }
}

/// What was compared with the given model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The written model, whole.
    Model,
    /// What feeds its softmaxes, which hide differences.
    Softmax,
    /// The plan, played.
    Plan,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "the written model",
            Self::Softmax => "the written model before a softmax",
            Self::Plan => "the plan",
        })
    }
}

/// What a verification found.
#[derive(Debug)]
pub struct Verified {
    /// Outputs that were compared in each round.
    pub outputs: usize,
    /// Values before softmaxes that were compared too.
    pub softmaxes: usize,
    /// Every difference, with its round and subject; empty when every bit is equal.
    pub differences: Vec<(u64, Subject, Difference)>,
    /// The first node, in the order of the schedule, whose result differs, where something differs beyond the tolerance and there is memory to
    /// look.
    pub first: Option<String>,
    /// The first rewritten window whose results differ beyond the tolerance, of the written model against the given one.
    pub window: Option<WindowDifference>,
    /// What the last playing gave, without a layout nothing.
    pub played: Option<Played>,
}

impl Verified {
    /// Whether all outputs are equal or within the tolerance.
    pub fn holds(&self) -> bool {
        self.differences.iter().all(|(_, _, difference)| difference.is_within())
    }
}

/// Verifies a plan. With `given_inputs` there is one round with them; otherwise inputs are made up.
///
/// # Errors
/// The machine is too small, kernels are missing, or a run fails.
pub fn verify(
    runtime: &Runtime,
    given: &ModelFile,
    out: &ModelFile,
    layout: &Layout,
    given_inputs: Option<&BTreeMap<String, Array>>,
    options: VerifyOptions,
) -> Result<Verified, Error> {
    enough_memory(layout)?;
    // The runtime's own word for weights that are not there is less clear.
    for file in [given, out] {
        Weights::read(file, file.path().and_then(Path::parent).unwrap_or(Path::new("")))?;
    }
    let sets = match given_inputs {
        Some(_) => Vec::new(),
        None => (0..options.rounds.max(1))
            .map(|round| inputs::make(out, layout, options.seed.wrapping_add(round)))
            .collect::<Result<_, _>>()?,
    };
    let sets: Vec<&BTreeMap<String, Array>> = given_inputs.into_iter().chain(&sets).collect();
    let rounds = u64::try_from(sets.len()).unwrap_or(1).max(1);
    let names = before_softmaxes(given.graph(), layout, MAX_SOFTMAX / rounds);
    let (mut expected, mut feeding) = (Vec::new(), Vec::new());
    {
        let whole = whole(runtime, given, &names, reference(layout))?;
        for set in &sets {
            let (outputs, inner) = parted(whole.run(set).map_err(refuses)?.0, given);
            expected.push(outputs);
            feeding.push(inner);
        }
    }
    let outputs = expected.first().map_or(0, BTreeMap::len);
    let softmaxes = feeding.first().map_or(0, BTreeMap::len);
    let mut found = Verified { outputs, softmaxes, differences: Vec::new(), first: None, window: None, played: None };
    let note = |round: usize,
                subject,
                expected: &BTreeMap<String, Array>,
                results: &BTreeMap<String, TensorView<'_>>,
                found: &mut Verified| {
        let differences = compare(&views(expected), results, options.tolerance);
        found.differences.extend(differences.into_iter().map(|difference| (round as u64, subject, difference)));
    };
    {
        let whole = whole(runtime, out, &names, reference(layout))?;
        for (round, set) in sets.iter().enumerate() {
            let (outputs, inner) = parted(whole.run(set)?.0, out);
            note(round, Subject::Softmax, &feeding[round], &views(&inner), &mut found);
            note(round, Subject::Model, &expected[round], &views(&outputs), &mut found);
        }
    }
    drop(feeding);
    let play =
        PlayOptions { poison_check: options.poison_check, swap_folder: options.swap_folder.clone(), ..PlayOptions::default() };
    let mut player = Player::new(runtime, out, layout, play.clone())?;
    for (round, set) in sets.iter().enumerate() {
        let played = player.play(*set)?;
        note(round, Subject::Plan, &expected[round], &player.outputs()?, &mut found);
        found.played = Some(played);
    }
    if let Some((round, subject, _)) = found.differences.iter().find(|(.., difference)| !difference.is_within()) {
        let set = sets[usize::try_from(*round).unwrap_or(0)];
        match subject {
            Subject::Model | Subject::Softmax => {
                (found.first, found.window) = first_in_model(runtime, given, out, layout, set, options.tolerance)?;
            }
            Subject::Plan => {
                // Nodes that keep a state start over with fresh sessions.
                let mut player = Player::new(runtime, out, layout, play)?;
                found.first = first_in_plan(runtime, out, layout, set, &mut player)?;
            }
        }
    }
    Ok(found)
}

/// A failure of the given model, which is no fault of the plan.
fn refuses(error: Error) -> Error {
    match error {
        Error::Runtime { message, .. } => Error::Given { message },
        error => error,
    }
}

/// A model in one session that rounds as stated and gives these values too.
fn whole<'r>(
    runtime: &'r Runtime,
    file: &ModelFile,
    names: &BTreeSet<&str>,
    options: SessionOptions,
) -> Result<Whole<'r>, Error> {
    match names.is_empty() {
        true => Whole::as_stated(runtime, file, options),
        false => Whole::traced(runtime, file, names, options),
    }
}

/// The model's outputs, and what else it gave.
fn parted(results: BTreeMap<String, Array>, file: &ModelFile) -> (BTreeMap<String, Array>, BTreeMap<String, Array>) {
    let outputs: BTreeSet<&str> = file.graph().output.iter().map(|output| output.name()).collect();
    results.into_iter().partition(|(name, _)| outputs.contains(name.as_str()))
}

/// The first node and the first rewritten window whose results differ.
fn first_in_model(
    runtime: &Runtime,
    given: &ModelFile,
    out: &ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
    tolerance: Tolerance,
) -> Result<(Option<String>, Option<WindowDifference>), Error> {
    let Some(mut names) = traceable(layout, MAX_TRACE) else { return Ok((None, None)) };
    names.extend(layout.rewrites.iter().flat_map(|window| &window.outputs).map(|value| value.given.as_str()));
    let expected = Whole::traced(runtime, given, &names, reference(layout))?.run(set)?.0;
    let found = Whole::traced(runtime, out, &names, reference(layout))?.run(set)?.0;
    let order = &out.graph().node;
    let node = first_node(order, &expected, &found, tolerance);
    let window = first_window(layout, order, &expected, &found, tolerance);
    Ok((node.map(|node| format!("{} ({})", node.name(), node.op_type())), window))
}

fn first_in_plan(
    runtime: &Runtime,
    out: &ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
    player: &mut Player<'_>,
) -> Result<Option<String>, Error> {
    let Some(names) = traceable(layout, MAX_TRACE) else { return Ok(None) };
    let expected = Whole::traced(runtime, out, &names, reference(layout))?.run(set)?.0;
    player.play_against(set, &expected)
}

/// Weights and the larger of both ways to run must fit what is free.
fn enough_memory(layout: &Layout) -> Result<(), Error> {
    let arenas = layout.arenas.iter().filter(|arena| !PlayOptions::default().is_file(&arena.space));
    let arenas: u64 = arenas.map(|arena| arena.size).fold(0, u64::saturating_add);
    let before: u64 = layout.baseline.file_order_peak.values().copied().fold(0, u64::saturating_add);
    let needed = layout.weights.saturating_add(arenas.max(before));
    require(needed)
}
