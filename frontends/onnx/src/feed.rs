//! Binding of dimensions by real inputs: arrays of the caller give the extents of the inputs with their
//! names.

use std::collections::BTreeMap;

use memc_ir::{Dim, DimExpr, Module, Value};

use crate::bindings::{Bindings, By};
use crate::error::ImportError;

/// Binds symbols by the extents of the feed's arrays. An error if an array does not fit its input, or
/// if a symbol gets two extents.
pub(crate) fn bind(
    module: &Module,
    inputs: &[Value],
    feed: &BTreeMap<String, Vec<u64>>,
    bindings: &mut Bindings,
) -> Result<(), ImportError> {
    let named: BTreeMap<&str, Value> =
        inputs.iter().map(|input| (module.value(*input).name.as_str(), *input)).collect();
    // Expressions of several symbols are compared later, after all symbols are bound.
    let mut sums: Vec<(&String, usize, &DimExpr, u64)> = Vec::new();
    for (name, extents) in feed {
        let Some(input) = named.get(name.as_str()) else {
            let known = named.keys().map(|name| (*name).to_owned()).collect();
            return Err(ImportError::FeedInput { name: name.clone(), known });
        };
        let stated = module.ty(*input);
        let Some(dims) = stated.tensor().and_then(|tensor| tensor.shape.as_ref()) else { continue };
        let fits = |(dim, extent): (&Dim, &u64)| dim.known().is_none_or(|stated| stated == *extent);
        if dims.len() != extents.len() || !dims.iter().zip(extents).all(fits) {
            return Err(ImportError::FeedExtents {
                name: name.clone(),
                stated: stated.to_string(),
                found: format!("{extents:?}"),
            });
        }
        for (axis, (dim, extent)) in dims.iter().zip(extents).enumerate() {
            let Dim::Symbolic(expr) = dim else { continue };
            match expr.symbols().as_slice() {
                [symbol] if *expr == DimExpr::symbol(symbol) => {
                    bindings.add(symbol, *extent, By::Input { name: name.clone(), axis })?;
                }
                _ => sums.push((name, axis, expr, *extent)),
            }
        }
    }
    // Compare the expressions with the extents in the feed.
    for (name, axis, expr, extent) in sums {
        let found = expr
            .bind(&bindings.dims())
            .and_then(|bound| bound.as_constant())
            .and_then(|bound| u64::try_from(bound).ok());
        if let Some(found) = found.filter(|found| *found != extent) {
            let others: Vec<String> =
                expr.symbols().iter().filter_map(|symbol| bindings.said(symbol)).collect();
            let second = By::Input { name: name.clone(), axis }.to_string();
            let dimension = expr.to_string();
            return Err(ImportError::Conflict {
                dimension,
                extents: [found, extent],
                by: [others.join(", "), second],
            });
        }
    }
    Ok(())
}
