//! Workspace that ONNX Runtime's CPU kernels take, by formulas of the check's own.
//!
//! Each formula holds for one thread and follows the runtime's sources: `core/mlas/lib/convolve.cpp`
//! (`MlasConvPrepare`), `core/providers/cpu/nn/conv_transpose.cc`, `lrn.cc`, `core/providers/cpu/rnn/`,
//! `core/providers/cpu/math/softmax.cc`, `element_wise_ops.cc`, `where_op.cc`. Where a source leaves a
//! choice, the smaller size counts: a plan has at least these bytes.

use std::collections::BTreeMap;

use memc_ir::{Dim, ElementType, Module, Node, NodeData, TensorType, Value};
use memc_layout::Layout;

/// Bytes to which the runtime rounds each allocation.
const ROUNDING: u64 = 64;
/// Numbers in the buffer that a convolution fills with columns before it multiplies them.
const COLUMNS: u64 = 128 * 128;

/// Kernels of a plan's runtime, as far as the layout names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernels {
    /// Kernels that the check does not know: their workspace is measured, declared, or that of a device.
    Unknown,
    /// ONNX Runtime's kernels, without the copies that they make around their work.
    Large,
    /// ONNX Runtime's kernels.
    All,
}

impl Kernels {
    /// Returns the kernels that a plan is for.
    pub(crate) fn of(layout: &Layout) -> Self {
        let has = |name: &str| layout.options.contains_key(name);
        // Devices may have kernels without workspace; then no row states any.
        let is_row = |name: &str| name.starts_with("scratch:") && !name.ends_with(":body");
        let has_rows =
            || layout.target.name == "cpu" || layout.tensors.iter().any(|tensor| is_row(&tensor.name));
        match layout.options.get("runtime").map(String::as_str) {
            _ if has("scratch") || has("profile") => Self::Unknown,
            Some("ort" | "player") => Self::All,
            Some("arena") if has_rows() => Self::Large,
            _ => Self::Unknown,
        }
    }
}

/// Workspace of one kernel. `None` if the check has no formula for it, an extent is unknown, or the operands
/// do not fit the operator: no kernel runs then.
pub(crate) fn least(
    module: &Module,
    node: Node,
    extents: &BTreeMap<String, u64>,
    kernels: Kernels,
) -> Option<u64> {
    if kernels == Kernels::Unknown || module.misfits.contains(&node) {
        return None;
    }
    let kernel = Kernel { module, data: module.node(node), extents };
    match (&*kernel.data.operator.domain, &*kernel.data.operator.name) {
        ("", "Conv") | ("com.microsoft", "FusedConv") => kernel.convolution(),
        ("", "ConvTranspose") => kernel.transposed(),
        ("", "LRN") => kernel.local_response(),
        ("", "RNN" | "GRU" | "LSTM") => kernel.recurrent(),
        ("", _) if kernels == Kernels::All => kernel.copies(),
        _ => None,
    }
}

/// Bytes of a dense tensor at these extents; `None` if an extent is unknown.
pub(crate) fn bytes(module: &Module, value: Value, extents: &BTreeMap<String, u64>) -> Option<u64> {
    let ty = module.ty(value).tensor()?;
    TensorType::fixed(ty.element, &dims(module, value, extents)?).size().map(|size| size.0)
}

fn dims(module: &Module, value: Value, extents: &BTreeMap<String, u64>) -> Option<Vec<u64>> {
    let extent = |dim: &Dim| u64::try_from(dim.expr()?.bind(extents)?.as_constant()?).ok();
    module.ty(value).tensor()?.shape.as_ref()?.iter().map(extent).collect()
}

/// A node, and the extents of the free dimensions.
struct Kernel<'a> {
    module: &'a Module,
    data: &'a NodeData,
    extents: &'a BTreeMap<String, u64>,
}

fn product(extents: &[u64]) -> Option<u64> {
    extents.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))
}

/// Bytes of a number inside kernels without half precision.
fn width(element: ElementType) -> Option<u64> {
    match element {
        ElementType::Float | ElementType::Float16 => Some(4),
        other => Some(u64::from(other.bits()?).div_ceil(8)),
    }
}

impl Kernel<'_> {
    fn dims(&self, value: Option<Value>) -> Option<Vec<u64>> {
        dims(self.module, value?, self.extents)
    }
    fn operand(&self, position: usize) -> Option<Vec<u64>> {
        self.dims(self.data.inputs.get(position).copied().flatten())
    }
    fn has(&self, position: usize) -> bool {
        self.data.inputs.get(position).is_some_and(Option::is_some)
    }
    fn wants(&self, position: usize) -> bool {
        self.data.outputs.get(position).is_some_and(Option::is_some)
    }
    fn result(&self) -> Option<Vec<u64>> {
        self.dims(self.data.outputs.first().copied().flatten())
    }
    fn element(&self) -> Option<ElementType> {
        let value = self.data.inputs.first().copied().flatten()?;
        self.module.ty(value).tensor().map(|ty| ty.element)
    }
    /// Whether an attribute has one number on all axes, or is absent.
    fn all(&self, name: &str, number: i64) -> bool {
        self.data.ints(name).is_none_or(|numbers| numbers.iter().all(|own| *own == number))
    }

    /// Columns of one group of one image, or a buffer of them; none if rows of the operand are columns.
    fn convolution(&self) -> Option<u64> {
        let (operand, weights, result) = (self.operand(0)?, self.operand(1)?, self.result()?);
        let (image, window) = (operand.get(2..)?, weights.get(2..)?);
        let positions = product(result.get(2..)?)?;
        let columns = product(weights.get(1..)?)?.checked_mul(positions)?;
        let padding = self.data.string("auto_pad").unwrap_or("NOTSET");
        let is_one = window.iter().all(|extent| *extent == 1);
        let unpadded = match padding {
            "NOTSET" | "" => self.all("pads", 0),
            "VALID" => true,
            _ => is_one,
        };
        let is_plain = self.all("strides", 1) && unpadded;
        let element = self.element()?;
        let numbers = match element {
            ElementType::Float | ElementType::Float16 if (1..=3).contains(&window.len()) => {
                let reads_rows = match (window, image) {
                    ([own], [whole]) => own == whole,
                    ([rows, own], [height, whole]) => own == whole || rows == height && *own == 1,
                    _ => false,
                };
                let is_direct =
                    is_one || reads_rows && weights.get(1) == Some(&1) && self.all("dilations", 1);
                let groups = u64::try_from(self.data.int("group", 1)).ok()?;
                let filters = weights.first()?.checked_div(groups)?;
                match () {
                    () if is_plain && is_direct => 0,
                    () if filters > positions => columns,
                    () => COLUMNS,
                }
            }
            ElementType::Double if is_plain && is_one => 0,
            ElementType::Float | ElementType::Float16 | ElementType::Double => columns,
            _ => return None,
        };
        numbers.checked_mul(width(element)?)
    }

    /// Columns of one group of one image.
    fn transposed(&self) -> Option<u64> {
        let numbers =
            product(self.operand(1)?.get(1..)?)?.checked_mul(product(self.operand(0)?.get(2..)?)?)?;
        numbers.checked_mul(width(self.element()?)?)
    }

    /// Scales of all images, and the squares of one image with padded channels.
    fn local_response(&self) -> Option<u64> {
        let dims = self.operand(0)?;
        let size = u64::try_from(self.data.int("size", 1)).ok()?;
        let channels = dims.get(1)?.checked_add(size)?.checked_sub(1)?;
        let squares = channels.checked_mul(product(dims.get(2..)?)?)?;
        product(&dims)?.checked_add(squares)?.checked_mul(width(self.element()?)?)
    }

    /// Gates of all steps, states and biases of each direction, reversed sequences, and the last states that
    /// the node does not return.
    fn recurrent(&self) -> Option<u64> {
        let (data, weights, recurrence) = (self.operand(0)?, self.operand(1)?, self.operand(2)?);
        let ([one, other, input], [directions, gated, _], [_, _, hidden]) =
            (&data[..], &weights[..], &recurrence[..])
        else {
            return None;
        };
        let (steps, batch) = if self.data.int("layout", 0) == 0 { (one, other) } else { (other, one) };
        let width = width(self.element()?)?;
        let buffer =
            |extents: &[u64]| product(extents)?.checked_mul(width)?.checked_next_multiple_of(ROUNDING);
        let gates = buffer(&[*gated, *steps, *batch])?;
        let state = buffer(&[*batch, *hidden])?;
        let last = |result: usize| {
            if self.wants(result) { Some(0) } else { buffer(&[*directions, *batch, *hidden]) }
        };
        let sum = |parts: &[u64]| parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part));
        if &*self.data.operator.name == "RNN" {
            let all = if self.wants(0) { 0 } else { buffer(&[*steps, *directions, *batch, *hidden])? };
            return sum(&[gates, all, last(1)?]);
        }
        let turned = match self.data.string("direction") {
            Some("reverse" | "bidirectional") => {
                sum(&[buffer(&[*steps, *batch, *input])?, buffer(&[*steps, *batch, *hidden])?])?
            }
            _ => 0,
        };
        let lengths = batch.checked_mul(4)?.checked_next_multiple_of(ROUNDING)?;
        let (own, last) = if &*self.data.operator.name == "GRU" {
            let linear = u64::from(self.data.int("linear_before_reset", 0) != 0);
            let biases = if self.has(3) { 3 + linear } else { 0 };
            (state.checked_mul(2 + biases + linear)?, last(1)?)
        } else {
            let vectors = 2 + if self.has(3) { 4 } else { 0 } + if self.has(7) { 3 } else { 0 };
            (
                sum(&[state.checked_mul(3)?, buffer(&[*hidden])?.checked_mul(vectors)?])?,
                sum(&[last(1)?, last(2)?])?,
            )
        };
        sum(&[sum(&[gates, own, lengths])?.checked_mul(*directions)?, turned, last])
    }

    /// Copies of operands and results around a kernel's work, in full precision.
    fn copies(&self) -> Option<u64> {
        if self.element()? == ElementType::Float16 {
            return None;
        }
        let result = self.result()?;
        let value = self.data.outputs.first().copied().flatten()?;
        let width = width(self.module.ty(value).tensor()?.element)?;
        let bytes = |dims: &[u64]| product(dims)?.checked_mul(width);
        match &*self.data.operator.name {
            "Softmax" | "LogSoftmax" | "Hardmax" if self.data.operator.version >= 13 => {
                let axis = memc_ops::normalize_axis(self.data.int("axis", -1), result.len())?;
                if axis + 1 == result.len() { Some(0) } else { bytes(&result)?.checked_mul(2) }
            }
            "HardSwish" | "Mish" => bytes(&result),
            "QLinearMatMul" if width == 1 => product(&result)?.checked_mul(4),
            "ConvInteger" => {
                let weights = self.operand(1)?;
                let is_one = weights.get(2..)?.iter().all(|extent| *extent == 1);
                let is_plain = is_one && self.all("strides", 1) && self.all("pads", 0);
                let columns = || product(weights.get(1..)?)?.checked_mul(product(result.get(2..)?)?);
                if is_plain { Some(0) } else { columns() }
            }
            "Sum" | "Mean" | "Max" | "Min" if self.data.inputs.len() > 2 => bytes(&result),
            "Where" => {
                let condition = self.operand(0)?;
                let choice = |position: usize| bytes(&spread(&condition, &self.operand(position)?));
                choice(1)?.checked_add(choice(2)?)
            }
            _ => None,
        }
    }
}

/// Returns the extents of two operands after broadcasting; extents of 1 repeat.
fn spread(one: &[u64], other: &[u64]) -> Vec<u64> {
    let rank = one.len().max(other.len());
    let extent = |dims: &[u64], axis: usize| {
        (axis + dims.len()).checked_sub(rank).and_then(|own| dims.get(own).copied())
    };
    let joined = |axis: usize| match (extent(one, axis).unwrap_or(1), extent(other, axis).unwrap_or(1)) {
        (1, other) => other,
        (own, _) => own,
    };
    (0..rank).map(joined).collect()
}
