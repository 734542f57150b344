//! The module at its full number of rows and at one row less: everything that differs grows with the
//! caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{Dim, DimExpr, Domain, Factor, Module, Ranges, SecondaryMap, Value};
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
    /// The module with full buffers at points of the free dimensions; empty if no dimension is free.
    points: Vec<Module>,
    /// Symbols that grow, with their extents for full buffers.
    pub symbols: BTreeMap<String, DimExpr>,
}

/// Integers that depend on the number of valid rows: `slope * count + rest`, element by element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Number {
    pub slope: Vec<i64>,
    pub rest: Vec<DimExpr>,
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
        let symbols = ctx.options.growing.clone();
        if symbols.is_empty() {
            let full = Bound { module: module.clone(), data: ctx.data.clone() };
            let points = points(&full.module);
            return Ok(Self {
                full,
                less: None,
                samples: Vec::new(),
                symbolic: ctx.data.clone(),
                points,
                symbols,
            });
        }
        let ranges = &module.domain().ranges;
        let most = symbols
            .values()
            .map(|extent| extent.upper_bound(ranges).and_then(|most| i64::try_from(most).ok()));
        let most = most.min().flatten().unwrap_or(0);
        if most < 1 {
            let why = "without rows before the run nothing grows: bind the dimension of the rows to the largest number of them";
            return Err(CacheError::Together { why: why.to_owned() });
        }
        let smaller = |missing: i64| -> Option<BTreeMap<String, DimExpr>> {
            let less = |(name, extent): (&String, &DimExpr)| {
                Some((name.clone(), extent.sub(&DimExpr::constant(missing))?))
            };
            symbols.iter().map(less).collect::<Option<_>>().filter(|_| missing <= most)
        };
        let full = bound(module, &symbols)?;
        let less = smaller(1).map(|symbols| bound(module, &symbols)).transpose()?;
        let mut samples = Vec::new();
        for missing in [2, 3, most / 2, most.saturating_sub(1), most] {
            if let Some(symbols) = smaller(missing)
                && let Ok(Bound { data, .. }) = bound(module, &symbols)
            {
                samples.push((missing, data));
            }
        }
        let points = points(&full.module);
        Ok(Self { full, less, samples, symbolic: ctx.data.clone(), points, symbols })
    }

    /// Returns the module with full buffers and known extents: at several points, if dimensions are free.
    pub(super) fn points(&self) -> impl Iterator<Item = &Module> {
        let whole = self.points.is_empty().then_some(&self.full.module);
        whole.into_iter().chain(&self.points)
    }

    /// Ranges of the symbols that stay free.
    pub(super) fn ranges(&self) -> &Ranges {
        &self.full.module.domain().ranges
    }

    /// Returns the extents of a value at full length; `None` if one is not known.
    pub(super) fn dims(&self, value: Value) -> Option<Vec<DimExpr>> {
        extents(&self.full.module, value)
    }

    /// Returns the axes of a value that grow; `None` if its extents are not known.
    pub(super) fn growing_axes(&self, value: Value) -> Option<Vec<usize>> {
        let Some(less) = &self.less else { return Some(Vec::new()) };
        let full = self.full.module.ty(value).tensor().and_then(|ty| ty.shape.as_ref());
        let less = less.module.ty(value).tensor().and_then(|ty| ty.shape.as_ref());
        let (Some(full), Some(less)) = (full, less) else {
            return (full.is_none() && less.is_none()).then(Vec::new);
        };
        (full.len() == less.len())
            .then(|| (0..full.len()).filter(|axis| full[*axis] != less[*axis]).collect())
    }

    /// Returns by how much an axis grows with one row; `None` if unknown.
    pub(super) fn growth(&self, value: Value, axis: usize) -> Option<i64> {
        let (full, less) = (self.dims(value)?, extents(&self.less.as_ref()?.module, value)?);
        full.get(axis)?.sub(less.get(axis)?)?.as_constant()
    }

    /// Returns the integers of a value at full length.
    pub(super) fn integers(&self, value: Value) -> Option<Vec<i64>> {
        self.full.data[value].as_ref()?.known_ints()
    }

    /// Returns the integers of a value at full length as expressions.
    pub(super) fn exprs(&self, value: Value) -> Option<Vec<DimExpr>> {
        exprs(self.full.data[value].as_ref()?)
    }

    /// Returns the integers of a value with one row less; those at full length if there is one length.
    pub(super) fn exprs_with_less(&self, value: Value) -> Option<Vec<DimExpr>> {
        match &self.less {
            Some(less) => exprs(less.data[value].as_ref()?),
            None => self.exprs(value),
        }
    }

    /// Returns how the elements of a value depend on the number of valid rows, if its extents do not.
    /// `past` is the number of rows before the run in full buffers.
    pub(super) fn kind(&self, value: Value, past: &DimExpr) -> Kind {
        let Some(all) = self.symbolic[value].as_ref().and_then(exprs) else {
            return self.sampled(value, past);
        };
        if !all.iter().any(|expr| self.grows(expr)) {
            return Kind::Fixed;
        }
        let all: Option<Vec<(i64, DimExpr)>> = all.iter().map(|expr| self.linear(expr, past)).collect();
        match all {
            Some(all) => {
                let (slope, rest) = all.into_iter().unzip();
                Kind::Linear(Number { slope, rest })
            }
            None => self.sampled(value, past),
        }
    }

    /// Whether an expression has a symbol that grows.
    fn grows(&self, expr: &DimExpr) -> bool {
        expr.symbols().iter().any(|symbol| self.symbols.contains_key(symbol.as_ref()))
    }

    /// Returns how the elements of a value depend on the number of rows at the lengths at which inference
    /// knows them all: inference over symbols gives up earlier.
    fn sampled(&self, value: Value, past: &DimExpr) -> Kind {
        let Some(less) = &self.less else { return Kind::Fixed };
        let all = || {
            std::iter::once((1, &less.data))
                .chain(self.samples.iter().map(|(missing, data)| (*missing, data)))
        };
        let Some(full) = self.full.data[value].as_ref() else { return Kind::Fixed };
        let near = all().all(|(_, data)| data[value].as_ref().is_some_and(|data| data.dims == full.dims));
        if !near || all().all(|(_, data)| data[value] == self.full.data[value]) {
            return Kind::Fixed;
        }
        let integers = |data: &Elements| data[value].as_ref().and_then(exprs);
        let linear = || {
            let full = integers(&self.full.data)?;
            let one = integers(&less.data)?;
            let slope: Vec<i64> = full
                .iter()
                .zip(&one)
                .map(|(full, one)| full.sub(one)?.as_constant())
                .collect::<Option<_>>()?;
            for (missing, data) in all() {
                let other = integers(data)?;
                let differs = |at: usize| full.get(at)?.sub(other.get(at)?)?.as_constant();
                let fits =
                    slope.iter().enumerate().all(|(at, slope)| differs(at) == slope.checked_mul(missing));
                fits.then_some(())?;
            }
            let rest =
                full.iter().zip(&slope).map(|(full, slope)| full.sub(&past.mul(&DimExpr::constant(*slope))?));
            Some(Number { rest: rest.collect::<Option<_>>()?, slope })
        };
        linear().map_or(Kind::Other, Kind::Linear)
    }

    /// Returns whether inference knows that the elements of a value are integers that do not depend on the
    /// number of rows.
    pub(super) fn is_constant(&self, value: Value) -> bool {
        let known = |data: &Elements| data[value].as_ref().is_some_and(|data| exprs(data).is_some());
        let equal = |data: &Elements| known(data) && data[value] == self.full.data[value];
        let symbolic = self.symbolic[value].as_ref().and_then(exprs);
        symbolic.is_some_and(|all| !all.iter().any(|expr| self.grows(expr)))
            || self
                .less
                .as_ref()
                .is_some_and(|less| equal(&less.data) && self.samples.iter().all(|(_, data)| equal(data)))
    }

    /// Returns slope and rest of an expression as a function of the number of valid rows: one row more adds
    /// the slope at all lengths.
    fn linear(&self, expr: &DimExpr, past: &DimExpr) -> Option<(i64, DimExpr)> {
        let next = |name: &String| Some((name.clone(), DimExpr::symbol(name).add(&DimExpr::constant(1))?));
        let next: BTreeMap<String, DimExpr> = self.symbols.keys().map(next).collect::<Option<_>>()?;
        let slope = expr.substitute(&next)?.sub(expr)?.as_constant()?;
        let full = expr.substitute(&self.symbols)?;
        Some((slope, full.sub(&past.mul(&DimExpr::constant(slope))?)?))
    }
}

/// Returns a module at points that tell apart its extents, and at its smallest extents; empty if no
/// dimension is free.
fn points(module: &Module) -> Vec<Module> {
    let domain = module.domain();
    let least: BTreeMap<String, u64> =
        domain.ranges.iter().map(|(name, range)| (name.clone(), range.min)).collect();
    let all = domain
        .probes()
        .into_iter()
        .chain(Some(least))
        .filter(|point| !point.is_empty() && domain.contains(point));
    all.map(|point| module.at(&point)).collect()
}

/// Returns the elements of a tensor of integers as expressions; `None` if one is not known.
fn exprs(data: &Arc<Data>) -> Option<Vec<DimExpr>> {
    data.items.iter().map(Item::expr).collect()
}

/// Returns the extents of a value as expressions; `None` if one is not known.
fn extents(module: &Module, value: Value) -> Option<Vec<DimExpr>> {
    module.ty(value).tensor()?.shape.as_ref()?.iter().map(Dim::expr).collect()
}

/// Returns the symbol that an expression subtracts from a number, and the number: its largest extent.
fn subtracted(of: &DimExpr) -> Option<(String, u64)> {
    let mut found = None;
    let mut number = 0;
    for (factors, times) in of.terms() {
        match (factors, times) {
            ([], own) => number = own,
            ([Factor::Symbol(symbol)], -1) if found.is_none() => found = Some(symbol.to_string()),
            _ => return None,
        }
    }
    Some((found?, u64::try_from(number).ok()?))
}

/// Leaves out the extents with which an expression is below zero, if it subtracts one symbol from a number;
/// `None` if no extent is left.
fn restrict(domain: &mut Domain, of: &DimExpr) -> Option<()> {
    let Some((symbol, most)) = subtracted(of) else { return Some(()) };
    let Some(range) = domain.ranges.get_mut(&symbol).filter(|range| range.max.is_none_or(|max| max > most))
    else {
        return Some(());
    };
    let steps = most.checked_sub(range.min)?.checked_div(range.step)?;
    range.max = Some(range.min + steps * range.step);
    Some(())
}

/// Replaces symbols of a module by expressions and derives all types again.
fn bound(module: &Module, symbols: &BTreeMap<String, DimExpr>) -> Result<Bound, CacheError> {
    let mut module = module.clone();
    let mut domain = module.domain().clone();
    domain.ranges.retain(|name, _| !symbols.contains_key(name));
    // Limits on the number of rows hold by the capacity; a larger domain is safe.
    domain
        .limits
        .retain(|limit| !limit.of.symbols().iter().any(|symbol| symbols.contains_key(symbol.as_ref())));
    if symbols.values().any(|of| restrict(&mut domain, of).is_none()) {
        return Err(CacheError::Together {
            why: format!("no number of new rows is left with {}", text(symbols)),
        });
    }
    let values: Vec<Value> = module.values().keys().collect();
    for value in values {
        let ty = module.ty(value).map_dims(&|dim| dim.substitute(symbols));
        module.set_type(value, ty);
    }
    module.set_domain(domain);
    let constants =
        symbols.iter().filter_map(|(name, of)| Some((name.clone(), u64::try_from(of.as_constant()?).ok()?)));
    module.dims.extend(constants);
    let inference = memc_ops::infer(&mut module);
    if let Some((node, reason)) = inference.refused.iter().next() {
        let node = &module.node(*node).operator;
        return Err(CacheError::Together { why: format!("{node} does not fit {}: {reason}", text(symbols)) });
    }
    Ok(Bound { module, data: inference.data })
}

fn text(symbols: &BTreeMap<String, DimExpr>) -> String {
    let all: Vec<String> = symbols.iter().map(|(name, extent)| format!("`{name}` = {extent}")).collect();
    all.join(", ")
}
