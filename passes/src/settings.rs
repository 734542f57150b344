//! Settings of one run of a pass, and their text in pipelines: `split[limit=4096,time=120000]`.

use std::collections::BTreeSet;
use std::fmt;

use memc_ir::Bytes;

/// How long the pass `budget` searches for a plan within its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seek {
    /// Stops if a short search finds nothing.
    Soon,
    /// Spends all effort on the limit.
    Fully,
    /// Spends all effort on the limit, then searches for the smallest arena, which a refusal states.
    #[default]
    Longest,
    /// Searches only for the smallest arena.
    Least,
}

impl Seek {
    const ALL: [Self; 4] = [Self::Soon, Self::Fully, Self::Longest, Self::Least];

    fn name(self) -> &'static str {
        match self {
            Self::Soon => "soon",
            Self::Fully => "fully",
            Self::Longest => "longest",
            Self::Least => "least",
        }
    }
}

/// Settings of one run of a pass, in addition to the options of the whole plan.
///
/// A pass is a function of the module, the options and these settings. Each pass names the settings that
/// it reads ([`crate::PassInfo::reads`]). A pipeline prints those settings, so that its text repeats the
/// run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Limit of the first space's arena, in bytes; `None` if memory has a price instead.
    pub limit: Option<Bytes>,
    /// Time that less memory may cost, in hundredths of a percent of the modelled time.
    pub slowdown: u32,
    /// Maximum modelled time of the module, in nanoseconds.
    pub time: Option<u64>,
    /// Maximum bytes that a node may need by itself if everything else can be recomputed.
    pub alone: Option<Bytes>,
    /// Number of equal parts of the batch.
    pub parts: Option<u64>,
    /// Search nodes of exact solvers; `None` means the effort of the options.
    pub effort: Option<u64>,
    /// Size of a known arena, in bytes: only smaller arenas are of interest.
    pub below: Option<u64>,
    /// Numbers of the sub-views to take, in the order of the pass `window`; `None` means all.
    pub windows: Option<BTreeSet<usize>>,
    /// Whether rewriting leaves large weights unchanged: none is joined with others, divided or
    /// transposed before the model runs.
    pub whole_weights: bool,
    /// How long to search for a plan within the limit.
    pub seek: Seek,
    /// Smallest known arena, in bytes, for a search for a smaller one.
    pub smallest: Option<Bytes>,
    /// Modelled time of a known plan within the limit, in nanoseconds.
    pub fastest: Option<u64>,
    /// Whether a plan within the limit may only use codes: nothing is recomputed or moved.
    pub only_codes: bool,
}

/// Names of all settings, in printing order.
pub const NAMES: [&str; 13] = [
    "limit", "slowdown", "time", "alone", "parts", "effort", "below", "windows", "weights", "seek",
    "smallest", "fastest", "changes",
];

/// The only text of the setting `weights`.
const WHOLE: &str = "whole";
/// The only text of the setting `changes`.
const CODES: &str = "codes";

impl Settings {
    /// Returns the settings with these names; all others have their defaults.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        let mut kept = Self::default();
        for name in names {
            kept.copy(name, self);
        }
        kept
    }

    /// Copies every setting that `other` sets.
    pub fn take(&mut self, other: &Self) {
        for name in NAMES {
            self.copy(name, other);
        }
    }

    /// Copies one setting, if it is set. Every printed text parses back.
    fn copy(&mut self, name: &str, from: &Self) {
        if let Some(text) = from.text(name) {
            _ = self.set(name, &text);
        }
    }

    /// Sets one setting from its text.
    ///
    /// # Errors
    /// The name is unknown, or the text is no value of the setting.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let wrong = || SettingError { name: name.to_owned(), text: text.to_owned() };
        let number = || text.parse::<u64>().map_err(|_| wrong());
        match name {
            "limit" => self.limit = Some(Bytes(number()?)),
            "slowdown" => self.slowdown = text.parse().map_err(|_| wrong())?,
            "time" => self.time = Some(number()?),
            "alone" => self.alone = Some(Bytes(number()?)),
            "parts" => self.parts = Some(number()?),
            "effort" => self.effort = Some(number()?),
            "below" => self.below = Some(number()?),
            "windows" => self.windows = Some(numbers(text).ok_or_else(wrong)?),
            "weights" if text == WHOLE => self.whole_weights = true,
            "seek" => self.seek = Seek::ALL.into_iter().find(|seek| seek.name() == text).ok_or_else(wrong)?,
            "smallest" => self.smallest = Some(Bytes(number()?)),
            "fastest" => self.fastest = Some(number()?),
            "changes" if text == CODES => self.only_codes = true,
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Returns the text of one setting; `None` if the setting has its default.
    fn text(&self, name: &str) -> Option<String> {
        match name {
            "limit" => self.limit.map(|bytes| bytes.0.to_string()),
            "slowdown" => Some(self.slowdown).filter(|part| *part > 0).map(|part| part.to_string()),
            "time" => self.time.map(|nanos| nanos.to_string()),
            "alone" => self.alone.map(|bytes| bytes.0.to_string()),
            "parts" => self.parts.map(|parts| parts.to_string()),
            "effort" => self.effort.map(|effort| effort.to_string()),
            "below" => self.below.map(|bytes| bytes.to_string()),
            "windows" => self.windows.as_ref().map(list),
            "weights" => self.whole_weights.then(|| WHOLE.to_owned()),
            "seek" => {
                Some(self.seek).filter(|seek| *seek != Seek::default()).map(|seek| seek.name().to_owned())
            }
            "smallest" => self.smallest.map(|bytes| bytes.0.to_string()),
            "fastest" => self.fastest.map(|nanos| nanos.to_string()),
            "changes" => self.only_codes.then(|| CODES.to_owned()),
            _ => None,
        }
    }
}

/// Prints `none`, or the numbers separated by dots.
fn list(numbers: &BTreeSet<usize>) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(".") }
}

fn numbers(text: &str) -> Option<BTreeSet<usize>> {
    if text == "none" {
        Some(BTreeSet::new())
    } else {
        text.split('.').map(|number| number.parse().ok()).collect()
    }
}

/// Prints the settings that differ from their defaults: `limit=4096,seek=soon`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = NAMES.iter().filter_map(|name| Some(format!("{name}={}", self.text(name)?)));
        f.write_str(&texts.collect::<Vec<_>>().join(","))
    }
}

/// A name that is no setting, or a text that is no value of the setting (the request's fault).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}={text}` is not a setting; passes have the settings {}", NAMES.join(", "))]
pub struct SettingError {
    /// Name of the setting.
    pub name: String,
    /// Text of the value.
    pub text: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn all() -> Settings {
        Settings {
            limit: Some(Bytes(1)),
            slowdown: 2,
            time: Some(3),
            alone: Some(Bytes(4)),
            parts: Some(5),
            effort: Some(6),
            below: Some(7),
            windows: Some([8, 10].into()),
            whole_weights: true,
            seek: Seek::Least,
            smallest: Some(Bytes(11)),
            fastest: Some(12),
            only_codes: true,
        }
    }

    #[test]
    fn every_setting_prints_and_parses_back() {
        let text = all().to_string();
        assert_eq!(text.split(',').count(), NAMES.len());
        let mut again = Settings::default();
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=').unwrap();
            again.set(name, value).unwrap();
        }
        assert_eq!(again, all());
        again.set("windows", "none").unwrap();
        assert_eq!(again.windows, Some(BTreeSet::new()));
        assert_eq!(Settings::default().to_string(), "");
    }

    #[test]
    fn only_named_settings_are_kept() {
        assert_eq!(all().only(&["limit", "seek"]).to_string(), "limit=1,seek=least");
        assert_eq!(all().only(&NAMES), all());
    }

    #[test]
    fn wrong_texts_are_refused() {
        let mut settings = Settings::default();
        for (name, text) in [("limit", "4 KiB"), ("seek", "long"), ("windows", "1,2"), ("width", "1")] {
            assert!(settings.set(name, text).is_err(), "{name}={text}");
        }
        assert_eq!(settings, Settings::default());
    }
}
