//! The module at its full number of rows and at one row less: everything that differs grows with the
//! caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{DimExpr, Factor, Module, SecondaryMap, Value};
use memc_ops::{Data, Item};

use crate::buffer::CacheError;
use crate::pass::PassContext;

/// Known elements of small tensors.
pub(super) type Elements = SecondaryMap<Value, Option<Arc<Data>>>;

/// A module with bound lengths.
pub(super) struct Bound {
    pub module: Module,
    pub data: Elements,
}

/// The module at two lengths.
pub(super) struct Lengths {
    /// Full buffers.
    pub full: Bound,
    /// One row less; `None` if the module has one length.
    pub less: Option<Bound>,
    /// Elements at further lengths, with the number of missing rows of each.
    samples: Vec<(i64, Elements)>,
    /// Elements over the symbols that grow.
    symbolic: Elements,
    /// Symbols that grow, with their extents for full buffers.
    pub symbols: BTreeMap<String, u64>,
}

/// Integers that depend on the number of valid rows: `slope * count + rest`, element by element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Number {
    pub slope: Vec<i64>,
    pub rest: Vec<i64>,
}

/// How the elements of a tensor depend on the number of rows.
pub(super) enum Kind {
    /// Inference does not know that they do.
    Fixed,
    /// As linear functions.
    Linear(Number),
    /// In another way.
    Other,
}

impl Lengths {
    /// Binds the symbols that grow to their full extents, and to one less.
    pub(super) fn new(module: &Module, ctx: &PassContext<'_>) -> Result<Self, CacheError> {
        let symbols: BTreeMap<String, u64> = ctx.options.growing.clone();
        if symbols.is_empty() {
            let full = Bound { module: module.clone(), data: ctx.data.clone() };
            return Ok(Self { full, less: None, samples: Vec::new(), symbolic: ctx.data.clone(), symbols });
        }
        let smaller = |missing: u64| -> Option<BTreeMap<String, u64>> {
            symbols.iter().map(|(name, extent)| Some((name.clone(), extent.checked_sub(missing)?))).collect()
        };
        let one = smaller(1).ok_or_else(|| CacheError::Together {
            why: "without rows before the run nothing grows: bind the dimension of the rows to the largest number of them"
                .to_owned(),
        })?;
        let (full, less) = (bound(module, &symbols)?, bound(module, &one)?);
        let most = symbols.values().copied().min().unwrap_or(0);
        let mut samples = Vec::new();
        for missing in [2, 3, most / 2, most.saturating_sub(1), most] {
            if let Some(symbols) = smaller(missing)
                && let Ok(Bound { data, .. }) = bound(module, &symbols)
            {
                samples.push((i64::try_from(missing).unwrap_or(i64::MAX), data));
            }
        }
        Ok(Self { full, less: Some(less), samples, symbolic: ctx.data.clone(), symbols })
    }

    /// Returns the known extents of a value at full length.
    pub(super) fn dims(&self, value: Value) -> Option<Vec<u64>> {
        self.full.module.ty(value).tensor()?.known_dims()
    }

    /// Returns the known extents of a value with one row less.
    fn dims_with_less(&self, value: Value) -> Option<Vec<u64>> {
        self.less.as_ref()?.module.ty(value).tensor()?.known_dims()
    }

    /// Returns the axes of a value that grow; `None` if its extents are not known.
    pub(super) fn growing_axes(&self, value: Value) -> Option<Vec<usize>> {
        let Some(less) = &self.less else { return Some(Vec::new()) };
        let full = self.full.module.ty(value).tensor().and_then(|ty| ty.shape.as_ref());
        let less = less.module.ty(value).tensor().and_then(|ty| ty.shape.as_ref());
        let (Some(full), Some(less)) = (full, less) else {
            return (full.is_none() && less.is_none()).then(Vec::new);
        };
        (full.len() == less.len()).then(|| (0..full.len()).filter(|axis| full[*axis] != less[*axis]).collect())
    }

    /// Returns by how much an axis grows with one row; `None` if unknown.
    pub(super) fn growth(&self, value: Value, axis: usize) -> Option<i64> {
        let (full, less) = (self.dims(value)?, self.dims_with_less(value)?);
        i64::try_from(*full.get(axis)?).ok()?.checked_sub(i64::try_from(*less.get(axis)?).ok()?)
    }

    /// Returns the integers of a value at full length.
    pub(super) fn integers(&self, value: Value) -> Option<Vec<i64>> {
        self.full.data[value].as_ref()?.known_ints()
    }

    /// Returns the integers of a value with one row less; those at full length if there is one length.
    pub(super) fn integers_with_less(&self, value: Value) -> Option<Vec<i64>> {
        match &self.less {
            Some(less) => less.data[value].as_ref()?.known_ints(),
            None => self.integers(value),
        }
    }

    /// Returns how the elements of a value depend on the number of valid rows, if its extents do not.
    /// `past` is the number of rows before the run in full buffers.
    pub(super) fn kind(&self, value: Value, past: u64) -> Kind {
        let Some(data) = self.symbolic[value].as_ref().filter(|data| data.items.iter().all(|item| item.expr().is_some())) else {
            return self.sampled(value, past);
        };
        let grows = |expr: &DimExpr| expr.symbols().iter().any(|symbol| self.symbols.contains_key(symbol.as_ref()));
        let mentions = data.items.iter().any(|item| match item {
            Item::Symbolic(expr) | Item::Within(expr) => grows(expr),
            _ => false,
        });
        if !mentions {
            return Kind::Fixed;
        }
        let all: Option<Vec<(i64, i64)>> = data.items.iter().map(|item| self.linear(&item.expr()?, past)).collect();
        match all {
            Some(all) => {
                let (slope, rest) = all.into_iter().unzip();
                Kind::Linear(Number { slope, rest })
            }
            None => self.sampled(value, past),
        }
    }

    /// Returns how the elements of a value depend on the number of rows at the lengths at which inference
    /// knows them all: inference over symbols gives up earlier.
    fn sampled(&self, value: Value, past: u64) -> Kind {
        let Some(less) = &self.less else { return Kind::Fixed };
        let all = || std::iter::once((1, &less.data)).chain(self.samples.iter().map(|(missing, data)| (*missing, data)));
        let Some(full) = self.full.data[value].as_ref() else { return Kind::Fixed };
        let near = all().all(|(_, data)| data[value].as_ref().is_some_and(|data| data.dims == full.dims));
        if !near || all().all(|(_, data)| data[value] == self.full.data[value]) {
            return Kind::Fixed;
        }
        let integers = |data: &Elements| data[value].as_ref().and_then(|data| data.known_ints());
        let linear = || {
            let (full, past) = (integers(&self.full.data)?, i64::try_from(past).ok()?);
            let one = integers(&less.data)?;
            let slope: Vec<i64> = full.iter().zip(&one).map(|(full, one)| full.checked_sub(*one)).collect::<Option<_>>()?;
            for (missing, data) in all() {
                let other = integers(data)?;
                let fits = (0..full.len()).all(|at| full[at].checked_sub(other[at]) == slope[at].checked_mul(missing));
                fits.then_some(())?;
            }
            let rest = full.iter().zip(&slope).map(|(full, slope)| full.checked_sub(slope.checked_mul(past)?));
            Some(Number { rest: rest.collect::<Option<_>>()?, slope })
        };
        linear().map_or(Kind::Other, Kind::Linear)
    }

    /// Returns whether inference knows that the elements of a value are integers that do not depend on the
    /// number of rows.
    pub(super) fn is_constant(&self, value: Value) -> bool {
        let known = |data: &Elements| data[value].as_ref().is_some_and(|data| data.known_ints().is_some());
        let equal = |data: &Elements| known(data) && data[value] == self.full.data[value];
        known(&self.symbolic)
            || self.less.as_ref().is_some_and(|less| equal(&less.data) && self.samples.iter().all(|(_, data)| equal(data)))
    }

    /// Returns slope and rest of an expression as a function of the number of valid rows.
    fn linear(&self, expr: &DimExpr, past: u64) -> Option<(i64, i64)> {
        let (mut slope, mut rest) = (0i64, 0i64);
        for (factors, coefficient) in expr.terms() {
            match factors {
                [] => rest = rest.checked_add(coefficient)?,
                [Factor::Symbol(name)] => {
                    let extent = i64::try_from(*self.symbols.get(name.as_ref())?).ok()?;
                    let beyond = extent.checked_sub(i64::try_from(past).ok()?)?;
                    slope = slope.checked_add(coefficient)?;
                    rest = rest.checked_add(coefficient.checked_mul(beyond)?)?;
                }
                _ => return None,
            }
        }
        Some((slope, rest))
    }
}

/// Binds symbols of a module and derives all types again.
fn bound(module: &Module, symbols: &BTreeMap<String, u64>) -> Result<Bound, CacheError> {
    let mut module = module.at(symbols);
    module.dims.extend(symbols.iter().map(|(name, extent)| (name.clone(), *extent)));
    let inference = memc_ops::infer(&mut module);
    if let Some((node, reason)) = inference.refused.iter().next() {
        let node = &module.node(*node).operator;
        return Err(CacheError::Together { why: format!("{node} does not fit {}: {reason}", text(symbols)) });
    }
    Ok(Bound { module, data: inference.data })
}

fn text(symbols: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> = symbols.iter().map(|(name, extent)| format!("`{name}` = {extent}")).collect();
    all.join(", ")
}
