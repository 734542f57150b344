//! Verifies a plan by running it: the given model whole, the written model whole, and the plan, on equal
//! inputs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::blame::{FragmentDifference, before_softmaxes, first_fragment, first_node, traceable};
use crate::claims::first_false;
use crate::compare::{Difference, DifferenceKind, Tolerance, Tolerances, compare};
use crate::content::Content;
use crate::error::Error;
use crate::inputs;
use crate::integers;
use crate::loss::Loss;
use crate::memory::require;
use crate::options::{PlayOptions, reference};
use crate::pinned::step_apart;
use crate::player::Player;
use crate::point::{self, Point};
use crate::points::{INSIDE, points};
use crate::runtime::{Runtime, SessionOptions};
use crate::specials;
use crate::spread::spread;
use crate::stated;
use crate::steps::Steps;
use crate::units;
use crate::verified::{Stock, Subject, Verified, VerifyOptions};
use crate::weights::Weights;
use crate::whole::Whole;

/// Limit of kept values, in bytes. It holds separately for the search for the first node that differs,
/// for integers that a model is given, and for values with sizes stated in the file.
const MAX_TRACE: u64 = 4 << 30;
/// Limit of the kept operands of softmaxes, in bytes, for all rounds together.
const MAX_SOFTMAX: u64 = 1 << 30;

/// Allowed difference, in differences of the given model from itself. Few runs show those, so that others may
/// be somewhat larger.
const OF_SPREAD: f64 = 4.0;

/// Points of a plan for ranges that are always run: both extremes, and one inside.
const FIRST_POINTS: usize = 3;
/// Time for all points of a plan for ranges, in nanoseconds.
const TIME_OF_POINTS: u64 = 120_000_000_000;

/// Verifies a plan. With `given_inputs` there is one round on them; otherwise inputs are made up. A plan for
/// ranges runs one round at each of several points, and plays in one arena. A plan of equal bits then runs
/// on special numbers, too, at its first point.
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
    inputs::all_arrays(given)?;
    let models = Models { runtime, given, out, layout, options: &options };
    let mut found = usual(&models, given_inputs)?;
    if given_inputs.is_none() && found.holds() {
        models.verify_specials(&mut found)?;
    }
    Ok(found)
}

/// Verifies a plan on usual inputs: on the given ones, in several rounds, or at several points.
fn usual(models: &Models<'_>, given_inputs: Option<&BTreeMap<String, Array>>) -> Result<Verified, Error> {
    let Models { layout, options, .. } = *models;
    if layout.model.ranges.is_empty() {
        for point in &options.at {
            point::keeps(layout, point)?;
        }
        return models.verify(given_inputs, &[]);
    }
    if let Some(set) = given_inputs {
        return models.verify(Some(set), &[point::of_inputs(layout, set)?]);
    }
    let mut all = match options.at.is_empty() {
        true => points(layout, options.seed, INSIDE),
        false => options.at.clone(),
    };
    all.truncate(options.max_points.unwrap_or(usize::MAX).max(1));
    // The first points tell how many others there is time for.
    let now = || options.clock.map_or(0, |clock| clock());
    let (first, others) = all.split_at(all.len().min(FIRST_POINTS));
    let start = now();
    let mut found = models.verify(None, first)?;
    let each = (now().saturating_sub(start) / (first.len() as u64).max(1)).max(1);
    let left = TIME_OF_POINTS.saturating_sub(now().saturating_sub(start)) / each;
    let is_chosen = !options.at.is_empty() || options.max_points.is_some();
    let count =
        if is_chosen { others.len() } else { usize::try_from(left).unwrap_or(usize::MAX).min(others.len()) };
    if found.is_within() && count > 0 {
        found.extend(models.verify(None, &others[..count])?);
    }
    found.skipped = others.len() - count;
    match found.refused.first() {
        Some((point, message)) if found.points.is_empty() => Err(Error::At {
            at: point.to_string(),
            error: Box::new(Error::Given { message: message.clone() }),
        }),
        _ => Ok(found),
    }
}

/// Both models and the layout, with the options of the verification.
struct Models<'a> {
    runtime: &'a Runtime,
    given: &'a ModelFile,
    out: &'a ModelFile,
    layout: &'a Layout,
    options: &'a VerifyOptions,
}

impl Models<'_> {
    /// Runs both models and the plan once more on special numbers, if the plan promises equal bits. A given
    /// model that refuses such inputs shows nothing.
    fn verify_specials(&self, found: &mut Verified) -> Result<(), Error> {
        let Self { runtime, given, out, options, .. } = *self;
        let is_exact = self.layout.options.get("exact").is_some_and(|value| value == "true");
        let promises_bits = is_exact && options.tolerance == Tolerance::default() && found.loss.is_none();
        if !promises_bits || !self.layout.caches.is_empty() {
            return Ok(());
        }
        let bound = found.points.first().map(|point| point::at(self.layout, point)).transpose()?;
        let layout = bound.as_ref().unwrap_or(self.layout);
        let Some(set) = specials::make(out, layout, options.seed)? else { return Ok(()) };
        let (sets, layouts, tolerances) = (vec![&set], vec![layout], Tolerances::default());
        let trial =
            Trial { runtime, given, out, layout, layouts, points: Vec::new(), sets, options, tolerances };
        let Ok(expected) = trial.run_whole(given, &BTreeSet::new(), refuses) else { return Ok(()) };
        let mut special = begin(expected.first());
        trial.compare_model(&BTreeSet::new(), &expected, &mut special)?;
        let expected: Vec<Contents> = expected.into_iter().map(|(outputs, _)| outputs).collect();
        trial.compare_plan(&expected, &mut special)?;
        trial.blame(&mut special)?;
        let round = if found.points.is_empty() { options.rounds.max(1) } else { found.points.len() as u64 };
        found.special = Some(round);
        let beyond = special.differences.into_iter().filter(|(.., difference)| !difference.is_within());
        found.differences.extend(beyond.map(|(_, subject, difference)| (round, subject, difference)));
        found.first = found.first.take().or(special.first);
        found.window = found.window.take().or(special.window);
        Ok(())
    }

    /// Runs one round at each point, or all rounds of a plan without free dimensions, and compares.
    fn verify(
        &self,
        given_inputs: Option<&BTreeMap<String, Array>>,
        points: &[Point],
    ) -> Result<Verified, Error> {
        let Self { runtime, given, out, layout, options } = *self;
        let bound: Vec<Layout> =
            points.iter().map(|point| point::at(layout, point)).collect::<Result<_, _>>()?;
        let layouts: Vec<&Layout> = match points.is_empty() {
            true => (0..options.rounds.max(1)).map(|_| layout).collect(),
            false => bound.iter().collect(),
        };
        if let (Some(set), Some(layout)) = (given_inputs, layouts.first()) {
            inputs::all_fit(out, layout, set)?;
        }
        // Read the weights first: the runtime's own message for missing weights is less clear.
        for file in [given, out] {
            Weights::read(file, file.path().and_then(Path::parent).unwrap_or(Path::new("")))?;
        }
        let made = match given_inputs {
            _ if !layout.caches.is_empty() => Vec::new(),
            Some(_) => Vec::new(),
            None => (0u64..)
                .zip(&layouts)
                .map(|(round, layout)| inputs::make(out, layout, options.seed.wrapping_add(round)))
                .collect::<Result<_, _>>()?,
        };
        let sets: Vec<&BTreeMap<String, Array>> = given_inputs.into_iter().chain(&made).collect();
        // Collect the values whose tolerance is loosened.
        let tolerances = Tolerances {
            all: options.tolerance,
            halves: stated::rounded(given.graph(), &Whole::halves(runtime, given)?),
            integers: integers::reached([out.graph(), given.graph()], &BTreeSet::new()),
            steps: integers::steps(given.graph()),
            units: units::units([out.graph(), given.graph()]),
        };
        let is_lossy = layout.encodings.iter().any(|row| !row.exact) || !layout.encoded_weights.is_empty();
        if !layout.caches.is_empty() {
            let steps = Steps { runtime, given, out, layout, options, tolerances: &tolerances, is_lossy };
            return steps.compare(given_inputs, points, begin(None));
        }
        let mut trial = Trial {
            runtime,
            given,
            out,
            layout,
            layouts,
            points: points.to_vec(),
            sets,
            options,
            tolerances,
        };
        // Run and compare; if results differ or a kernel fails, check the sizes that the file states.
        let names = match is_lossy {
            true => BTreeSet::new(),
            false => before_softmaxes(given.graph(), layout, MAX_SOFTMAX / (trial.sets.len() as u64).max(1)),
        };
        // A user who names points or inputs gets the failure itself.
        let is_named = given_inputs.is_some() || points.is_empty() || !options.at.is_empty();
        let (expected, refused) = match is_named {
            true => (trial.run_whole(given, &names, refuses)?, Vec::new()),
            false => trial.run_possible(&names)?,
        };
        if expected.is_empty() {
            return Ok(Verified { refused, ..begin(None) });
        }
        let outcome =
            if is_lossy { trial.compare_rounded(&expected) } else { trial.compare_all(&names, expected) };
        let is_wrong = match &outcome {
            Ok(found) => !found.is_within(),
            Err(error) => matches!(error.inner(), Error::Runtime { .. } | Error::Kernel { .. }),
        };
        for (set, layout) in trial.sets.iter().zip(&trial.layouts).filter(|_| is_wrong) {
            if let Some(claim) = first_false(runtime, given, out, layout, &[set], MAX_TRACE)? {
                return Err(claim);
            }
        }
        outcome.map(|found| Verified { points: trial.points, refused, ..found })
    }
}

/// Returns an empty verification that will compare the outputs of the given model's first round.
fn begin(first: Option<&Results>) -> Verified {
    let outputs = || first.into_iter().flat_map(|(outputs, _)| outputs);
    let unread = |(name, content): (&String, &Content<'_>)| Some((name.clone(), content.unread()?));
    let left_out: Vec<_> = outputs().filter_map(unread).collect();
    Verified {
        outputs: outputs().count() - left_out.len(),
        left_out,
        softmaxes: first.map_or(0, |(_, inner)| inner.len()),
        differences: Vec::new(),
        carried: Vec::new(),
        unstable: Vec::new(),
        loss: None,
        stock: Stock::default(),
        first: None,
        window: None,
        steps: 0,
        played: None,
        points: Vec::new(),
        refused: Vec::new(),
        skipped: 0,
        special: None,
    }
}

/// Results of one run of a whole model: its outputs, and the additionally requested values.
type Results = (Contents, Contents);

/// Points at which the given model fails, with the messages of the runtime.
type Refused = Vec<(Point, String)>;

/// Contents of values, by name.
type Contents = BTreeMap<String, Content<'static>>;

/// Both models and the plan, with the inputs and options of the verification.
struct Trial<'a> {
    runtime: &'a Runtime,
    given: &'a ModelFile,
    out: &'a ModelFile,
    layout: &'a Layout,
    /// The layout of each input set.
    layouts: Vec<&'a Layout>,
    /// Extents of each input set, if dimensions are free.
    points: Vec<Point>,
    sets: Vec<&'a BTreeMap<String, Array>>,
    options: &'a VerifyOptions,
    tolerances: Tolerances,
}

impl Trial<'_> {
    /// Compares the written model, the plan and sessions with default options with the given model's
    /// results.
    fn compare_all(&self, names: &BTreeSet<&str>, expected: Vec<Results>) -> Result<Verified, Error> {
        let mut found = begin(expected.first());
        let written = self.compare_model(names, &expected, &mut found)?;
        self.behind_equal_integers(names, &expected, &mut found)?;
        let expected = expected
            .into_iter()
            .zip(written)
            .map(|((given, _), written)| self.expected_of_plan(given, written));
        self.compare_plan(&expected.collect::<Vec<_>>(), &mut found)?;
        self.beside_own_spread(&mut found)?;
        self.blame(&mut found)?;
        found.stock = self.compare_stock();
        Ok(found)
    }

    /// Sets differences beyond the tolerance apart that are no larger than [`OF_SPREAD`] times those of the
    /// given model from itself, when its own kernels add in another order: nobody can tell which of such
    /// results is the right one.
    fn beside_own_spread(&self, found: &mut Verified) -> Result<(), Error> {
        if self.tolerances.all.of_largest == 0.0 {
            return Ok(());
        }
        let mut spreads: BTreeMap<u64, BTreeMap<String, f64>> = BTreeMap::new();
        for (round, subject, difference) in std::mem::take(&mut found.differences) {
            let is_output = matches!(subject, Subject::Model | Subject::Plan);
            let DifferenceKind::Elements { absolute, within: false, .. } = difference.kind else {
                found.differences.push((round, subject, difference));
                continue;
            };
            if let (true, Entry::Vacant(vacant)) = (is_output, spreads.entry(round)) {
                let at = usize::try_from(round).unwrap_or(0);
                vacant.insert(spread(self.runtime, self.given, self.layout_of(at), self.sets[at])?);
            }
            let own = spreads.get(&round).and_then(|spread| spread.get(&difference.output)).copied();
            match own.filter(|own| is_output && absolute <= OF_SPREAD * own) {
                Some(own) => found.unstable.push((round, subject, difference, own)),
                None => found.differences.push((round, subject, difference)),
            }
        }
        Ok(())
    }

    /// Measures the relative errors of the written model, and compares the plan with the written model.
    fn compare_rounded(&self, expected: &[Results]) -> Result<Verified, Error> {
        let mut found = begin(expected.first());
        let written = self.run_whole(self.out, &BTreeSet::new(), std::convert::identity)?;
        let mut loss = Loss::new(self.options.lossy_bound);
        for (round, ((expected, _), (results, _))) in (0u64..).zip(expected.iter().zip(&written)) {
            let others = loss.add(expected, results, &self.tolerances);
            found
                .differences
                .extend(others.into_iter().map(|difference| (round, Subject::Model, difference)));
        }
        found.loss = Some(loss);
        let written: Vec<Contents> = written.into_iter().map(|(outputs, _)| outputs).collect();
        self.compare_plan(&written, &mut found)?;
        if found
            .differences
            .iter()
            .any(|(_, subject, difference)| *subject == Subject::Plan && !difference.is_within())
        {
            self.blame(&mut found)?;
        }
        found.stock.refused = Some("the plan rounds values or weights".to_owned());
        Ok(found)
    }

    /// Runs the given model at all points, and leaves out those at which it fails: nothing can be compared
    /// there. Returns the results at the other points, and the points that it left out with the messages of
    /// the runtime.
    fn run_possible(&mut self, names: &BTreeSet<&str>) -> Result<(Vec<Results>, Refused), Error> {
        let (mut possible, mut refused) = (Vec::new(), Vec::new());
        for (round, outcome) in self.run_each(self.given, names, refuses)?.into_iter().enumerate() {
            match outcome {
                Ok(results) => possible.push((round, results)),
                Err(error) => match error.inner() {
                    Error::Given { message } => refused.push((self.points[round].clone(), message.clone())),
                    _ => return Err(error),
                },
            }
        }
        let (kept, results): (Vec<usize>, Vec<Results>) = possible.into_iter().unzip();
        self.layouts = kept.iter().map(|round| self.layouts[*round]).collect();
        self.points = kept.iter().map(|round| self.points[*round].clone()).collect();
        self.sets = kept.iter().map(|round| self.sets[*round]).collect();
        Ok((results, refused))
    }

    /// Runs a model on all input sets, in one session that rounds as stated. Also returns the values
    /// `names`. `tell` converts the error of a failed run.
    fn run_whole(
        &self,
        file: &ModelFile,
        names: &BTreeSet<&str>,
        tell: fn(Error) -> Error,
    ) -> Result<Vec<Results>, Error> {
        self.run_each(file, names, tell)?.into_iter().collect()
    }

    /// Like [`Self::run_whole`], with the outcome of each run.
    fn run_each(
        &self,
        file: &ModelFile,
        names: &BTreeSet<&str>,
        tell: fn(Error) -> Error,
    ) -> Result<Vec<Result<Results, Error>>, Error> {
        let whole = match names.is_empty() {
            true => Whole::as_stated(self.runtime, file, reference(self.layout))?,
            false => Whole::traced(self.runtime, file, names, reference(self.layout))?,
        };
        let outputs: BTreeSet<&str> = file.graph().output.iter().map(|output| output.name()).collect();
        let part = |results: Contents| -> Results {
            results.into_iter().partition(|(name, _)| outputs.contains(name.as_str()))
        };
        let run = |(round, set): (usize, &&BTreeMap<String, Array>)| {
            Ok(part(whole.contents(set).map_err(|error| self.told(round, tell(error)))?.0))
        };
        Ok(self.sets.iter().enumerate().map(run).collect())
    }

    /// Adds the extents of a round to an error, if dimensions are free.
    fn told(&self, round: usize, error: Error) -> Error {
        match self.points.get(round) {
            Some(point) => Error::At { at: point.to_string(), error: Box::new(error) },
            None => error,
        }
    }

    /// Compares the outputs and the softmax operands of the written model with the expected results.
    /// Returns the written model's outputs.
    fn compare_model(
        &self,
        names: &BTreeSet<&str>,
        expected: &[Results],
        found: &mut Verified,
    ) -> Result<Vec<Contents>, Error> {
        let written = self.run_whole(self.out, names, std::convert::identity)?;
        for (round, (results, expected)) in written.iter().zip(expected).enumerate() {
            self.note(round, Subject::Softmax, &expected.1, &results.1, found);
            self.note(round, Subject::Model, &expected.0, &results.0, found);
        }
        Ok(written.into_iter().map(|(outputs, _)| outputs).collect())
    }

    /// Reruns the written model on the given model's integers if it differs beyond the tolerance after
    /// operators that round to integers. A number near the middle between two integers may round to
    /// either of them, so each integer may be one step off. Results computed from equal integers must be
    /// within the tolerance.
    fn behind_equal_integers(
        &self,
        names: &BTreeSet<&str>,
        expected: &[Results],
        found: &mut Verified,
    ) -> Result<(), Error> {
        let all = &self.tolerances;
        let is_carried =
            |difference: &Difference| !difference.is_within() && all.integers.contains(&difference.output);
        if all.all.of_largest == 0.0
            || !found.differences.iter().any(|(.., difference)| is_carried(difference))
        {
            return Ok(());
        }
        // Pin the integers that both models have, unless they take too much memory.
        let pins = integers::shared(self.given.graph(), self.out.graph());
        let tensors = self.layout.tensors.iter().filter(|tensor| pins.contains(tensor.name.as_str()));
        if pins.is_empty() || tensors.map(|tensor| tensor.bytes).fold(0, u64::saturating_add) > MAX_TRACE {
            return Ok(());
        }
        let tolerances = Tolerances {
            integers: integers::reached([self.out.graph(), self.given.graph()], &pins),
            ..all.clone()
        };
        let given = Whole::traced(self.runtime, self.given, &pins, reference(self.layout))?;
        let mut differences = Vec::new();
        // In each round, compare the integers of both models, then the results that depend on them.
        for (round, (set, expected)) in (0u64..).zip(self.sets.iter().zip(expected)) {
            let mut pinned = given.run(set)?.0;
            pinned.retain(|name, _| pins.contains(name.as_str()));
            let (written, own) =
                Whole::pinned(self.runtime, self.out, names, &pinned, reference(self.layout))?;
            let mut inputs = BTreeMap::new();
            for (name, array) in set.iter().chain(&pinned) {
                inputs.insert(name.clone(), Array::of(&array.view())?);
            }
            let mut results = written.contents(&inputs)?.0;
            for (own, name) in &own {
                let kind = match (results.remove(own), pinned.get(name)) {
                    (Some(Content::Array(result)), Some(expected)) => {
                        step_apart(expected, &result, all.of(name))
                    }
                    _ => Some(DifferenceKind::Absent),
                };
                differences.extend(
                    kind.map(|kind| (round, Subject::Steps, Difference { output: name.clone(), kind })),
                );
            }
            let (inner, outputs) = results.into_iter().partition(|(name, _)| expected.1.contains_key(name));
            for (expected, results) in [(&expected.1, &inner), (&expected.0, &outputs)] {
                let behind = compare(expected, results, &tolerances);
                differences.extend(behind.into_iter().map(|difference| (round, Subject::Behind, difference)));
            }
        }
        // If no difference remains, the earlier ones follow from the integers alone.
        if differences.iter().all(|(.., difference)| difference.is_within()) {
            let (carried, others) = std::mem::take(&mut found.differences)
                .into_iter()
                .partition(|(.., difference)| is_carried(difference));
            (found.carried, found.differences) = (carried, others);
        }
        found.differences.extend(differences);
        Ok(())
    }

    /// Returns the expected results of the plan: the given model's, or the written model's if the
    /// tolerance of a value is loosened for rounding to integers.
    fn expected_of_plan(&self, given: Contents, written: Contents) -> Contents {
        let (mut expected, integers) = (given, &self.tolerances.integers);
        expected.extend(written.into_iter().filter(|(name, _)| integers.contains(name)));
        expected
    }

    /// Plays the plan and compares its outputs with the expected ones.
    fn compare_plan(&self, expected: &[Contents], found: &mut Verified) -> Result<(), Error> {
        let mut player = self.player(0)?;
        for (round, (set, expected)) in self.sets.iter().zip(expected).enumerate() {
            if round > 0 && !self.points.is_empty() {
                let layout = self.layout_of(round);
                let next = Player::after(player, self.runtime, self.out, layout, self.play_options());
                player = next.map_err(|error| self.told(round, error))?;
            }
            let played = player.play(*set).map_err(|error| self.told(round, error))?;
            self.note(round, Subject::Plan, expected, &player.outputs()?, found);
            found.played = Some(played);
        }
        Ok(())
    }

    fn note(
        &self,
        round: usize,
        subject: Subject,
        expected: &Contents,
        results: &BTreeMap<String, Content<'_>>,
        found: &mut Verified,
    ) {
        let differences = match subject {
            Subject::Plan => compare(
                expected,
                results,
                &Tolerances { integers: BTreeSet::new(), ..self.tolerances.clone() },
            ),
            _ => compare(expected, results, &self.tolerances),
        };
        found
            .differences
            .extend(differences.into_iter().map(|difference| (round as u64, subject, difference)));
    }

    /// Compares both models in sessions with default options, on all input sets.
    fn compare_stock(&self) -> Stock {
        let run = |file| -> Result<Vec<Contents>, Error> {
            let whole = Whole::new(self.runtime, file, SessionOptions::STOCK)?;
            self.sets.iter().map(|set| Ok(whole.contents(set)?.0)).collect()
        };
        match run(self.given).and_then(|given| Ok((given, run(self.out)?))) {
            Err(error) => Stock { differences: Vec::new(), refused: Some(error.to_string()) },
            Ok((given, written)) => {
                let pairs = (0u64..).zip(given.iter().zip(&written));
                let differences = pairs.flat_map(|(round, (given, written))| {
                    compare(given, written, &self.tolerances)
                        .into_iter()
                        .map(move |difference| (round, difference))
                });
                Stock { differences: differences.collect(), refused: None }
            }
        }
    }

    fn play_options(&self) -> PlayOptions {
        // Sizes below the largest are where a plan for ranges errs, so that free bytes are watched there.
        let poison_check = self.options.poison_check || !self.points.is_empty();
        PlayOptions { poison_check, swap_folder: self.options.swap_folder.clone(), ..PlayOptions::default() }
    }

    /// Returns the layout of a round.
    fn layout_of(&self, round: usize) -> &Layout {
        self.layouts.get(round).copied().unwrap_or(self.layout)
    }

    fn player(&self, round: usize) -> Result<Player<'_>, Error> {
        let player = Player::new(self.runtime, self.out, self.layout_of(round), self.play_options());
        player.map_err(|error| self.told(round, error))
    }

    /// Finds the first node and the first rewritten fragment that differ, if a difference is beyond the
    /// tolerance.
    fn blame(&self, found: &mut Verified) -> Result<(), Error> {
        let beyond = found.differences.iter().find(|(.., difference)| !difference.is_within());
        let Some((round, subject, _)) = beyond else { return Ok(()) };
        let round = usize::try_from(*round).unwrap_or(0);
        let set = self.sets[round];
        match subject {
            Subject::Plan => found.first = self.first_in_plan(round, set)?,
            _ => (found.first, found.window) = self.first_in_model(set)?,
        }
        Ok(())
    }

    /// Returns the first node and the first rewritten fragment of the written model whose results
    /// differ.
    fn first_in_model(
        &self,
        set: &BTreeMap<String, Array>,
    ) -> Result<(Option<String>, Option<FragmentDifference>), Error> {
        let Some(mut names) = traceable(self.layout, MAX_TRACE) else { return Ok((None, None)) };
        names.extend(
            self.layout.rewrites.iter().flat_map(|window| &window.outputs).map(|value| value.given.as_str()),
        );
        let expected = Whole::traced(self.runtime, self.given, &names, reference(self.layout))?.run(set)?.0;
        let found = Whole::traced(self.runtime, self.out, &names, reference(self.layout))?.run(set)?.0;
        let order = &self.out.graph().node;
        let node = first_node(order, &expected, &found, &self.tolerances);
        let window = first_fragment(self.layout, order, &expected, &found, &self.tolerances);
        Ok((node.map(|node| format!("{} ({})", node.name(), node.op_type())), window))
    }

    /// Returns the first node whose result in the plan differs from the written model's.
    fn first_in_plan(&self, round: usize, set: &BTreeMap<String, Array>) -> Result<Option<String>, Error> {
        let Some(names) = traceable(self.layout, MAX_TRACE) else { return Ok(None) };
        let expected = Whole::traced(self.runtime, self.out, &names, reference(self.layout))?.run(set)?.0;
        // A new player has new sessions, in which nodes that keep a state start over.
        self.player(round)?.play_against(set, &expected)
    }
}

/// Marks a failure of the given model as such: it says nothing about the plan.
fn refuses(error: Error) -> Error {
    match error {
        Error::Runtime { message, .. } => Error::Given { message },
        error => error,
    }
}

/// Rejects a plan whose weights, together with the larger of its arenas and the unplanned peak, exceed
/// the free memory.
fn enough_memory(layout: &Layout) -> Result<(), Error> {
    let arenas = layout.arenas.iter().filter(|arena| !PlayOptions::default().is_file(&arena.space));
    let arenas: u64 = arenas.map(|arena| arena.size).fold(0, u64::saturating_add);
    let before: u64 = layout.baseline.file_order_peak.values().copied().fold(0, u64::saturating_add);
    let needed = layout.weights.saturating_add(arenas.max(before));
    require(needed)
}
