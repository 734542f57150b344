//! Symbolic dimensions of graph inputs: bound by the user, refused where one stays open, and sizes that are possible at all.

use std::collections::BTreeSet;

use memc_ir::{Diagnostic, Dim, DimExpr, Module, Severity, TensorType, Value, ValueType};

use crate::ImportOptions;
use crate::error::ImportError;

/// Names unnamed input dimensions, binds what the options bind, and refuses what stays open.
pub(crate) fn bind(module: &mut Module, options: &ImportOptions) -> Result<Vec<Diagnostic>, ImportError> {
    let inputs = module.graph(module.main()).inputs.clone();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for input in &inputs {
        known.extend(name_open_dims(module, *input, options).then(|| UNNAMED.to_owned()));
        known.extend(symbols(module.ty(*input)));
    }
    if let Some(name) = options.dims.keys().find(|name| !known.contains(*name)) {
        return Err(ImportError::UnknownDimension { name: name.clone(), known: known.into_iter().collect() });
    }
    module.dims = options.dims.clone();
    let values: Vec<Value> = module.values().keys().collect();
    for value in values {
        let bound = module.ty(value).bind(&options.dims);
        module.set_type(value, bound);
    }
    let open: BTreeSet<String> = inputs.iter().flat_map(|input| symbols(module.ty(*input))).collect();
    if !open.is_empty() && !options.allow_unbound {
        return Err(ImportError::Unbound { names: open.into_iter().collect() });
    }
    let unranked = inputs.iter().filter(|input| module.ty(**input).tensor().is_some_and(|ty| ty.shape.is_none()));
    Ok(unranked
        .map(|input| {
            let message = format!("graph input `{}` has no shape: what depends on it is not planned", module.value(*input).name);
            Diagnostic::new("W0103", Severity::Warning, message)
        })
        .collect())
}

/// Binds every unnamed dimension that is not bound alone; it is what some exporters write for a name.
const UNNAMED: &str = "?";

/// An unnamed dimension of input `x` at axis 0 becomes the symbol `x.0`, so that it can be bound, or what all unnamed ones are bound to.
/// Returns whether there is one.
fn name_open_dims(module: &mut Module, input: Value, options: &ImportOptions) -> bool {
    let ValueType::Tensor(mut tensor) = module.ty(input).clone() else { return false };
    let Some(dims) = &mut tensor.shape else { return false };
    let mut found = false;
    for (axis, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == Dim::Unknown) {
        let name = format!("{}.{axis}", module.value(input).name);
        let all = options.dims.get(UNNAMED).filter(|_| !options.dims.contains_key(&name));
        *dim = all.map_or_else(|| Dim::Symbolic(DimExpr::symbol(&name)), |extent| Dim::Known(*extent));
        found = true;
    }
    module.set_type(input, ValueType::Tensor(tensor));
    found
}

fn symbols(ty: &ValueType) -> Vec<String> {
    let dims = ty.tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default();
    let all = dims.iter().filter_map(|dim| match dim {
        Dim::Symbolic(expr) => Some(expr.symbols()),
        _ => None,
    });
    all.flatten().map(|symbol| symbol.to_string()).collect()
}

/// Refuses tensors whose extents are known but whose size passes 2^62 bytes.
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

/// Refuses inputs whose default has other elements or extents than the file states, or than an operator gives to its body.
pub(crate) fn check_defaults(module: &Module) -> Result<(), ImportError> {
    for (_, data) in module.values().iter() {
        let Some(found) = data.default.map(|default| &module.constant(default).ty) else { continue };
        let fits = match &data.ty {
            ValueType::Tensor(stated) | ValueType::SparseTensor(stated) => fits(stated, found),
            ValueType::Unknown => true,
            _ => false,
        };
        if !fits {
            let (stated, found) = (data.ty.to_string(), found.to_string());
            return Err(ImportError::Default { name: data.name.clone(), stated, found });
        }
    }
    Ok(())
}

fn fits(stated: &TensorType, found: &TensorType) -> bool {
    let extents = match (&stated.shape, &found.shape) {
        (Some(stated), Some(found)) => {
            let same = |(stated, found): (&Dim, &Dim)| stated.known().is_none_or(|stated| Some(stated) == found.known());
            stated.len() == found.len() && stated.iter().zip(found).all(same)
        }
        _ => true,
    };
    stated.element == found.element && extents
}
