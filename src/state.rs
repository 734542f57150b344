//! Pairs of a graph output and the input whose new value it is, as a user names them: that both exist and may share storage.

use memc_ir::{Module, Value};
use memc_passes::StateNames;

use crate::error::Error;

/// Holds pairs to the model: names exist, once each, and both tensors of a pair have the same type and known extents.
///
/// # Errors
/// The first pair that cannot share storage.
pub(crate) fn validate(module: &Module, pairs: &[StateNames]) -> Result<(), Error> {
    let main = module.graph(module.main());
    for (index, pair) in pairs.iter().enumerate() {
        let new = find(module, &main.outputs, &pair.new, "output")?;
        let old = find(module, &main.inputs, &pair.old, "input")?;
        let refuse = |why: String| Err(Error::State { pair: format!("{}={}", pair.new, pair.old), why });
        let (new_type, old_type) = (module.ty(new), module.ty(old));
        if new_type.tensor().is_none() || new_type.size().is_none() || old_type.size().is_none() {
            return refuse("both must be tensors of a known size; `--dim` binds symbolic dimensions".to_owned());
        }
        if new_type.tensor() != old_type.tensor() {
            return refuse(format!("`{}` is {new_type}, and `{}` is {old_type}", pair.new, pair.old));
        }
        if module.producer(new).is_none() {
            return refuse(format!("no operator computes `{}`", pair.new));
        }
        if pairs.iter().take(index).any(|other| other.new == pair.new || other.old == pair.old) {
            return refuse("one of both is in another pair already".to_owned());
        }
    }
    Ok(())
}

/// The graph input or output of this name.
fn find(module: &Module, values: &[Value], name: &str, what: &'static str) -> Result<Value, Error> {
    let names = || values.iter().map(|value| module.value(*value).name.as_str());
    let found = values.iter().copied().find(|value| module.value(*value).name == name);
    found.ok_or_else(|| Error::UnknownValue { what, name: name.to_owned(), nearest: nearest(name, names()).map(str::to_owned) })
}

/// The name that takes the fewest edits to reach, if that is at most half of its characters.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let ranked = known.map(|other| (distance(name, other), other));
    ranked.min().filter(|(edits, other)| *edits * 2 <= other.chars().count()).map(|(_, other)| other)
}

/// Insertions, deletions and replacements of characters between two names.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *against);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_was_meant() {
        let known = ["moment_1", "moment_2", "weight"];
        assert_eq!(nearest("moment2", known.into_iter()), Some("moment_2"));
        assert_eq!(nearest("wieght", known.into_iter()), Some("weight"));
        assert_eq!(nearest("loss", known.into_iter()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
