//! `nchwc`: lays images out in blocks of channels, for the convolution kernels of ONNX Runtime that read
//! this layout.

mod weights;

use std::collections::BTreeMap;

use memc_edit::{Attributes, Maker, int};
use memc_ir::{
    Attribute, Bytes, Dim, ElementType, Module, NewNode, Node, NodeData, Operator, SecondaryMap, Stage,
    TensorType, Use, Value, ValueType,
};
use memc_ops::profile::ort_kernel;
use memc_ops::{feeds_unrepeatable, may_train};

use crate::pass::{Changed, PassContext, PassError, PassInfo};
use weights::{Order, in_blocks, whole};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "nchwc",
    summary: "Lays images out in blocks of channels, for ONNX Runtime's convolution kernels that read this form.",
    page: include_str!("../../doc/nchwc.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["alone"],
    run,
};

const DOMAIN: &str = "com.microsoft.nchwc";
/// ReorderInput takes images whose number of channels is a multiple of this.
const ENTERING: u64 = 4;
/// Activations that a convolution can apply to its result, in all versions of the runtime, and their
/// attributes with what counts if these are absent.
const ACTIVATIONS: &[(&str, &[(&str, f32)])] = &[
    ("HardSigmoid", &[("alpha", 0.2), ("beta", 0.5)]),
    ("LeakyRelu", &[("alpha", 0.01)]),
    ("Relu", &[]),
    ("Sigmoid", &[]),
    ("Tanh", &[]),
];
const POOLS: &[&str] = &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"];

/// Returns the channels of a block in ONNX Runtime's kernels on this processor; `None` if there are no
/// such kernels.
///
/// ONNX Runtime's library chooses the kernels when it starts: 16 with AVX-512, 8 on other x86-64
/// (`mlas/lib/platform.cpp`).
pub fn native_block() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    let block = Some(if std::arch::is_x86_feature_detected!("avx512f") { 16 } else { 8 });
    #[cfg(not(target_arch = "x86_64"))]
    let block = None;
    block
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let Some(block) = ctx.options.rewrite.nchwc else { return Ok(Changed::No) };
    let nodes = module.graph(module.main()).nodes.clone();
    let kept = feeds_unrepeatable(module, &nodes);
    let mut walk = Walk {
        maker: Maker::new(module, INFO.name),
        ctx,
        block: u64::from(block),
        blocked: SecondaryMap::default(),
        done: Vec::new(),
        weights: BTreeMap::new(),
        bytes: 0,
    };
    let room = ctx.settings.alone;
    for node in nodes.into_iter().filter(|node| !kept[*node]) {
        if walk.is_image_node(node) && room.is_none_or(|room| walk.images(node) <= room) {
            let convolved = walk.convolution(node).or_else(|| walk.normalization(node));
            convolved
                .or_else(|| walk.pool(node))
                .or_else(|| walk.elementwise(node))
                .or_else(|| walk.concat(node));
        }
    }
    walk.close();
    Ok(Changed::edits(walk.maker.finish()))
}

/// A node for which a replacement in blocks exists.
#[derive(Clone, Copy)]
struct Done {
    /// The original node.
    node: Node,
    /// Result of the original node, and its counterpart in blocks.
    result: Value,
    blocked: Value,
}

/// The walk over the main graph.
struct Walk<'m, 'c, 'o> {
    maker: Maker<'m>,
    ctx: &'c PassContext<'o>,
    /// Channels of a block.
    block: u64,
    /// Counterpart in blocks of each value.
    blocked: SecondaryMap<Value, Option<Value>>,
    done: Vec<Done>,
    /// Weights in blocks, by original weights and layout.
    weights: BTreeMap<(Value, Order), Value>,
    /// Total bytes of new weights so far.
    bytes: u64,
}

impl Walk<'_, '_, '_> {
    fn module(&self) -> &Module {
        self.maker.module()
    }

    fn data(&self, node: Node) -> &NodeData {
        self.module().node(node)
    }

    /// Returns whether a node makes one image of known channels that has no counterpart in blocks yet.
    fn is_image_node(&self, node: Node) -> bool {
        let data = self.data(node);
        let plain = data.bodies().next().is_none()
            && data.recompute_of.is_none()
            && data.graph == self.module().main();
        plain
            && self
                .maker
                .only_result(node)
                .is_some_and(|result| self.image(result).is_some() && self.blocked[result].is_none())
    }

    /// Returns the bytes, in blocks, of the images that a node reads and makes.
    fn images(&self, node: Node) -> Bytes {
        let data = self.data(node);
        let images =
            data.operands().chain(data.results()).filter(|value| self.module().constant_of(*value).is_none());
        let sizes = images.filter_map(|value| self.blocked_type(value)?.size());
        sizes.fold(Bytes(0), Bytes::saturating_add)
    }

    /// Returns the extents and the channels of a binary32 image `[batch, channels, height, width]`;
    /// `None` if the channels are unknown.
    fn image(&self, value: Value) -> Option<(Vec<Dim>, u64)> {
        let ty = self.module().ty(value).tensor().filter(|ty| ty.element == ElementType::Float)?;
        let dims = ty.shape.clone().filter(|dims| dims.len() == 4)?;
        let channels = dims[1].known().filter(|channels| *channels > 0)?;
        Some((dims, channels))
    }

    /// Returns the type of an image with its channels padded to whole blocks.
    fn blocked_type(&self, value: Value) -> Option<ValueType> {
        let (mut dims, channels) = self.image(value)?;
        dims[1] = Dim::Known(whole(channels, self.block)?);
        Some(ValueType::Tensor(TensorType { element: ElementType::Float, shape: Some(dims) }))
    }

    fn is_own(&self, node: Node, names: &[&str]) -> bool {
        let operator = &self.data(node).operator;
        matches!(&*operator.domain, "" | "com.microsoft") && names.contains(&&*operator.name)
    }

    /// Replaces a convolution by one in blocks.
    fn convolution(&mut self, node: Node) -> Option<()> {
        self.is_own(node, &["Conv", "FusedConv"]).then_some(())?;
        let mut attributes = self.data(node).attributes.clone();
        let (input, filter) = (self.maker.operand(node, 0)?, self.maker.operand(node, 1)?);
        let constant =
            |value: Value| self.module().constant_of(value).map(|id| &self.module().constant(id).ty);
        let [outputs, inputs, ..] = *constant(filter)?.known_dims()?.first_chunk::<4>()?;
        let groups = u64::try_from(self.data(node).int("group", 1)).ok()?;
        // Choose the weights' layout; groups must be depthwise or consist of whole blocks.
        let block = self.block;
        let (order, as_it_is) = if groups > 1 {
            let depthwise = inputs == 1 && outputs == groups;
            let in_groups = inputs.is_multiple_of(block) && (outputs / groups).is_multiple_of(block);
            (depthwise || in_groups).then_some(())?;
            if depthwise {
                set(&mut attributes, "group", whole(outputs, block)?)?;
            }
            (if depthwise { Order::Outputs } else { Order::Both }, false)
        } else if inputs < block {
            (Order::Outputs, true)
        } else {
            (Order::Both, false)
        };
        let bias = self.maker.operand(node, 2);
        bias.is_none_or(|bias| constant(bias).is_some()).then_some(())?;
        let sum = self.maker.operand(node, 3);
        // Check everything before inserting any node.
        let image = if as_it_is { input } else { self.can_enter(input).then_some(input)? };
        sum.is_none_or(|sum| self.can_enter(sum)).then_some(())?;
        // Convert the operands and insert the new node.
        let filter = self.filter(filter, order)?;
        let bias = match bias {
            Some(bias) => Some(self.bias(bias)?),
            None => None,
        };
        let image = if as_it_is { image } else { self.enter(image, node)? };
        let sum = match sum {
            Some(sum) => Some(self.enter(sum, node)?),
            None => None,
        };
        let mut operands = vec![Some(image), Some(filter), bias, sum];
        while operands.last() == Some(&None) {
            operands.pop();
        }
        self.convolve(node, operands, attributes)
    }

    /// Replaces a normalization with constant statistics by a depthwise convolution.
    fn normalization(&mut self, node: Node) -> Option<()> {
        let data = self.data(node);
        let known = data.operator.version >= 9 && !may_train(self.module(), node);
        (self.is_own(node, &["BatchNormalization"]) && known).then_some(())?;
        let epsilon = f64::from(data.float("epsilon", 1e-5));
        let (input, result) = (self.maker.operand(node, 0)?, self.maker.only_result(node)?);
        let (_, channels) = self.image(result)?;
        let image = self.blocked[input]?;
        let numbers = |position: usize| -> Option<Vec<f64>> {
            let constant =
                self.module().constant(self.module().constant_of(self.maker.operand(node, position)?)?);
            let fits = constant.ty.element == ElementType::Float && constant.ty.known_dims()? == [channels];
            let bytes = self.ctx.bytes_of(constant).filter(|_| fits)?;
            Some(bytes.as_chunks().0.iter().map(|raw| f64::from(f32::from_le_bytes(*raw))).collect())
        };
        let (scale, shift, mean, variance) = (numbers(1)?, numbers(2)?, numbers(3)?, numbers(4)?);
        let scale: Vec<f64> = scale
            .iter()
            .zip(&variance)
            .map(|(scale, variance)| scale / (variance + epsilon).sqrt())
            .collect();
        let shift: Vec<f64> =
            shift.iter().zip(&mean).zip(&scale).map(|((shift, mean), scale)| shift - mean * scale).collect();
        let padded = whole(channels, self.block)?;
        let filter = self.vector(self.maker.operand(node, 1)?, &scale, &[padded, 1, 1, 1])?;
        let bias = self.vector(self.maker.operand(node, 2)?, &shift, &[padded])?;
        let mut attributes = Vec::new();
        set(&mut attributes, "group", padded)?;
        self.convolve(node, vec![Some(image), Some(filter), Some(bias)], attributes)
    }

    /// Makes a constant of these extents from one number per channel, filled up with zeros.
    fn vector(&mut self, from: Value, numbers: &[f64], dims: &[u64]) -> Option<Value> {
        let mut raw: Vec<u8> = numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect();
        raw.resize(usize::try_from(dims[0].checked_mul(4)?).ok()?, 0);
        Some(self.constant(from, TensorType::fixed(ElementType::Float, dims), raw))
    }

    /// Replaces a node by a convolution in blocks, merged with the activation that is the only reader of
    /// its result.
    fn convolve(
        &mut self,
        node: Node,
        operands: Vec<Option<Value>>,
        mut attributes: Attributes,
    ) -> Option<()> {
        let result = self.maker.only_result(node)?;
        let follower =
            self.activation(result).filter(|_| attributes.iter().all(|(name, _)| name != "activation"));
        let Some((reader, end)) = follower else {
            return self.replace(node, result, self.maker.node(blocked("Conv"), operands, attributes));
        };
        let reads = self.data(reader);
        let (name, parameters) = ACTIVATIONS.iter().find(|(name, _)| *name == &*reads.operator.name)?;
        let parameters: Vec<f32> = parameters.iter().map(|(name, usual)| reads.float(name, *usual)).collect();
        attributes.push(("activation".to_owned(), Attribute::String(name.as_bytes().to_vec().into())));
        if !parameters.is_empty() {
            attributes.push(("activation_params".to_owned(), Attribute::Floats(parameters)));
        }
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        let made = self.insert(node, end, self.maker.node(blocked("Conv"), operands, attributes))?;
        self.blocked.set(end, Some(made));
        self.done.extend([
            Done { node, result, blocked: made },
            Done { node: reader, result: end, blocked: made },
        ]);
        Some(())
    }

    /// Returns the activation that a convolution can apply and its result, if it is the only reader of a
    /// value.
    fn activation(&self, value: Value) -> Option<(Node, Value)> {
        let [Use::Operand(reader, 0)] = self.maker.uses(value) else { return None };
        let known =
            ACTIVATIONS.iter().any(|(name, _)| self.is_own(*reader, &[name])) && !self.maker.is_pinned(value);
        let here = self.data(*reader).graph == self.module().main();
        Some((*reader, self.maker.only_result(*reader).filter(|_| known && here)?))
    }

    /// Replaces a pool over an image in blocks.
    fn pool(&mut self, node: Node) -> Option<()> {
        self.is_own(node, POOLS).then_some(())?;
        let (input, result) = (self.maker.operand(node, 0)?, self.maker.only_result(node)?);
        let (_, channels) = self.image(input)?;
        let image = self.blocked[input].filter(|_| channels.is_multiple_of(self.block))?;
        let data = self.data(node);
        let (name, attributes) = (data.operator.name.clone(), data.attributes.clone());
        self.replace(node, result, self.maker.node(blocked(&name), [image], attributes))
    }

    /// Applies an element-wise operator to images in blocks, if all of them have the type of the result.
    fn elementwise(&mut self, node: Node) -> Option<()> {
        let operator = &self.data(node).operator;
        ort_kernel(&operator.domain, &operator.name).filter(|kernel| kernel.blocks)?;
        let result = self.maker.only_result(node)?;
        let ty = self.module().ty(result).clone();
        let data = self.data(node).clone();
        let mut operands = Vec::new();
        for operand in &data.inputs {
            let small =
                |value: Value| self.module().ty(value).tensor().is_some_and(|ty| ty.rank() == Some(0));
            operands.push(match *operand {
                Some(value) if *self.module().ty(value) == ty => Some(self.blocked[value]?),
                Some(value) if small(value) => Some(value),
                Some(_) => return None,
                None => None,
            });
        }
        self.replace(node, result, self.maker.node(data.operator, operands, data.attributes))
    }

    /// Joins images in blocks along their channels.
    fn concat(&mut self, node: Node) -> Option<()> {
        self.is_own(node, &["Concat"]).then_some(())?;
        let (data, result) = (self.data(node).clone(), self.maker.only_result(node)?);
        matches!(data.int("axis", 0), 1 | -3).then_some(())?;
        let full =
            |value: Value| self.image(value).is_some_and(|(_, channels)| channels.is_multiple_of(self.block));
        let part = |value: Option<Value>| self.blocked[value.filter(|value| full(*value))?];
        let operands: Option<Vec<Value>> = data.inputs.iter().map(|value| part(*value)).collect();
        self.replace(node, result, self.maker.node(data.operator, operands?, data.attributes))
    }

    /// Inserts a node over images in blocks before the node that it replaces.
    fn replace(&mut self, node: Node, result: Value, new: NewNode) -> Option<()> {
        let blocked = self.insert(node, result, new)?;
        self.blocked.set(result, Some(blocked));
        self.done.push(Done { node, result, blocked });
        Some(())
    }

    /// Inserts a node whose result is the counterpart in blocks of `value`, and returns that result.
    fn insert(&mut self, before: Node, value: Value, new: NewNode) -> Option<Value> {
        let ty = self.blocked_type(value)?;
        self.maker.compute(Some(before), new, &self.maker.hint(value, "blocks"), ty)
    }

    /// Returns whether a value has a counterpart in blocks, or can be converted into one.
    fn can_enter(&self, value: Value) -> bool {
        self.blocked[value].is_some()
            || self.image(value).is_some_and(|(_, channels)| channels.is_multiple_of(ENTERING))
    }

    /// Returns the counterpart in blocks of a value, inserting a conversion before the node `before` if
    /// needed.
    fn enter(&mut self, value: Value, before: Node) -> Option<Value> {
        if let Some(known) = self.blocked[value] {
            return Some(known);
        }
        let made =
            self.insert(before, value, self.maker.node(blocked("ReorderInput"), [value], Vec::new()))?;
        self.blocked.set(value, Some(made));
        Some(made)
    }

    /// Returns weights in blocks. `None` if they are not constant binary32 weights of four extents, or
    /// exceed `max_weight_bytes`.
    fn filter(&mut self, value: Value, order: Order) -> Option<Value> {
        if let Some(known) = self.weights.get(&(value, order)) {
            return Some(*known);
        }
        let constant = self.module().constant(self.module().constant_of(value)?);
        let dims: [u64; 4] = constant.ty.known_dims()?.try_into().ok()?;
        (constant.ty.element == ElementType::Float).then_some(())?;
        let block = usize::try_from(self.block).ok()?;
        let extents = dims.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
        let raw = in_blocks(&self.ctx.bytes_of(constant)?, extents, block, order)?;
        self.bytes = self
            .bytes
            .checked_add(raw.len() as u64)
            .filter(|bytes| *bytes <= self.ctx.options.max_weight_bytes.0)?;
        let inputs = if order == Order::Both { whole(dims[1], self.block)? } else { dims[1] };
        let ty =
            TensorType::fixed(ElementType::Float, &[whole(dims[0], self.block)?, inputs, dims[2], dims[3]]);
        let made = self.constant(value, ty, raw);
        self.weights.insert((value, order), made);
        Some(made)
    }

    /// Returns the bias of each channel, padded to whole blocks.
    fn bias(&mut self, value: Value) -> Option<Value> {
        let constant = self.module().constant(self.module().constant_of(value)?);
        let [channels] = *constant.ty.known_dims()?.first_chunk::<1>()?;
        if channels.is_multiple_of(self.block) {
            return Some(value);
        }
        let padded = whole(channels, self.block)?;
        let mut raw = self.ctx.bytes_of(constant)?.to_vec();
        raw.resize(usize::try_from(padded.checked_mul(4)?).ok()?, 0);
        let ty = TensorType::fixed(ElementType::Float, &[padded]);
        Some(self.constant(value, ty, raw))
    }

    fn constant(&mut self, from: Value, ty: TensorType, raw: Vec<u8>) -> Value {
        self.maker.tensor(&self.maker.hint(from, "blocks"), ty, raw)
    }

    /// Converts results in blocks back for remaining readers, last to first, and erases unused nodes.
    fn close(&mut self) {
        for Done { node, result, blocked: from } in std::mem::take(&mut self.done).into_iter().rev() {
            if self.maker.erase(node) {
                continue;
            }
            let Some((_, channels)) = self.image(result) else { continue };
            let channels = int("channels", i64::try_from(channels).unwrap_or(i64::MAX));
            let made = self.maker.insert(
                Some(node),
                self.maker.node(blocked("ReorderOutput"), [from], channels),
                &[None],
            );
            self.maker.move_result(result, made, 0);
            self.maker.erase(node);
        }
        self.maker.drop_unused_constants();
    }
}

/// Sets an integer attribute, replacing any old value.
fn set(attributes: &mut Attributes, name: &str, value: u64) -> Option<()> {
    attributes.retain(|(other, _)| other != name);
    attributes.push((name.to_owned(), Attribute::Int(i64::try_from(value).ok()?)));
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    Some(())
}

fn blocked(name: &str) -> Operator {
    Operator { domain: DOMAIN.into(), name: name.into(), overload: "".into(), version: 1 }
}
