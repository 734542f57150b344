//! Symbolic dimensions of graph inputs: binds them, rejects unbound ones, and checks that sizes are
//! possible.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Diagnostic, Dim, DimExpr, Module, Severity, TensorType, ValueType};
use memc_ops::Inference;

use crate::bindings::{Bindings, By, UNNAMED};
use crate::domain::symbols;
use crate::error::ImportError;
use crate::{ImportOptions, domain, feed, points};

/// Results of binding the dimensions of a module.
pub(crate) struct Bound {
    /// The extent of each bound symbol.
    pub(crate) bindings: Bindings,
    /// The symbol that each further unnamed dimension equals, because one range is for all of them.
    pub(crate) tied: BTreeMap<String, DimExpr>,
    /// Remarks about the options.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Names the unnamed input dimensions, binds the dimensions in the options, and rejects unbound ones
/// unless they are allowed. Returns the bindings, each with its source, the equations between symbols, and
/// diagnostics.
pub(crate) fn bind(module: &mut Module, options: &ImportOptions) -> Result<Bound, ImportError> {
    let mut diagnostics = Vec::new();
    let inputs = module.graph(module.main()).inputs.clone();
    let unnamed = name_open_dims(module);
    let mut known: BTreeSet<String> = inputs.iter().flat_map(|input| symbols(module.ty(*input))).collect();
    let mut bindings = Bindings::default();
    // A symbol that occurs only in results is not a fact about a run. Sizes with it are assumed, once
    // types are known.
    let main = module.graph(module.main());
    let results = main.nodes.iter().flat_map(|node| module.node(*node).results());
    let inner: BTreeSet<String> = results.flat_map(|value| symbols(module.ty(value))).collect();
    for (name, extent) in options.dims.iter().filter(|(name, _)| *name != UNNAMED) {
        if known.contains(name) {
            bindings.add(name, *extent, By::Option { name: name.clone() })?;
        } else if !inner.contains(name) {
            known.extend(inner.iter().cloned());
            known.extend((!unnamed.is_empty()).then(|| UNNAMED.to_owned()));
            return Err(ImportError::UnknownDimension {
                name: name.clone(),
                known: known.into_iter().collect(),
            });
        }
    }
    // Bind by the feed, then bind the remaining unnamed dimensions by `--dim ?`.
    feed::bind(module, &inputs, &options.feed, &mut bindings)?;
    if let Some(extent) = options.dims.get(UNNAMED) {
        for symbol in &unnamed {
            bindings.add_if_open(symbol, *extent, By::Option { name: UNNAMED.to_owned() });
        }
        diagnostics.extend(unnamed.is_empty().then(|| {
            let message =
                "`--dim ?` had no effect: every dimension of the inputs has an extent or a name".to_owned();
            Diagnostic::new("W0107", Severity::Remark, message)
        }));
    }
    // Replace bound symbols in all types, and reject unbound ones unless they are allowed.
    let mut equal = domain::equations(options, &known, &inner, &mut bindings)?;
    let tied = domain::tied(options, &unnamed, &bindings);
    for of in equal.values_mut() {
        *of = of.substitute(&tied).unwrap_or_else(|| of.clone());
    }
    equal.extend(tied.clone());
    module.dims = bindings.dims();
    module.bind(&module.dims.clone());
    domain::substitute(module, &equal);
    module.set_domain(domain::domain(options, &known, &unnamed, &module.dims, &equal)?);
    let mut open: BTreeSet<String> = inputs.iter().flat_map(|input| symbols(module.ty(*input))).collect();
    open.retain(|symbol| !module.domain().ranges.contains_key(symbol));
    if !open.is_empty() && !options.allow_unbound {
        let names: Vec<String> = open.into_iter().collect();
        let ranges = proposed_ranges(module, &names);
        return Err(ImportError::Unbound { names, ranges });
    }
    let unranked =
        inputs.iter().filter(|input| module.ty(**input).tensor().is_some_and(|ty| ty.shape.is_none()));
    diagnostics.extend(unranked.map(|input| {
        let message = format!(
            "graph input `{}` has no shape: values that depend on it are not planned",
            module.value(*input).name
        );
        Diagnostic::new("W0103", Severity::Warning, message)
    }));
    Ok(Bound { bindings, tied, diagnostics })
}

/// Returns a range to propose for each open symbol, as an option states it.
fn proposed_ranges(module: &Module, names: &[String]) -> Vec<String> {
    let mut usual = module.domain().clone();
    for name in names {
        usual.ranges.extend(usual_range(module, name).parse().ok().map(|range| (name.clone(), range)));
    }
    let found = points::fitting(module, usual);
    let range = |name: &String| found.ranges.get(name).map(points::shown).unwrap_or_default();
    names.iter().map(range).collect()
}

/// Returns a range that models usually take for a symbol of a graph input: of a batch, if it is the first of
/// several axes; of the size of images, if it is one of two or more open axes behind that in a tensor of rank
/// 4; of a length otherwise.
fn usual_range(module: &Module, symbol: &str) -> &'static str {
    let inputs = module
        .graph(module.main())
        .inputs
        .iter()
        .filter_map(|input| module.ty(*input).tensor()?.shape.as_deref());
    let is_open = |dim: &Dim| matches!(dim, Dim::Symbolic(_));
    let is_symbol = |dim: &Dim| matches!(dim, Dim::Symbolic(expr) if expr.as_symbol() == Some(symbol));
    for shape in inputs {
        match shape.iter().position(is_symbol) {
            Some(0) if shape.len() > 1 => return "1..8",
            Some(axis)
                if axis > 0
                    && shape.len() >= 4
                    && shape[1..].iter().filter(|dim| is_open(dim)).count() > 1 =>
            {
                return "32..640/32";
            }
            Some(_) => return "1..512",
            None => {}
        }
    }
    "1..512"
}

/// Replaces every unnamed dimension of a graph input by a symbol, so that it can be bound: `x.0` for
/// axis 0 of input `x`. Returns these symbols.
fn name_open_dims(module: &mut Module) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for input in module.graph(module.main()).inputs.clone() {
        let ValueType::Tensor(mut tensor) = module.ty(input).clone() else { continue };
        for (axis, dim) in
            tensor.shape.iter_mut().flatten().enumerate().filter(|(_, dim)| **dim == Dim::Unknown)
        {
            let name = format!("{}.{axis}", module.value(input).name);
            *dim = Dim::Symbolic(DimExpr::symbol(&name));
            named.insert(name);
        }
        module.set_type(input, ValueType::Tensor(tensor));
    }
    named
}

/// Returns the unbound symbols of the graph inputs, including the symbols of unnamed dimensions.
pub(crate) fn open(mut module: Module) -> BTreeSet<String> {
    name_open_dims(&mut module);
    module.graph(module.main()).inputs.iter().flat_map(|input| symbols(module.ty(*input))).collect()
}

/// Rejects bound dimensions with which an operator does not fit its operands, if it fits without them:
/// then the bindings are wrong, not the model. `free` is the module before binding; its values and
/// nodes are those of `module`.
pub(crate) fn check_bindings(
    mut free: Module,
    module: &Module,
    inference: &Inference,
    bindings: &Bindings,
) -> Result<(), ImportError> {
    name_open_dims(&mut free);
    let before = memc_ops::infer(&mut free);
    let Some((node, reason)) = inference.refused.iter().find(|(node, _)| !before.refused.contains_key(*node))
    else {
        return Ok(());
    };
    let operands = free.node(*node).operands().flat_map(|value| symbols(free.ty(value)));
    let near: BTreeSet<String> = operands.filter_map(|symbol| bindings.said(&symbol)).collect();
    let all = || bindings.all_said();
    let bindings = if near.is_empty() { all() } else { near };
    let line = memc_ir::text::print_node(module, *node).trim().to_owned();
    Err(ImportError::Contradiction {
        bindings: bindings.into_iter().collect(),
        reason: reason.clone(),
        line,
        proposal: Vec::new(),
    })
}

/// Rejects tensors of known extents whose size is 2^62 bytes or more.
pub(crate) fn check_sizes(module: &Module) -> Result<(), ImportError> {
    for (_, data) in module.values().iter() {
        if let Some(tensor) = data.ty.tensor()
            && tensor.element.bits().is_some()
            && tensor.known_dims().is_some()
            && tensor.size().is_none()
        {
            return Err(ImportError::Dimension { name: data.name.clone(), shape: tensor.to_string() });
        }
    }
    Ok(())
}

/// Rejects inputs whose default differs in elements or extents from the type stated by the file, or by
/// the operator that holds the body.
pub(crate) fn check_defaults(module: &Module) -> Result<(), ImportError> {
    for (_, data) in module.values().iter() {
        if let Some(default) = data.default {
            check_default(&data.name, &data.ty, &module.constant(default).ty)?;
        }
    }
    Ok(())
}

/// Rejects an initializer whose type does not fit that of the input with its name.
pub(crate) fn check_default(name: &str, ty: &ValueType, found: &TensorType) -> Result<(), ImportError> {
    let fits = match ty {
        ValueType::Tensor(stated) | ValueType::SparseTensor(stated) => fits(stated, found),
        ValueType::Unknown => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(ImportError::Default { name: name.to_owned(), stated: ty.to_string(), found: found.to_string() })
}

fn fits(stated: &TensorType, found: &TensorType) -> bool {
    let extents = match (&stated.shape, &found.shape) {
        (Some(stated), Some(found)) => {
            let same = |(stated, found): (&Dim, &Dim)| {
                stated.known().is_none_or(|stated| Some(stated) == found.known())
            };
            stated.len() == found.len() && stated.iter().zip(found).all(same)
        }
        _ => true,
    };
    stated.element == found.element && extents
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bound(dims: &[(&str, u64)], ranges: &[(&str, &str)]) -> Result<Module, ImportError> {
        let graph =
            "graph @g {\n  input %x : f32[N,?,min(512,S)]\n  %y = Relu(%x) : unknown\n  return %y\n}\n";
        let mut module =
            memc_ir::text::parse(&format!("mem 1\nir_version 10\nopset \"\" 21\n{graph}")).unwrap();
        let options = ImportOptions {
            dims: dims.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect(),
            ranges: ranges.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect(),
            allow_unbound: true,
            ..ImportOptions::default()
        };
        bind(&mut module, &options)?;
        memc_ops::infer(&mut module);
        Ok(module)
    }

    #[test]
    fn ranges_of_open_dimensions_are_kept_and_simplify_types() {
        let module = bound(&[("N", 4)], &[("S", "1..512"), ("x.1", "8..64/8")]).unwrap();
        let text = memc_ir::text::print(&module);
        assert!(text.contains("range \"S\" from 1 to 512\nrange \"x.1\" from 8 to 64 step 8\n"), "{text}");
        assert!(text.contains("%y = Relu(%x) : f32[4,x.1,S]"), "{text}");
        assert_eq!(memc_ir::text::print(&memc_ir::text::parse(&text).unwrap()), text);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let refused = bound(&[], &[("T", "1..4")]);
        assert!(matches!(refused, Err(ImportError::UnknownDimension { name, .. }) if name == "T"));
        let refused = bound(&[("N", 5)], &[("N", "2..8/2")]);
        assert!(matches!(refused, Err(ImportError::Range { extent: 5, .. })));
        assert!(bound(&[("N", 6)], &[("N", "2..8/2")]).unwrap().domain().ranges.is_empty());
    }
}
