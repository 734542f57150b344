//! Checks pairs of a graph output and the input whose new value it is, as a user names them: both exist
//! and may share storage.

use memc_ir::{Module, Value};
use memc_passes::StateNames;

use crate::error::Error;
use memc_ir::nearest;

/// Checks pairs against the model: each name exists and occurs once, and both tensors of a pair have one
/// type and known extents.
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
            return refuse("another pair already holds one of the two".to_owned());
        }
    }
    Ok(())
}

/// Finds the graph input or output with a name.
fn find(module: &Module, values: &[Value], name: &str, what: &'static str) -> Result<Value, Error> {
    let names = || values.iter().map(|value| module.value(*value).name.as_str());
    let found = values.iter().copied().find(|value| module.value(*value).name == name);
    found.ok_or_else(|| Error::UnknownValue { what, name: name.to_owned(), nearest: nearest(name, names()).map(str::to_owned) })
}
