//! Pairs of a graph output and the input whose new value it is, as a user names them: expands patterns,
//! and checks that both exist and may share storage.

use memc_ir::{Module, Value};
use memc_passes::StateNames;
use memc_passes::cache::is_growing;

use crate::error::Error;
use memc_ir::nearest;

/// Checks pairs against the model: each name exists and occurs once, and both tensors of a pair have one
/// type and known extents, but for one axis that may be longer in the output.
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
        let is_sized = [new, old].iter().all(|value| module.size(*value).is_some());
        if new_type.tensor().is_none() || !is_sized {
            return refuse(
                "both must be tensors of a known or largest size; `--dim` binds symbolic dimensions, as in `--dim past=0..1023`"
                    .to_owned(),
            );
        }
        let grows = new_type.tensor().zip(old_type.tensor()).is_some_and(|(new, old)| is_growing(old, new));
        if new_type.tensor() != old_type.tensor() && !grows {
            return refuse(format!("`{}` is {new_type}, and `{}` is {old_type}", pair.new, pair.old));
        }
        if module.producer(new).is_none() {
            return refuse(format!("no operator computes `{}`", pair.new));
        }
        if pairs.iter().take(index).any(|other| other.new == pair.new || other.old == pair.old) {
            return refuse("another pair already holds one of the two".to_owned());
        }
    }
    Ok(())
}

/// Replaces each pair with a `*` by the pairs that it stands for, and puts the output of each pair first.
/// `*` stands for one text in both names.
///
/// # Errors
/// A pattern stands for no output, or an output has no input.
pub(crate) fn expand(module: &Module, pairs: &[StateNames]) -> Result<Vec<StateNames>, Error> {
    let main = module.graph(module.main());
    let names = |values: &[Value]| -> Vec<String> {
        values.iter().map(|value| module.value(*value).name.clone()).collect()
    };
    let (inputs, outputs) = (names(&main.inputs), names(&main.outputs));
    let mut all = Vec::new();
    for pair in pairs {
        let is_turned = matching(&outputs, &pair.new).is_empty()
            && !matching(&outputs, &pair.old).is_empty()
            && !matching(&inputs, &pair.new).is_empty();
        let (new, old) = if is_turned { (&pair.old, &pair.new) } else { (&pair.new, &pair.old) };
        let found = matching(&outputs, new);
        if found.is_empty() {
            return Err(unknown(&outputs, new, "output"));
        }
        for (output, text) in found {
            let input = match text {
                Some(text) if old.contains('*') => old.replacen('*', text, 1),
                _ => old.clone(),
            };
            if !inputs.contains(&input) {
                return Err(unknown(&inputs, &input, "input"));
            }
            all.push(StateNames { new: output.clone(), old: input });
        }
    }
    Ok(all)
}

/// Returns the names that a pattern stands for, each with the text for its `*`. A name that is written
/// with a `*` comes first.
fn matching<'n>(names: &'n [String], pattern: &str) -> Vec<(&'n String, Option<&'n str>)> {
    if let Some(name) = names.iter().find(|name| *name == pattern) {
        return vec![(name, None)];
    }
    let Some((head, tail)) = pattern.split_once('*') else { return Vec::new() };
    let between = |name: &'n String| name.strip_prefix(head)?.strip_suffix(tail);
    names.iter().filter_map(|name| Some((name, Some(between(name)?)))).collect()
}

fn unknown(names: &[String], name: &str, what: &'static str) -> Error {
    let nearest = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
    Error::UnknownValue { what, name: name.to_owned(), nearest }
}

/// Finds the graph input or output with a name.
fn find(module: &Module, values: &[Value], name: &str, what: &'static str) -> Result<Value, Error> {
    let names = || values.iter().map(|value| module.value(*value).name.as_str());
    let found = values.iter().copied().find(|value| module.value(*value).name == name);
    found.ok_or_else(|| Error::UnknownValue {
        what,
        name: name.to_owned(),
        nearest: nearest(name, names()).map(str::to_owned),
    })
}
