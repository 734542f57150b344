//! Numbers of fused kernels, and of functions: those of the nodes that are computed one after the other. The
//! lists are the check's own; `tests/all/checked_plans.rs` compares each with its nodes, bit by bit.

use memc_ir::{Attribute, NodeData, Operator, SecondaryMap, Value};
use memc_ops::lookup;

use super::{ABSENT, Key, Numbering, Part, Walk};
use crate::side::Side;

/// Activations that `com.microsoft::FusedConv` applies to each element of its sum, as the operator of this
/// name does.
pub const ACTIVATIONS: &[&str] = &["Relu"];

/// Operands of a FusedConv before the one that it adds.
const OPERANDS: usize = 3;

impl<'s> Numbering<'s> {
    /// Returns the number of a convolution's activation; `None` for other results.
    pub(super) fn fused(&mut self, side: &'s Side<'s>, row: usize, value: Value, part: &Part) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let is_fused = &*data.operator.domain == "com.microsoft" && &*data.operator.name == "FusedConv";
        let adds = part.operands.len() > OPERANDS;
        if !is_fused || adds || data.outputs.first() != Some(&Some(value)) {
            return None;
        }
        let activation = ACTIVATIONS.iter().find(|name| data.string("activation") == Some(**name))?;
        let kept =
            |(name, _): &&(String, Attribute)| !matches!(name.as_str(), "activation" | "activation_params");
        let attributes: Vec<(String, Attribute)> = data.attributes.iter().filter(kept).cloned().collect();
        let head = self.head_of(side, data, "Conv", &attributes)?;
        let conv =
            self.intern(Key::Result { head, operands: part.operands.clone(), result: 0, instance: None });
        let head = self.head_of(side, data, activation, &[])?;
        Some(self.intern(Key::Result { head, operands: vec![conv], result: 0, instance: None }))
    }

    /// Returns the number of a HardSwish, `x * HardSigmoid(x)` with these attributes; `None` for other
    /// results.
    pub(super) fn function(&mut self, side: &'s Side<'s>, row: usize, part: &Part) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let is_known = data.operator.domain.is_empty()
            && &*data.operator.name == "HardSwish"
            && data.attributes.is_empty();
        let [operand] = part.operands.as_slice() else { return None };
        let float = |name: &str, number: f32| (name.to_owned(), Attribute::Float(number));
        let attributes = [float("alpha", 1.0 / 6.0), float("beta", 0.5)];
        let gate = self.head_of(side, data, "HardSigmoid", &attributes).filter(|_| is_known)?;
        let gate =
            self.intern(Key::Result { head: gate, operands: vec![*operand], result: 0, instance: None });
        let head = self.head_of(side, data, "Mul", &[])?;
        Some(self.intern(Key::Result { head, operands: vec![*operand, gate], result: 0, instance: None }))
    }

    /// Returns the number of an ONNX operator in place of a node's own, with these attributes; `None` if the
    /// model does not import ONNX's operator set.
    fn head_of(
        &mut self,
        side: &'s Side<'s>,
        data: &NodeData,
        name: &str,
        attributes: &[(String, Attribute)],
    ) -> Option<u32> {
        let version = *side.module.opsets.get("")?;
        let operator = Operator { domain: "".into(), name: name.into(), overload: "".into(), version };
        let info = lookup(&operator);
        let data = NodeData { operator, ..data.clone() };
        let mut walk = Walk { side, model: 0, values: SecondaryMap::new(ABSENT) };
        Some(self.head(&mut walk, &data, info, attributes, 0))
    }
}
