//! Checks sizes that only the model's file states against the data, after a verification failed.
//!
//! Rewriting relies on these sizes: for example, it turns a matrix with one column into a row by a
//! reshape. If the data gives another size, the rewritten node fails or gives other results.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Layout, StatedBy};
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::error::Error;
use crate::options::reference;
use crate::runtime::Runtime;
use crate::step::scheduled;
use crate::whole::Whole;

/// Runs the given model and returns an error for the first result, in schedule order, whose size differs
/// from the size stated in the file. Returns `None` if all sizes are as stated, or if the results take
/// more than `most` bytes.
///
/// # Errors
/// The runtime refuses the model, or the schedule belongs to another model.
pub(crate) fn first_false(
    runtime: &Runtime,
    given: &ModelFile,
    out: &ModelFile,
    layout: &Layout,
    sets: &[&BTreeMap<String, Array>],
    most: u64,
) -> Result<Option<Error>, Error> {
    let by_file: BTreeSet<&str> =
        layout.stated.iter().filter(|row| row.by == StatedBy::File).map(|row| row.tensor.as_str()).collect();
    let claims = layout.tensors.iter().filter(|tensor| by_file.contains(tensor.name.as_str()));
    let claims: BTreeMap<&str, &memc_layout::Tensor> =
        claims.map(|tensor| (tensor.name.as_str(), tensor)).collect();
    if claims.is_empty() || claims.values().map(|tensor| tensor.bytes).fold(0, u64::saturating_add) > most {
        return Ok(None);
    }
    let names = claims.keys().copied().collect();
    let whole = Whole::traced(runtime, given, &names, reference(layout))?;
    let nodes = scheduled(out, layout)?;
    for set in sets {
        let (results, _) = whole.run(set)?;
        for (step, node) in nodes.iter().enumerate() {
            for name in &node.output {
                let (Some(tensor), Some(found)) = (claims.get(name.as_str()), results.get(name)) else {
                    continue;
                };
                if tensor.shape != found.shape {
                    return Ok(Some(Error::Claimed {
                        step: step as u64,
                        node: node.name().to_owned(),
                        op: node.op_type().to_owned(),
                        tensor: name.clone(),
                        claimed: tensor.shape.as_slice().into(),
                        found: found.shape.as_slice().into(),
                    }));
                }
            }
        }
    }
    Ok(None)
}
