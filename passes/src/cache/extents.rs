//! Extents of free dimensions as values: a run computes them from the extents of graph inputs.

use memc_ir::{Attribute, Dim, DimExpr, Factor, Value};

use super::write::Writer;
use crate::buffer::CacheError;

impl Writer<'_, '_> {
    /// Returns the numbers from 0 on, one less than an extent at most.
    pub(super) fn range(&mut self, extent: &DimExpr) -> Result<Value, CacheError> {
        let zero = self.integers("cache_number", &[], &[0]);
        let one = self.integers("cache_number", &[], &[1]);
        let limit = self.scalar(extent)?;
        Ok(self.node("Range", vec![Some(zero), Some(limit), Some(one)], Vec::new(), self.first, "cache_row"))
    }

    /// Returns an expression as a tensor without axes.
    pub(super) fn scalar(&mut self, of: &DimExpr) -> Result<Value, CacheError> {
        if let Some(number) = of.as_constant() {
            return Ok(self.integers("cache_number", &[], &[number]));
        }
        if let Some(known) = self.extents.get(of) {
            return Ok(*known);
        }
        let terms: Vec<(Vec<Factor>, i64)> = of.terms().map(|(factors, times)| (factors.to_vec(), times)).collect();
        let mut sum = None;
        for (factors, times) in terms {
            let mut product =
                if times == 1 && !factors.is_empty() { None } else { Some(self.integers("cache_number", &[], &[times])) };
            for factor in &factors {
                let factor = match factor {
                    Factor::Symbol(name) => self.symbol(name)?,
                    Factor::Atom(_) => {
                        let why = format!("the extent {of} is rounded, or a minimum or maximum, and is not followed");
                        return Err(CacheError::Together { why });
                    }
                };
                product = Some(product.map_or(factor, |product| self.both("Mul", product, factor)));
            }
            let Some(term) = product else { continue };
            sum = Some(sum.map_or(term, |sum| self.both("Add", sum, term)));
        }
        let made = sum.unwrap_or_else(|| self.integers("cache_number", &[], &[0]));
        self.extents.insert(of.clone(), made);
        Ok(made)
    }

    /// Returns expressions as a vector.
    pub(super) fn vector(&mut self, hint: &str, items: &[DimExpr]) -> Result<Value, CacheError> {
        let known: Option<Vec<i64>> = items.iter().map(DimExpr::as_constant).collect();
        if let Some(known) = known {
            return Ok(self.integers(hint, &[known.len() as u64], &known));
        }
        let mut parts = Vec::new();
        for item in items {
            let part = match item.as_constant() {
                Some(number) => self.integers("cache_number", &[1], &[number]),
                None => {
                    let one = self.integers("cache_number", &[1], &[1]);
                    let scalar = self.scalar(item)?;
                    self.node("Reshape", vec![Some(scalar), Some(one)], Vec::new(), self.first, hint)
                }
            };
            parts.push(Some(part));
        }
        match parts.as_slice() {
            [Some(only)] => Ok(*only),
            _ => Ok(self.node("Concat", parts, vec![("axis".to_owned(), Attribute::Int(0))], self.first, hint)),
        }
    }

    /// Returns expressions as a tensor of known extents.
    pub(super) fn tensor(&mut self, hint: &str, dims: &[u64], items: &[DimExpr]) -> Result<Value, CacheError> {
        let known: Option<Vec<i64>> = items.iter().map(DimExpr::as_constant).collect();
        match (known, items) {
            (Some(known), _) => Ok(self.integers(hint, dims, &known)),
            (None, [only]) if dims.is_empty() => self.scalar(only),
            _ => {
                let vector = self.vector(hint, items)?;
                let shape: Vec<i64> = dims.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
                let shape = self.integers("cache_shape", &[shape.len() as u64], &shape);
                Ok(self.node("Reshape", vec![Some(vector), Some(shape)], Vec::new(), self.first, hint))
            }
        }
    }

    /// Returns the extent of a free dimension: that of an axis of a graph input.
    fn symbol(&mut self, name: &str) -> Result<Value, CacheError> {
        let key = DimExpr::symbol(name);
        if let Some(known) = self.extents.get(&key) {
            return Ok(*known);
        }
        let module = self.module();
        let found = module.graph(module.main()).inputs.iter().find_map(|input| {
            let dims = module.ty(*input).tensor()?.shape.as_deref()?;
            let is_it = |dim: &Dim| matches!(dim, Dim::Symbolic(expr) if *expr == key);
            Some((*input, dims.iter().position(is_it)?))
        });
        let Some((input, axis)) = found else {
            let why = format!("no graph input has an axis of extent `{name}`, from which a run could know it");
            return Err(CacheError::Together { why });
        };
        let shape = self.node("Shape", vec![Some(input)], Vec::new(), self.first, "cache_extents");
        let index = self.integers("cache_number", &[], &[axis as i64]);
        let along = vec![("axis".to_owned(), Attribute::Int(0))];
        let made = self.node("Gather", vec![Some(shape), Some(index)], along, self.first, "cache_extent");
        self.extents.insert(key, made);
        Ok(made)
    }

    fn both(&mut self, operator: &str, left: Value, right: Value) -> Value {
        self.node(operator, vec![Some(left), Some(right)], Vec::new(), self.first, "cache_extent")
    }
}
