//! Extents of free dimensions as values: a run computes them from the extents of graph inputs.

use memc_edit::{int, obstacle};
use memc_ir::{DimExpr, Value};

use super::write::Writer;
use crate::buffer::CacheError;

impl Writer<'_, '_> {
    /// Returns the numbers from 0 on, one less than an extent at most.
    pub(super) fn range(&mut self, extent: &DimExpr) -> Result<Value, CacheError> {
        let zero = self.maker.integer_tensor("cache_number", &[], &[0]);
        let one = self.maker.integer_tensor("cache_number", &[], &[1]);
        let limit = self.scalar(extent)?;
        Ok(self.early("Range", [zero, limit, one], Vec::new(), "cache_row"))
    }

    /// Returns an expression as a tensor without axes.
    pub(super) fn scalar(&mut self, of: &DimExpr) -> Result<Value, CacheError> {
        match obstacle(self.module(), of) {
            Some(why) => Err(CacheError::Together { why }),
            None => Ok(self.maker.extent(of)),
        }
    }

    /// Returns expressions as a vector.
    pub(super) fn vector(&mut self, hint: &str, items: &[DimExpr]) -> Result<Value, CacheError> {
        let known: Option<Vec<i64>> = items.iter().map(DimExpr::as_constant).collect();
        if let Some(known) = known {
            return Ok(self.maker.integer_tensor(hint, &[known.len() as u64], &known));
        }
        let mut parts = Vec::new();
        for item in items {
            let part = match item.as_constant() {
                Some(number) => self.maker.integer_tensor("cache_number", &[1], &[number]),
                None => {
                    let one = self.maker.integer_tensor("cache_number", &[1], &[1]);
                    let scalar = self.scalar(item)?;
                    self.early("Reshape", [scalar, one], Vec::new(), hint)
                }
            };
            parts.push(Some(part));
        }
        match parts.as_slice() {
            [Some(only)] => Ok(*only),
            _ => Ok(self.early("Concat", parts, int("axis", 0), hint)),
        }
    }

    /// Returns expressions as a tensor of known extents.
    pub(super) fn tensor(
        &mut self,
        hint: &str,
        dims: &[u64],
        items: &[DimExpr],
    ) -> Result<Value, CacheError> {
        let known: Option<Vec<i64>> = items.iter().map(DimExpr::as_constant).collect();
        match (known, items) {
            (Some(known), _) => Ok(self.maker.integer_tensor(hint, dims, &known)),
            (None, [only]) if dims.is_empty() => self.scalar(only),
            _ => {
                let vector = self.vector(hint, items)?;
                let shape: Vec<i64> =
                    dims.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
                let shape = self.maker.integer_tensor("cache_shape", &[shape.len() as u64], &shape);
                Ok(self.early("Reshape", [vector, shape], Vec::new(), hint))
            }
        }
    }
}
