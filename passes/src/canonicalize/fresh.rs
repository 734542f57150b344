//! New constants with fresh names: small constants from integers, and weights from bytes.

use std::sync::Arc;

use bytes::Bytes;
use memc_edit::constant;
use memc_ir::{ConstData, ConstId, TensorType, Value};
use memc_ops::Data;

use super::Walk;

impl Walk<'_, '_, '_> {
    /// Makes a vector of 64-bit integers as an initializer of the main graph.
    pub(super) fn int_vector(&mut self, hint: &str, values: &[i64]) -> Value {
        let data = Data::ints(values);
        let ty = TensorType::fixed(data.element, &data.dims);
        self.initializer(hint, constant(ty, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
    }

    /// Makes an initializer of the main graph, and records its elements as known if they are few enough.
    pub(super) fn initializer(&mut self, hint: &str, constant: ConstData) -> Value {
        let data = Data::from_constant(&constant).map(Arc::new);
        let value = self.maker.add_constant(hint, constant);
        self.ctx.data.set(value, data);
        value
    }

    /// Returns the constant of a value of the main graph; `None` if the value is no constant.
    pub(super) fn constant_id(&self, value: Value) -> Option<ConstId> {
        self.module().constant_of(value).filter(|_| self.module().home(value) == Some(self.module().main()))
    }

    /// Returns the type and bytes of a constant value; `None` if the bytes cannot be read or their
    /// number differs from the type's size.
    pub(super) fn constant_bytes(&self, value: Value) -> Option<(TensorType, Bytes)> {
        let constant = self.module().constant(self.constant_id(value)?);
        Some((constant.ty.clone(), self.ctx.bytes_of(constant)?))
    }

    /// Returns whether new weights of this size, in bytes, may be made. Small weights always may; larger
    /// weights count toward the total.
    pub(super) fn affordable(&mut self, size: u64) -> bool {
        size <= self.ctx.options.max_fold_bytes.0 || self.afford(size)
    }

    /// Takes bytes from the allowance for new weights; returns whether enough were left.
    pub(super) fn afford(&mut self, bytes: u64) -> bool {
        let total = self.weights.saturating_add(bytes);
        let allowed = total <= self.ctx.options.max_weight_bytes.0;
        if allowed {
            self.weights = total;
        }
        allowed
    }
}
