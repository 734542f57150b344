//! Options and results of a verification.

use std::path::PathBuf;

use crate::blame::FragmentDifference;
use crate::compare::{Difference, Tolerance};
use crate::loss::Loss;
use crate::played::Played;
use crate::point::Point;

/// Allowed relative error of plans that round values or weights, unless the user states one. Rounding to
/// bfloat16 and to 8 bits moved the gradients of training steps by less, and weights in 8 bits the result
/// of a product.
pub const LOSSY_BOUND: f64 = 1e-2;

/// Options of a verification.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Number of input sets, made from `seed`, `seed + 1`, and so on.
    pub rounds: u64,
    /// First seed.
    pub seed: u64,
    /// Allowed difference between numbers.
    pub tolerance: Tolerance,
    /// Allowed relative error over all outputs of a plan that rounds values or weights, in the Euclidean
    /// norm.
    pub lossy_bound: f64,
    /// Whether to watch every value in the arena.
    pub poison_check: bool,
    /// Folder for the files of spaces that are not memory.
    pub swap_folder: Option<PathBuf>,
    /// Points of a plan for ranges, in place of chosen ones.
    pub at: Vec<Point>,
    /// Largest number of points of a plan for ranges; `None` for corners, their neighbors and eight points
    /// inside, as far as there is time.
    pub max_points: Option<usize>,
    /// Clock: nanoseconds since any fixed moment. With it, points after the first three are left out if all
    /// of them would take longer than two minutes, unless `at` or `max_points` is given.
    pub clock: Option<fn() -> u64>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            rounds: 1,
            seed: 0,
            tolerance: Tolerance::default(),
            lossy_bound: LOSSY_BOUND,
            poison_check: false,
            swap_folder: None,
            at: Vec::new(),
            max_points: None,
            clock: None,
        }
    }
}

/// Result that was compared with the given model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The written model, whole.
    Model,
    /// Operands of the written model's softmaxes, which hide differences.
    Softmax,
    /// Integers that the written model's rounding operators compute from the given model's integers.
    Steps,
    /// Outputs and softmax operands of the written model, computed from the given model's integers.
    Behind,
    /// The plan, played. Values whose tolerance is loosened for rounding to integers are compared with
    /// the written model.
    Plan,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "the written model",
            Self::Softmax => "the written model before a softmax",
            Self::Steps => "the written model at its roundings",
            Self::Behind => "the written model with the input model's integers",
            Self::Plan => "the plan",
        })
    }
}

/// Results of a verification.
#[derive(Debug)]
pub struct Verified {
    /// Number of outputs compared in each round.
    pub outputs: usize,
    /// Outputs that were not compared, with their kinds: the runtime does not give out their elements.
    pub left_out: Vec<(String, &'static str)>,
    /// Number of softmax operands that were compared too.
    pub softmaxes: usize,
    /// All differences with their rounds and subjects; empty if every bit is equal.
    pub differences: Vec<(u64, Subject, Difference)>,
    /// Differences of the written model beyond the tolerance that follow from integers one step apart,
    /// with their rounds and subjects. With the given model's integers, no difference is beyond the
    /// tolerance.
    pub carried: Vec<(u64, Subject, Difference)>,
    /// Differences beyond the tolerance that are about as large as those of the given model from itself when
    /// its kernels add in another order, with the largest of these.
    pub unstable: Vec<(u64, Subject, Difference, f64)>,
    /// Relative errors of the written model, if the plan rounds values or weights; other outputs are
    /// compared with the given model as usual, and the plan with the written model.
    pub loss: Option<Loss>,
    /// Differences between both models in sessions with default options.
    pub stock: Stock,
    /// First node, in the order of the schedule, whose result differs. `None` if all differences are
    /// within the tolerance, or if the search would need too much memory.
    pub first: Option<String>,
    /// First rewritten fragment whose results differ beyond the tolerance between the written and the
    /// given model.
    pub window: Option<FragmentDifference>,
    /// Number of compared steps of a model with caches; 0 for other models.
    pub steps: u64,
    /// Result of the last play of the plan.
    pub played: Option<Played>,
    /// Extents of each round; none for plans without free dimensions.
    pub points: Vec<Point>,
    /// Points that were left out because the given model itself fails there, with the runtime's messages.
    pub refused: Vec<(Point, String)>,
    /// Number of points that were left out to save time.
    pub skipped: usize,
    /// Number of the round on special numbers, after all others; `None` if there was none.
    pub special: Option<u64>,
}

impl Verified {
    /// Whether outputs were compared, and all are equal, within the tolerance, or rounded no more than
    /// allowed.
    pub fn holds(&self) -> bool {
        self.outputs > 0 && self.is_within()
    }
    /// Describes a round: its number, its extents, or its inputs.
    pub fn round(&self, round: u64) -> String {
        if self.special == Some(round) {
            return "on special numbers".to_owned();
        }
        let point = usize::try_from(round).ok().and_then(|round| self.points.get(round));
        point.map_or_else(|| format!("round {round}"), |point| format!("at {point}"))
    }
    /// Adds the results of later rounds.
    pub(crate) fn extend(&mut self, later: Self) {
        let before = self.points.len() as u64;
        if before == 0 {
            (self.outputs, self.left_out, self.softmaxes) = (later.outputs, later.left_out, later.softmaxes);
        }
        let moved = |(round, subject, difference)| (round + before, subject, difference);
        self.differences.extend(later.differences.into_iter().map(moved));
        self.carried.extend(later.carried.into_iter().map(moved));
        self.unstable.extend(
            later
                .unstable
                .into_iter()
                .map(|(round, subject, difference, own)| (round + before, subject, difference, own)),
        );
        self.loss = later.loss.or(self.loss.take());
        self.stock
            .differences
            .extend(later.stock.differences.into_iter().map(|(round, one)| (round + before, one)));
        self.stock.refused = self.stock.refused.take().or(later.stock.refused);
        self.first = self.first.take().or(later.first);
        self.window = self.window.take().or(later.window);
        self.played = later.played.or(self.played.take());
        self.points.extend(later.points);
        self.refused.extend(later.refused);
        self.steps += later.steps;
    }
    pub(crate) fn is_within(&self) -> bool {
        let is_near = self.loss.as_ref().is_none_or(Loss::is_within);
        is_near && self.differences.iter().all(|(_, _, difference)| difference.is_within())
    }
}

/// Differences between the written and the given model, each in a session with default options.
///
/// The verdict on a plan does not depend on them. All other comparisons round every value to the type
/// that the model states. Sessions with default options do not: they keep sums of float16 values in
/// float32 until an operator really reads float16, and they fuse nodes freely.
#[derive(Debug, Default)]
pub struct Stock {
    /// All differences with their rounds.
    pub differences: Vec<(u64, Difference)>,
    /// Message of the runtime if it refused one of the models, so that nothing was compared; otherwise
    /// `None`.
    pub refused: Option<String>,
}

impl Stock {
    /// Whether all outputs are equal or within the tolerance.
    pub fn holds(&self) -> bool {
        self.differences.iter().all(|(_, difference)| difference.is_within())
    }
}
