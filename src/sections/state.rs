//! State of a divided model: pairs of old and new values, and caches that grow, before the model is cut.

use memc_ir::Module;
use memc_onnx_proto::ModelFile;
use memc_passes::StateNames;
use memc_passes::analysis::state;
use memc_passes::cache::is_growing;
use memc_plan::FILE_ORDER;

use crate::error::Error;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::Request;
use crate::state::{expand, validate};

/// Returns the pairs of the given model: those that the request names, and with `--alias-state` those that
/// are found. In a section alone more would be found, such as a result of a value that crosses.
///
/// # Errors
/// A named pair does not exist, or has two types.
pub(super) fn pairs(module: &Module, request: &Request) -> Result<Vec<StateNames>, Error> {
    if !request.alias_state && request.state.is_empty() {
        return Ok(Vec::new());
    }
    let mut options = request.options()?;
    options.state = expand(module, &options.state)?;
    validate(module, &options.state)?;
    let name = |value| module.value(value).name.clone();
    let found = state::pairs(module, &options).into_iter();
    Ok(found.map(|pair| StateNames { new: name(pair.new), old: name(pair.old) }).collect())
}

/// Keeps each cache that grows in one buffer, in the file order of the whole model: returns the plan, the
/// model to divide, and the request for it. `None` if no cache grows.
///
/// # Errors
/// The model is refused, or the rows of a cache have another use.
pub(super) fn cached(
    file: &ModelFile,
    request: &Request,
) -> Result<Option<(Planned, ModelFile, Request)>, Error> {
    if request.state.is_empty() {
        return Ok(None);
    }
    let module = memc_onnx_import::import(file, &request.import)?.module;
    let mut options = request.options()?;
    options.state = expand(&module, &options.state)?;
    validate(&module, &options.state)?;
    let grows = |pair: state::StatePair| {
        let types = module.ty(pair.old).tensor().zip(module.ty(pair.new).tensor());
        types.is_some_and(|(old, new)| is_growing(old, new))
    };
    options.alias_state = false;
    if !state::pairs(&module, &options).into_iter().any(grows) {
        return Ok(None);
    }
    let whole = Request { external_data: None, passes: Some(FILE_ORDER.to_owned()), ..request.clone() };
    let planned = plan(file, &whole)?;
    let unread = |source| Error::File { what: "read", path: "the weights of the model".into(), source };
    let cached = ModelFile::from_bytes(planned.model_bytes().map_err(unread)?)?.beside(file.path());
    let mut own = request.clone();
    own.import.dims.clear();
    Ok(Some((planned, cached, own)))
}
