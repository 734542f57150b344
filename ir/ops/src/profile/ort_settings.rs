//! Settings of an ONNX Runtime session that decide how much memory a model takes in it, as data and as
//! text, and those among which each recipe chooses.
//!
//! No single choice is best. The session gives nodes that its optimizations make the highest indices, so
//! in file order they run late: one image network took 18.5 MB in file order and 1.3 MB in the session's
//! own order, another 5.2 and 5.6. Fusions that move a transpose or a bias into a product merge what a
//! plan computes twice: a training step that was planned for 55.9 MB took 202 MB with all optimizations,
//! 186 MB with the basic ones, and 55.9 MB once four of those were disabled. So candidates are counted in
//! the runtime where there is one, and the least bytes win.

use std::fmt;
use std::str::FromStr;

use super::ort_session::{Language, Recipe, SessionNeeds};

/// The optimizations of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// None: nodes run as written.
    None,
    /// Those that keep the standard's operators.
    Basic,
    /// Also fusions into the runtime's own operators.
    Extended,
    /// Also layouts of this machine: blocks of channels.
    All,
}

impl Level {
    /// All levels, with the names that texts of settings use.
    pub const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("basic", Self::Basic), ("extended", Self::Extended), ("all", Self::All)];

    /// Returns the name of the level.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, level)| *level == self).map_or("all", |(name, _)| name)
    }
}

/// The session optimization that merges equal nodes, and so undoes recomputation.
const MERGES_EQUAL_NODES: &str = "CommonSubexpressionElimination";

/// Session optimizations that move transposes and biases into products, or fold nodes: what a plan
/// computes in parts or again becomes equal, or is held longer.
const MOVES_OPERANDS: [&str; 4] =
    ["MatMulAddFusion", "GemmTransposeFusion", "MatmulTransposeFusion", "ConstantFolding"];

/// The session optimization that joins slices of one value into a Split, whose results exist all at once.
const JOINS_SLICES: &str = "GatherSliceToSplitFusion";

/// Settings of a session that decide its memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSettings {
    /// Optimizations.
    pub level: Level,
    /// Whether nodes run in file order; otherwise in the session's own.
    pub file_order: bool,
    /// Whether a freed buffer is kept for a later value of equal size.
    pub reuse: bool,
    /// Whether an arena that grows in powers of two serves requests.
    pub arena: bool,
    /// Whether one block holds all values of a run, from the second run on.
    pub pattern: bool,
    /// Whether pairs of QuantizeLinear and DequantizeLinear stay as written.
    pub keeps_pairs: bool,
    /// Names of disabled optimizations.
    pub without: Vec<String>,
}

impl SessionSettings {
    /// A session with default options.
    pub const PLAIN: Self = Self {
        level: Level::All,
        file_order: false,
        reuse: true,
        arena: true,
        pattern: true,
        keeps_pairs: false,
        without: Vec::new(),
    };

    /// A session that allocates each value when it is written and frees it after its last use.
    fn exact(level: Level, file_order: bool, without: &[&str]) -> Self {
        let without = without.iter().map(|name| (*name).to_owned()).collect();
        Self { level, file_order, reuse: false, arena: false, pattern: false, without, ..Self::PLAIN }
    }

    /// These settings as far as a language can make them.
    fn possible(mut self, language: Language) -> Self {
        if language != Language::Python {
            (self.file_order, self.reuse) = (false, true);
        }
        self
    }
}

/// Place of a flag in the settings.
type Flag = fn(&mut SessionSettings) -> &mut bool;

/// Flags of settings in their text, each with a function to its place and the value without it.
const FLAGS: [(&str, Flag, bool); 5] = [
    ("file-order", |settings| &mut settings.file_order, false),
    ("no-reuse", |settings| &mut settings.reuse, true),
    ("no-arena", |settings| &mut settings.arena, true),
    ("no-pattern", |settings| &mut settings.pattern, true),
    ("keep-pairs", |settings| &mut settings.keeps_pairs, false),
];

/// Word before the names of disabled optimizations.
const WITHOUT: &str = "without=";

impl fmt::Display for SessionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        let mut settings = self.clone();
        for (name, place, usual) in FLAGS {
            if *place(&mut settings) != usual {
                write!(f, ",{name}")?;
            }
        }
        if !self.without.is_empty() {
            write!(f, ",{WITHOUT}{}", self.without.join(";"))?;
        }
        Ok(())
    }
}

impl FromStr for SessionSettings {
    type Err = String;

    /// Reads a level and flags: `all,file-order,no-arena,without=NAME;NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = Self::PLAIN;
        for (position, word) in text.split(',').enumerate() {
            let level = Level::ALL.into_iter().find(|(name, _)| *name == word).filter(|_| position == 0);
            if let Some((_, level)) = level {
                settings.level = level;
            } else if let Some((_, place, usual)) = FLAGS.into_iter().find(|(name, ..)| *name == word) {
                *place(&mut settings) = !usual;
            } else if let Some(names) = word.strip_prefix(WITHOUT) {
                let is_name = |name: &str| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                };
                settings.without = names.split(';').map(str::to_owned).collect();
                if let Some(wrong) = settings.without.iter().find(|name| !is_name(name)) {
                    return Err(format!("`{wrong}` is not a name of an optimization"));
                }
            } else {
                let flags = FLAGS.map(|(name, ..)| name).join(", ");
                return Err(format!(
                    "`{word}` is no setting: begin with none, basic, extended or all, then {flags}, without=NAME;NAME"
                ));
            }
        }
        Ok(settings)
    }
}

/// Share of bytes that is not worth fewer optimizations, as a divisor.
const EQUAL: u64 = 200;

/// Settings that a recipe chose, and the bytes that a session takes with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The settings.
    pub settings: SessionSettings,
    /// Most bytes of a run beyond the session at rest, without inputs.
    pub bytes: Option<u64>,
    /// Whether a session counted the bytes; otherwise they follow from the plan.
    pub is_counted: bool,
}

impl Recipe {
    /// Returns the settings among which the recipe chooses, the preferred ones first.
    pub fn candidates(self, language: Language, needs: SessionNeeds) -> Vec<SessionSettings> {
        let written = SessionSettings {
            keeps_pairs: needs.quantized,
            ..SessionSettings::exact(Level::None, true, &[])
        };
        let merging: &[&str] = if needs.recomputed { &[MERGES_EQUAL_NODES] } else { &[] };
        let still: Vec<&str> = std::iter::once(MERGES_EQUAL_NODES).chain(MOVES_OPERANDS).collect();
        let mut all = match self {
            Self::Plain => return vec![SessionSettings::PLAIN],
            Self::Fast => Vec::new(),
            Self::Smallest => vec![written.clone()],
        };
        all.extend([true, false].map(|order| SessionSettings::exact(Level::All, order, merging)));
        if needs.sliced {
            let apart: Vec<&str> = merging.iter().copied().chain([JOINS_SLICES]).collect();
            all.extend([true, false].map(|order| SessionSettings::exact(Level::All, order, &apart)));
        }
        if needs.recomputed {
            all.push(SessionSettings::exact(Level::All, true, &still));
        }
        // Without blocks of channels a convolution takes 1.3 to 1.5 times the time.
        if self == Self::Smallest || !needs.convolves {
            all.push(SessionSettings::exact(Level::Extended, true, merging));
            all.push(SessionSettings::exact(Level::Basic, true, &still));
            all.push(written);
        }
        let mut distinct: Vec<SessionSettings> = Vec::new();
        for settings in all.into_iter().map(|settings| settings.possible(language)) {
            if !distinct.contains(&settings) {
                distinct.push(settings);
            }
        }
        distinct
    }

    /// Returns the choice where no runtime can count: nodes as written keep the plan, and so a limit.
    pub fn predicted(self, language: Language, needs: SessionNeeds) -> Choice {
        let candidates = self.candidates(language, needs);
        let must_hold = self == Self::Smallest || self == Self::Fast && needs.limit.is_some();
        let is_written = |settings: &&SessionSettings| settings.level == Level::None;
        // Nodes that the session makes of convolutions run late in file order.
        let is_usual = |settings: &&SessionSettings| settings.file_order != needs.convolves;
        let written = Self::Smallest.candidates(language, needs).into_iter().next();
        let chosen = match must_hold {
            true => candidates.iter().find(is_written).cloned().or(written),
            false => candidates.iter().find(is_usual).or(candidates.first()).cloned(),
        };
        let settings = chosen.unwrap_or(SessionSettings::PLAIN);
        let bytes = (settings.level == Level::None).then_some(needs.peak);
        Choice { settings, bytes, is_counted: false }
    }

    /// Returns the choice among counted candidates: the least bytes, and the preferred of equal ones;
    /// `fast` takes bytes within half a percent for equal. `None` if no candidate was counted.
    pub fn least(self, counted: impl IntoIterator<Item = (SessionSettings, Option<u64>)>) -> Option<Choice> {
        let known = counted.into_iter().filter_map(|(settings, bytes)| Some((settings, bytes?)));
        let known: Vec<(SessionSettings, u64)> = known.collect();
        let least = known.iter().map(|(_, bytes)| *bytes).min()?;
        let most = if self == Self::Fast { least.saturating_add(least / EQUAL) } else { least };
        let (settings, bytes) = known.into_iter().find(|(_, bytes)| *bytes <= most)?;
        Some(Choice { settings, bytes: Some(bytes), is_counted: true })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NEEDS: SessionNeeds = SessionNeeds {
        anchored: false,
        quantized: true,
        transfers: false,
        recomputed: true,
        sliced: true,
        convolves: false,
        peak: 4096,
        limit: None,
    };

    #[test]
    fn settings_are_read_as_they_are_written() {
        for (_, recipe) in Recipe::ALL {
            for (_, language) in Language::ALL {
                for settings in recipe.candidates(language, NEEDS) {
                    assert_eq!(settings.to_string().parse::<SessionSettings>().unwrap(), settings);
                }
            }
        }
        assert_eq!("all".parse::<SessionSettings>().unwrap(), SessionSettings::PLAIN);
        for wrong in ["", "most", "file-order,all", "all,without=", "all,without=A;", "all,without=A B"] {
            assert!(wrong.parse::<SessionSettings>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_smallest_chooses_among_all_that_the_fast_one_does() {
        for (_, language) in Language::ALL {
            for convolves in [false, true] {
                for recomputed in [false, true] {
                    let needs = SessionNeeds { convolves, recomputed, ..NEEDS };
                    let smallest = Recipe::Smallest.candidates(language, needs);
                    let fast = Recipe::Fast.candidates(language, needs);
                    assert!(fast.iter().all(|settings| smallest.contains(settings)));
                    assert_eq!(smallest[0].level, Level::None);
                    assert!(!convolves || fast.iter().all(|settings| settings.level == Level::All));
                }
            }
        }
    }

    #[test]
    fn a_limit_is_kept_without_counting() {
        let fast = |needs| Recipe::Fast.predicted(Language::Python, needs);
        for convolves in [false, true] {
            let choice = fast(SessionNeeds { convolves, limit: Some(5000), ..NEEDS });
            assert_eq!((choice.settings.level, choice.bytes), (Level::None, Some(4096)));
            let free = fast(SessionNeeds { convolves, ..NEEDS });
            assert_eq!(
                (free.settings.level, free.settings.file_order, free.bytes),
                (Level::All, !convolves, None)
            );
        }
    }

    #[test]
    fn the_first_of_equal_candidates_is_chosen() {
        let all = Recipe::Fast.candidates(Language::Python, NEEDS);
        let counted = |bytes: [u64; 3]| all.iter().cloned().zip(bytes.map(Some));
        let chosen = |recipe: Recipe, bytes| recipe.least(counted(bytes)).and_then(|choice| choice.bytes);
        assert_eq!(Recipe::Fast.least(counted([7, 5, 5])).unwrap().settings, all[1]);
        assert_eq!(
            (chosen(Recipe::Fast, [1003, 1000, 999]), chosen(Recipe::Smallest, [1003, 1000, 999])),
            (Some(1003), Some(999))
        );
        assert_eq!(Recipe::Fast.least(all.into_iter().map(|settings| (settings, None))), None);
    }
}
