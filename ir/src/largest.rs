//! Types and sizes of values at the largest extents of their symbols.

use std::collections::BTreeMap;

use crate::dim::{Dim, DimExpr, Domain, Limit};
use crate::entity::Value;
use crate::module::Module;
use crate::types::{TensorType, ValueType};
use crate::units::Bytes;

/// A tensor type with every extent at its upper bound, and the upper bound of its size. The size can be
/// smaller than that of the type: limits of the domain bound products of extents.
#[derive(Clone, Debug)]
pub(crate) struct Largest {
    ty: TensorType,
    size: Option<Bytes>,
}

impl Largest {
    /// Returns the bounds of a tensor type with symbols; `None` for every other type, and if an extent has
    /// no upper bound.
    fn of(ty: &ValueType, domain: &Domain) -> Option<Self> {
        let tensor = ty.tensor()?;
        let dims = tensor.shape.as_ref()?;
        if domain.is_empty() || !dims.iter().any(|dim| matches!(dim, Dim::Symbolic(_))) {
            return None;
        }
        let most = |dim: &Dim| match dim {
            Dim::Known(extent) => Some(*extent),
            Dim::Symbolic(expr) => {
                expr.upper_bound(&domain.ranges).and_then(|most| u64::try_from(most.max(0)).ok())
            }
            Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => None,
        };
        let extents: Vec<u64> = dims.iter().map(most).collect::<Option<_>>()?;
        let ty = TensorType::fixed(tensor.element, &extents);
        let size = ty.size();
        let limited = || {
            let elements =
                dims.iter().try_fold(DimExpr::constant(1), |product, dim| product.mul(&dim.expr()?))?;
            let most = domain.most(&elements)?;
            TensorType::fixed(tensor.element, &[u64::try_from(most).ok()?]).size()
        };
        let limited = if domain.limits.is_empty() { None } else { limited() };
        Some(Self { size: size.map(|size| limited.map_or(size, |limited| limited.min(size))), ty })
    }
}

impl Domain {
    /// Upper bound of an extent over the domain, also of one that only a run determines; `None` if there is
    /// no bound.
    fn most_of(&self, dim: &Dim) -> Option<u64> {
        let most = || dim.upper_expr()?.upper_bound(&self.ranges);
        dim.upper().or_else(|| u64::try_from(most()?.max(0)).ok())
    }
    /// Upper bound of the size of a dense tensor over the domain; `None` for other kinds, and if an extent
    /// has no upper bound or depends on a run.
    pub fn size(&self, ty: &ValueType) -> Option<Bytes> {
        match Largest::of(ty, self) {
            Some(largest) => largest.size,
            None => ty.size(),
        }
    }
}

impl Module {
    /// Extents that the unbound symbols may have together. Types hold for all of them.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
    /// Sets the extents that the unbound symbols may have.
    pub fn set_domain(&mut self, domain: Domain) {
        self.domain = domain;
        let values: Vec<Value> = self.values.keys().collect();
        for value in values {
            self.note_largest(value);
        }
    }
    /// Derives the bounds of a value again, after a change of its type.
    pub(crate) fn note_largest(&mut self, value: Value) {
        let found = Largest::of(&self.values[value].ty, &self.domain);
        if found.is_some() || self.largest[value].is_some() {
            self.largest.set(value, found);
        }
    }
    /// Returns the tensor type of a value with every extent at its upper bound over the domain: its own
    /// type if all extents are known. `None` if it is no tensor, or if an extent has no upper bound or
    /// depends on a run.
    pub fn largest(&self, value: Value) -> Option<&TensorType> {
        let own = || self.ty(value).tensor().filter(|tensor| tensor.known_dims().is_some());
        self.largest[value].as_ref().map(|largest| &largest.ty).or_else(own)
    }
    /// Upper bound of a value's size over the domain, used for planning; `None` if the size is neither
    /// known nor bounded nor assumed.
    pub fn size(&self, value: Value) -> Option<Bytes> {
        match (self.assumed.get(&value), &self.largest[value]) {
            (None, Some(largest)) => largest.size,
            _ => self.planned(value).and_then(TensorType::size),
        }
    }
    /// Tensor type used for planning a value: the assumed type if it has one, else the type with every
    /// extent at its upper bound, else its own; `None` if it is not a tensor.
    pub fn planned(&self, value: Value) -> Option<&TensorType> {
        let bounded = || self.largest[value].as_ref().map(|largest| &largest.ty);
        self.assumed.get(&value).or_else(bounded).or_else(|| self.values[value].ty.tensor())
    }
    /// Returns a copy of the module in which symbols are replaced by their extents; see [`Module::bind`].
    pub fn at(&self, extents: &BTreeMap<String, u64>) -> Self {
        let mut bound = self.clone();
        bound.bind(extents);
        bound
    }
    /// Replaces symbols by their extents in all types, and leaves them out of the domain. Results of
    /// inference stay as they are otherwise. Linear in the values.
    pub fn bind(&mut self, extents: &BTreeMap<String, u64>) {
        self.domain.ranges.retain(|name, _| !extents.contains_key(name));
        let limits = std::mem::take(&mut self.domain.limits);
        let left =
            limits.into_iter().map(|limit| Limit { of: limit.of.bind(extents).unwrap_or(limit.of), ..limit });
        self.domain.limits = left.filter(|limit| limit.of.as_constant().is_none()).collect();
        let values: Vec<Value> = self.values.keys().collect();
        for value in values {
            let bound = self.values[value].ty.bind(extents);
            self.set_type(value, bound);
        }
    }
    /// Leaves the types of all results of nodes unknown: what a file states of them may not hold with
    /// other graph inputs. Linear in the values.
    pub fn forget_results(&mut self) {
        let results: Vec<Value> =
            self.values.keys().filter(|value| self.producer(*value).is_some()).collect();
        results.into_iter().for_each(|value| self.set_type(value, ValueType::Unknown));
    }
    /// Upper bound of a value's size over the domain, also if an extent depends on a run; `None` if an
    /// extent has no bound.
    pub fn largest_size(&self, value: Value) -> Option<Bytes> {
        let bounded = || {
            let tensor = self.ty(value).tensor()?;
            let most = tensor
                .shape
                .as_ref()?
                .iter()
                .map(|dim| self.domain.most_of(dim))
                .collect::<Option<Vec<u64>>>()?;
            TensorType::fixed(tensor.element, &most).size()
        };
        self.ty(value).largest_size().or_else(bounded)
    }
    /// Whether two values have equal sizes for all extents of the domain; false if this is not provable.
    pub fn same_size(&self, left: Value, right: Value) -> bool {
        if left == right {
            return true;
        }
        let [has_left, has_right] = [left, right].map(|value| self.largest[value].is_some());
        match (has_left, has_right) {
            (false, false) => self.size(left).is_some() && self.size(left) == self.size(right),
            (true, true) => {
                let bits = |value| self.ty(value).tensor().and_then(TensorType::bits_expr);
                bits(left).is_some_and(|bits_of_left| bits(right) == Some(bits_of_left))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ModuleBuilder as Builder;
    use crate::dim::Limit;
    use crate::element::ElementType;

    fn module(ranges: &[(&str, &str)], limits: &[(&str, u64)], shapes: &[&[&str]]) -> Module {
        let mut builder = Builder::new();
        let main = builder.module().main();
        for (at, shape) in shapes.iter().enumerate() {
            let dims = shape.iter().map(|dim| Dim::from_name(dim)).collect();
            builder.input(
                main,
                &format!("x{at}"),
                ValueType::Tensor(TensorType::new(ElementType::Float, dims)),
                None,
            );
        }
        let mut module = builder.finish();
        module.set_domain(Domain {
            ranges: ranges.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect(),
            limits: limits
                .iter()
                .map(|(of, most)| Limit { of: DimExpr::parse(of).unwrap(), most: *most })
                .collect(),
        });
        module
    }

    fn sizes(module: &Module) -> Vec<Option<u64>> {
        module.values().keys().map(|value| module.size(value).map(|size| size.0)).collect()
    }

    #[test]
    fn sizes_are_bounded_over_ranges() {
        let shapes: [&[&str]; 5] = [&["N", "3"], &["floor((H-1)/2)+1"], &["10-N"], &["M"], &["N", "0"]];
        let module = module(&[("N", "1..4"), ("H", "32..96/32")], &[], &shapes);
        assert_eq!(sizes(&module), [Some(48), Some(192), Some(36), None, Some(0)]);
        let first = module.values().keys().next().unwrap();
        assert_eq!(module.largest(first).unwrap().to_string(), "f32[4,3]");
        assert_eq!(module.ty(first).to_string(), "f32[N,3]");
    }

    #[test]
    fn extents_that_depend_on_a_run_have_bounds_over_ranges() {
        let mut module = module(&[("N", "1..4")], &[], &[&["N", "3"], &["N", "3"], &["N", "3"], &["N", "3"]]);
        let all: Vec<Value> = module.values().keys().collect();
        let within = Dim::within(DimExpr::parse("4*N"));
        let shapes = [
            vec![Dim::from_name("N"), Dim::AtMost(4)],
            vec![within.clone()],
            vec![within, Dim::from_name("M")],
            vec![Dim::Unknown],
        ];
        for (value, dims) in all.iter().zip(shapes) {
            module.set_type(*value, ValueType::Tensor(TensorType::new(ElementType::Float, dims)));
        }
        let found: Vec<Option<u64>> =
            all.iter().map(|value| module.largest_size(*value).map(|size| size.0)).collect();
        assert_eq!(found, [Some(64), Some(64), None, None]);
        assert_eq!(sizes(&module), [None; 4]);
    }

    #[test]
    fn binding_replaces_symbols_in_types_and_domain() {
        let shapes: [&[&str]; 3] = [&["N", "M"], &["N*M", "K"], &["floor(N/2)"]];
        let module = module(&[("N", "1..8"), ("M", "1..8")], &[("N*M", 32), ("N", 7)], &shapes);
        let bound = module.at(&BTreeMap::from([("N".to_owned(), 5)]));
        let types: Vec<String> = bound.values().keys().map(|value| bound.ty(value).to_string()).collect();
        assert_eq!(types, ["f32[5,M]", "f32[5*M,K]", "f32[2]"], "also of values without an upper bound");
        assert_eq!(sizes(&bound), [Some(20 * 6), None, Some(8)]);
        assert_eq!(bound.domain().ranges.keys().collect::<Vec<_>>(), ["M"]);
        assert_eq!(bound.domain().limits.iter().map(ToString::to_string).collect::<Vec<_>>(), ["5*M<=32"]);
    }

    #[test]
    fn limits_bound_products() {
        let shapes: [&[&str]; 3] = [&["H", "W"], &["3", "H"], &["2*H", "W"]];
        let module = module(&[("H", "32..1280/32"), ("W", "32..1280/32")], &[("H*W", 921_600)], &shapes);
        assert_eq!(sizes(&module), [Some(921_600 * 4), Some(3 * 1280 * 4), Some(2 * 921_600 * 4)]);
    }

    #[test]
    fn equal_sizes_need_equal_expressions() {
        let shapes: [&[&str]; 5] = [&["N", "12"], &["3", "4*N"], &["4", "12"], &["M", "12"], &["48"]];
        let module = module(&[("N", "1..4"), ("M", "1..4")], &[], &shapes);
        let all: Vec<Value> = module.values().keys().collect();
        let same = |a: usize, b: usize| module.same_size(all[a], all[b]);
        assert!(same(0, 1) && same(2, 4) && same(3, 3));
        assert!(!same(0, 2) && !same(0, 3) && !same(2, 0), "equal at the largest extents alone");
    }
}
