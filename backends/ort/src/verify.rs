//! Verifies a plan by running it: the given model whole, the written model whole, and the plan, on the same inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memc_layout::{Class, Layout};
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::compare::{Difference, Tolerance, compare};
use crate::error::Error;
use crate::inputs;
use crate::memory::require;
use crate::player::{Played, Player};
use crate::prepare::PlayOptions;
use crate::runtime::{Runtime, SessionOptions};
use crate::weights::Weights;
use crate::whole::Whole;

/// Most bytes of values that are kept to find the first node that differs.
const MAX_TRACE: u64 = 4 << 30;

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
    /// The plan, played.
    Plan,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "the written model",
            Self::Plan => "the plan",
        })
    }
}

/// What a verification found.
#[derive(Debug)]
pub struct Verified {
    /// Outputs that were compared in each round.
    pub outputs: usize,
    /// Every difference, with its round and subject; empty when every bit is equal.
    pub differences: Vec<(u64, Subject, Difference)>,
    /// The first node, in the order of the schedule, whose result differs, where there are differences and memory to look.
    pub first: Option<String>,
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
    let mut expected = Vec::new();
    {
        let whole = Whole::new(runtime, given, SessionOptions::PLAIN)?;
        for set in &sets {
            expected.push(whole.run(set).map_err(refuses)?.0);
        }
    }
    let mut found =
        Verified { outputs: expected.first().map_or(0, BTreeMap::len), differences: Vec::new(), first: None, played: None };
    let note = |round: usize, subject, outputs: &BTreeMap<String, Array>, found: &mut Verified| {
        let differences = compare(&expected[round], outputs, options.tolerance);
        found.differences.extend(differences.into_iter().map(|difference| (round as u64, subject, difference)));
    };
    {
        let whole = Whole::new(runtime, out, SessionOptions::PLAIN)?;
        for (round, set) in sets.iter().enumerate() {
            note(round, Subject::Model, &whole.run(set)?.0, &mut found);
        }
    }
    let play =
        PlayOptions { poison_check: options.poison_check, swap_folder: options.swap_folder.clone(), ..PlayOptions::default() };
    let mut player = Player::new(runtime, out, layout, play.clone())?;
    for (round, set) in sets.iter().enumerate() {
        let played = player.play(set)?;
        note(round, Subject::Plan, &played.outputs, &mut found);
        found.played = Some(played);
    }
    if let Some((round, subject, _)) = found.differences.first() {
        let set = sets[usize::try_from(*round).unwrap_or(0)];
        found.first = match subject {
            Subject::Model => first_in_model(runtime, given, out, layout, set)?,
            Subject::Plan => {
                // Nodes that keep a state start over with fresh sessions.
                let mut player = Player::new(runtime, out, layout, play)?;
                first_in_plan(runtime, out, layout, set, &mut player)?
            }
        };
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

/// Names of values that can be compared, where all of them together are few enough bytes.
fn traceable(layout: &Layout) -> Option<BTreeSet<&str>> {
    let values = layout.tensors.iter().filter(|tensor| matches!(tensor.class, Class::Transient | Class::Output));
    let total = values.clone().map(|tensor| tensor.bytes).fold(0, u64::saturating_add);
    (total <= MAX_TRACE).then(|| values.map(|tensor| tensor.name.as_str()).collect())
}

fn first_in_model(
    runtime: &Runtime,
    given: &ModelFile,
    out: &ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
) -> Result<Option<String>, Error> {
    let Some(names) = traceable(layout) else { return Ok(None) };
    let expected = Whole::traced(runtime, given, &names)?.run(set)?.0;
    let found = Whole::traced(runtime, out, &names)?.run(set)?.0;
    let differs = |name: &String| {
        let pair = expected.get(name).zip(found.get(name));
        pair.is_some_and(|(a, b)| a.bytes() != b.bytes())
    };
    let node = out.graph().node.iter().find(|node| node.output.iter().any(differs));
    Ok(node.map(|node| format!("{} ({})", node.name(), node.op_type())))
}

fn first_in_plan(
    runtime: &Runtime,
    out: &ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
    player: &mut Player<'_>,
) -> Result<Option<String>, Error> {
    let Some(names) = traceable(layout) else { return Ok(None) };
    let expected = Whole::traced(runtime, out, &names)?.run(set)?.0;
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
