//! New constants: small ones from integers, weights from bytes, each under a name of its own.

use std::sync::Arc;

use bytes::Bytes;
use memc_ir::{ConstData, ConstId, ConstOrigin, Payload, TensorType, Value};
use memc_ops::Data;

use super::Walk;

impl Walk<'_, '_, '_> {
    /// A vector of 64-bit integers as an initializer of the main graph.
    pub(super) fn int_vector(&mut self, hint: &str, values: &[i64]) -> Value {
        let data = Data::ints(values);
        let ty = TensorType::fixed(data.element, &data.dims);
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(hint, ty, Payload::Raw(raw.into()))
    }

    /// A new initializer of the main graph; elements that are few enough are known from here on.
    pub(super) fn initializer(&mut self, hint: &str, ty: TensorType, payload: Payload) -> Value {
        let main = self.module().main();
        let name = self.rewriter.fresh_name(hint);
        let constant = ConstData { ty, payload, origin: ConstOrigin::New };
        let data = Data::from_constant(&constant).map(Arc::new);
        let value = self.rewriter.initializer(main, &name, constant);
        self.ctx.data.set(value, data);
        value
    }

    /// The constant that a value always is.
    pub(super) fn constant_id(&self, value: Value) -> Option<ConstId> {
        self.module().constant_of(value).filter(|_| self.module().home(value) == Some(self.module().main()))
    }

    /// Bytes of the constant that a value always is, where they can be read and are as many as its type says.
    pub(super) fn constant_bytes(&self, value: Value) -> Option<(TensorType, Bytes)> {
        let constant = self.module().constant(self.constant_id(value)?);
        Some((constant.ty.clone(), self.ctx.bytes_of(constant)?))
    }

    /// Whether new weights of this size may be made: small ones always.
    pub(super) fn affordable(&mut self, size: u64) -> bool {
        size <= self.ctx.options.max_fold_bytes.0 || self.afford(size)
    }

    /// Takes so many bytes out of what new weights may have; says whether they were left.
    pub(super) fn afford(&mut self, bytes: u64) -> bool {
        let total = self.weights.saturating_add(bytes);
        let allowed = total <= self.ctx.options.max_weight_bytes.0;
        if allowed {
            self.weights = total;
        }
        allowed
    }
}
