//! Random small models with free dimensions: axes of batch, length and image, with their ranges.

use std::collections::BTreeMap;

use memc::{Extent, Request};
use memc_ir::{DimExpr, Limit};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, tensor_shape_proto, type_proto,
};

use super::graph::{FLOAT, INT64, integer};

/// Operator sets of the models.
const OPSETS: [i64; 7] = [11, 12, 13, 15, 17, 18, 21];

/// A model with the extents of its free dimensions.
pub struct Dynamic {
    pub model: ModelProto,
    pub dims: Vec<(String, Extent)>,
    pub limits: Vec<Limit>,
    /// Operators, for messages.
    pub told: String,
}

impl Dynamic {
    /// Returns a request for the ranges of the model.
    pub fn request(&self) -> Request {
        let request = self
            .dims
            .iter()
            .fold(Request::new(), |request, (name, extent)| request.dim(name.clone(), extent.clone()));
        self.limits.iter().fold(request, |request, limit| request.limit(limit.clone()))
    }
}

/// A value: its name, and its shape as far as the generator needs it. `None` stands for an extent that it
/// does not follow.
#[derive(Clone)]
struct Tensor {
    name: String,
    dims: Vec<Option<DimExpr>>,
}

impl Tensor {
    fn constant(&self, axis: usize) -> Option<i64> {
        self.dims.get(axis)?.as_ref()?.as_constant()
    }
    fn is_followed(&self) -> bool {
        self.dims.iter().all(Option::is_some)
    }
    /// Axes whose extents are numbers.
    fn fixed_axes(&self) -> Vec<usize> {
        (0..self.dims.len()).filter(|axis| self.constant(*axis).is_some()).collect()
    }
}

/// The random number generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % count.max(1) as u64) as usize
    }
    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

fn number(value: i64) -> DimExpr {
    DimExpr::constant(value)
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.to_owned()), ints: values.to_vec(), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Ints);
    attribute
}

struct Builder {
    random: Random,
    opset: i64,
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
    inputs: Vec<ValueInfoProto>,
    values: Vec<Tensor>,
    /// Values that no node has read.
    unread: Vec<String>,
}

impl Builder {
    fn name(&self, what: &str) -> String {
        format!("{what}{}", self.nodes.len() + self.weights.len())
    }
    fn input(&mut self, name: &str, dims: &[&str]) {
        let dim = |text: &&str| {
            let value = match text.parse() {
                Ok(extent) => tensor_shape_proto::dimension::Value::DimValue(extent),
                Err(_) => tensor_shape_proto::dimension::Value::DimParam((*text).to_owned()),
            };
            tensor_shape_proto::Dimension { denotation: None, value: Some(value) }
        };
        let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
        let tensor = type_proto::Tensor { elem_type: Some(FLOAT), shape: Some(shape) };
        let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
        self.inputs.push(ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: Some(ty),
            ..ValueInfoProto::default()
        });
        self.values.push(Tensor {
            name: name.to_owned(),
            dims: dims.iter().map(|dim| DimExpr::parse(dim)).collect(),
        });
    }
    fn floats(&mut self, dims: &[i64]) -> String {
        let name = self.name("w");
        let count: i64 = dims.iter().product();
        let seed = self.random.below(1000) as i64;
        let bytes: Vec<u8> =
            (0..count).flat_map(|at| (((at * 29 + seed) % 67) as f32 / 134.0 - 0.25).to_le_bytes()).collect();
        let tensor = TensorProto {
            name: Some(name.clone()),
            data_type: Some(FLOAT),
            dims: dims.to_vec(),
            ..TensorProto::default()
        };
        self.weights.push(TensorProto { raw_data: Some(bytes.into()), ..tensor });
        name
    }
    fn integers(&mut self, values: &[i64]) -> String {
        let name = self.name("i");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims = vec![values.len() as i64];
        let tensor =
            TensorProto { name: Some(name.clone()), data_type: Some(INT64), dims, ..TensorProto::default() };
        self.weights.push(TensorProto { raw_data: Some(bytes.into()), ..tensor });
        name
    }
    fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.several(op, inputs, 1, attributes).remove(0)
    }
    fn several(
        &mut self,
        op: &str,
        inputs: &[&str],
        count: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let stem = self.name("t");
        let outputs: Vec<String> =
            (0..count).map(|at| if at == 0 { stem.clone() } else { format!("{stem}_{at}") }).collect();
        self.nodes.push(NodeProto {
            op_type: Some(op.to_owned()),
            name: Some(format!("n_{stem}")),
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: outputs.clone(),
            attribute: attributes,
            ..NodeProto::default()
        });
        self.unread.retain(|name| !inputs.contains(&name.as_str()));
        outputs
    }
    fn add(&mut self, name: String, dims: Vec<Option<DimExpr>>) {
        self.unread.push(name.clone());
        self.values.push(Tensor { name, dims });
    }
    /// Returns a value; later ones are likelier.
    fn value(&mut self) -> Tensor {
        let count = self.values.len();
        let at = self.random.below(count).max(self.random.below(count));
        self.values[at].clone()
    }
    /// Returns an operand list with axes as attribute or as operand, by the operator set.
    fn with_axes(
        &mut self,
        op: &str,
        of: &Tensor,
        axes: &[i64],
        since: i64,
        mut attributes: Vec<AttributeProto>,
    ) -> String {
        if self.opset < since {
            attributes.push(ints("axes", axes));
            return self.node(op, &[&of.name], attributes);
        }
        let axes = self.integers(axes);
        self.node(op, &[&of.name, &axes], attributes)
    }

    /// Adds a random node that fits some value.
    fn step(&mut self) {
        let x = self.value();
        let rank = x.dims.len();
        match self.random.below(26) {
            0 | 1 => self.unary(&x),
            2 | 3 => self.binary(&x),
            4 => self.matmul(&x),
            5 | 6 => self.conv(&x),
            7 => self.pool(&x),
            8 | 9 => self.concat(&x),
            10 => self.split(&x),
            11 | 12 => self.slice(&x),
            13 | 14 => self.reshape(&x),
            15 if rank > 1 => self.transpose(&x),
            16 if rank > 0 => {
                let name = self.node("Softmax", &[&x.name], vec![integer("axis", rank as i64 - 1)]);
                self.add(name, x.dims);
            }
            17 => self.reduce(&x),
            18 => self.pad(&x),
            19 => self.expand(&x),
            20 => self.gather(&x),
            21 => self.half(&x),
            22 => self.tile(&x),
            23 => self.filled(&x),
            24 => self.whole(&x),
            _ => self.unsqueeze(&x),
        }
    }

    fn unary(&mut self, x: &Tensor) {
        let op = self.random.pick(&[
            "Relu",
            "Sigmoid",
            "Tanh",
            "Neg",
            "Abs",
            "Sqrt",
            "Identity",
            "Erf",
            "LeakyRelu",
        ]);
        let name = self.node(op, &[&x.name], Vec::new());
        self.add(name, x.dims.clone());
    }
    fn binary(&mut self, x: &Tensor) {
        let op = self.random.pick(&["Add", "Mul", "Sub", "Max"]);
        let alike: Vec<Tensor> =
            self.values.iter().filter(|y| x.is_followed() && y.dims == x.dims).cloned().collect();
        let last = x.constant(x.dims.len().saturating_sub(1)).filter(|_| !x.dims.is_empty());
        let other = match (self.random.below(3), last) {
            (0, Some(last)) => self.floats(&[last]),
            (1, _) => self.floats(&[1]),
            _ if alike.is_empty() => x.name.clone(),
            _ => self.random.pick(&alike).name,
        };
        let names =
            if self.random.below(2) == 0 { [x.name.as_str(), &other] } else { [other.as_str(), &x.name] };
        let name = self.node(op, &names, Vec::new());
        self.add(name, x.dims.clone());
    }
    fn matmul(&mut self, x: &Tensor) {
        let rank = x.dims.len();
        let Some(last) = rank.checked_sub(1).filter(|_| rank > 1).and_then(|axis| x.constant(axis)) else {
            return;
        };
        let columns = self.random.pick(&[3, 4, 8]);
        let weight = self.floats(&[last, columns]);
        let name = self.node("MatMul", &[&x.name, &weight], Vec::new());
        let mut dims = x.dims.clone();
        dims[rank - 1] = Some(number(columns));
        self.add(name, dims);
    }
    fn conv(&mut self, x: &Tensor) {
        // A kernel without channels leaves its result as it was.
        let channels = (x.dims.len() == 4).then(|| x.constant(1)).flatten();
        let Some(channels) = channels.filter(|channels| *channels > 0) else { return };
        let kernel = self.random.pick(&[1, 3]);
        let stride = self.random.pick(&[1, 1, 2]);
        let pads = kernel / 2;
        let results = self.random.pick(&[2, 4]);
        let weight = self.floats(&[results, channels, kernel, kernel]);
        let bias = self.floats(&[results]);
        let attributes =
            vec![ints("pads", &[pads; 4]), ints("strides", &[stride; 2]), ints("kernel_shape", &[kernel; 2])];
        let name = self.node("Conv", &[&x.name, &weight, &bias], attributes);
        let dims = vec![
            x.dims[0].clone(),
            Some(number(results)),
            strided(&x.dims[2], stride),
            strided(&x.dims[3], stride),
        ];
        self.add(name, dims);
    }
    fn pool(&mut self, x: &Tensor) {
        if x.dims.len() != 4 {
            return;
        }
        let stride = self.random.pick(&[1, 2]);
        let op = self.random.pick(&["MaxPool", "AveragePool"]);
        let attributes =
            vec![ints("pads", &[1; 4]), ints("strides", &[stride; 2]), ints("kernel_shape", &[3; 2])];
        let name = self.node(op, &[&x.name], attributes);
        let dims = vec![
            x.dims[0].clone(),
            x.dims[1].clone(),
            strided(&x.dims[2], stride),
            strided(&x.dims[3], stride),
        ];
        self.add(name, dims);
    }
    fn concat(&mut self, x: &Tensor) {
        if x.dims.is_empty() {
            return;
        }
        let axis = self.random.below(x.dims.len());
        let fits = |y: &&Tensor| {
            let others = |dims: &[Option<DimExpr>]| -> Vec<Option<DimExpr>> {
                dims.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| dim.clone()).collect()
            };
            x.is_followed()
                && y.dims.len() == x.dims.len()
                && y.is_followed()
                && others(&y.dims) == others(&x.dims)
        };
        let fitting: Vec<Tensor> = self.values.iter().filter(fits).cloned().collect();
        if fitting.is_empty() {
            return;
        }
        let count = 1 + self.random.below(2);
        let mut parts = vec![x.clone()];
        parts.extend((0..count).map(|_| self.random.pick(&fitting)));
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let name = self.node("Concat", &names, vec![integer("axis", axis as i64)]);
        let mut dims = x.dims.clone();
        dims[axis] = parts.iter().try_fold(number(0), |sum, part| sum.add(part.dims[axis].as_ref()?));
        self.add(name, dims);
    }
    fn split(&mut self, x: &Tensor) {
        let axes: Vec<usize> = x
            .fixed_axes()
            .into_iter()
            .filter(|axis| x.constant(*axis).is_some_and(|extent| extent > 1))
            .collect();
        if axes.is_empty() {
            return;
        }
        let axis = self.random.pick(&axes);
        let extent = x.constant(axis).unwrap_or(2);
        let first = 1 + self.random.below(extent as usize - 1) as i64;
        let parts = [first, extent - first];
        let attributes = vec![integer("axis", axis as i64)];
        let names = if self.opset < 13 {
            self.several(
                "Split",
                &[&x.name],
                2,
                attributes.into_iter().chain([ints("split", &parts)]).collect(),
            )
        } else {
            let sizes = self.integers(&parts);
            self.several("Split", &[&x.name, &sizes], 2, attributes)
        };
        for (name, part) in names.into_iter().zip(parts) {
            let mut dims = x.dims.clone();
            dims[axis] = Some(number(part));
            self.add(name, dims);
        }
    }
    fn slice(&mut self, x: &Tensor) {
        if x.dims.is_empty() {
            return;
        }
        let axis = self.random.below(x.dims.len());
        let all = i64::MAX;
        let (start, end, step) = self.random.pick(&[
            (0, 1, 1),
            (1, all, 1),
            (0, -1, 1),
            (0, 3, 1),
            (-2, all, 1),
            (0, all, 2),
            (1, -1, 1),
            (2, 5, 1),
            (-3, -1, 1),
            (0, all, 1),
            (all, -all, -1),
        ]);
        let bounds = [[start], [end], [axis as i64], [step]].map(|values| self.integers(&values));
        let name = self.node("Slice", &[&x.name, &bounds[0], &bounds[1], &bounds[2], &bounds[3]], Vec::new());
        let mut dims = x.dims.clone();
        let extent = dims[axis].as_ref().and_then(DimExpr::as_constant);
        dims[axis] = match (start, end, step) {
            (0, end, 1) if end == all => dims[axis].clone(),
            (_, _, -1) => dims[axis].clone(),
            _ => extent.map(|extent| number(taken(extent, start, end, step))),
        };
        self.add(name, dims);
    }
    fn reshape(&mut self, x: &Tensor) {
        let rank = x.dims.len();
        let last = rank.checked_sub(1).and_then(|axis| x.constant(axis));
        let (to, dims): (Vec<i64>, Vec<Option<DimExpr>>) = match self.random.below(4) {
            0 if rank > 1 => {
                let rest = x.dims[1..].iter().try_fold(number(1), |product, dim| product.mul(dim.as_ref()?));
                (vec![0, -1], vec![x.dims[0].clone(), rest])
            }
            1 if last.is_some_and(|last| last > 0) && rank > 1 => {
                let rest =
                    x.dims[..rank - 1].iter().try_fold(number(1), |product, dim| product.mul(dim.as_ref()?));
                (vec![-1, last.unwrap_or(1)], vec![rest, x.dims[rank - 1].clone()])
            }
            2 if last.is_some_and(|last| last > 0 && last % 2 == 0) && rank < 4 => {
                let half = last.unwrap_or(2) / 2;
                let mut to = vec![0; rank - 1];
                to.extend([half, 2]);
                let mut dims = x.dims[..rank - 1].to_vec();
                dims.extend([Some(number(half)), Some(number(2))]);
                (to, dims)
            }
            _ => {
                let all = x.dims.iter().try_fold(number(1), |product, dim| product.mul(dim.as_ref()?));
                (vec![-1], vec![all])
            }
        };
        // A product of zero and unknown extents has no quotient: `-1` beside 0 fails for empty tensors, so
        // that the first form is computed from the shape instead.
        let computed = self.random.below(3) == 0 && to.len() == 2 && to[1] == -1;
        let shape = if computed {
            let shape = self.node("Shape", &[&x.name], Vec::new());
            let zero = self.integers(&[0]);
            let first = self.node("Gather", &[&shape, &zero], vec![integer("axis", 0)]);
            let rest = self.integers(&[-1]);
            self.node("Concat", &[&first, &rest], vec![integer("axis", 0)])
        } else {
            self.integers(&to)
        };
        let name = self.node("Reshape", &[&x.name, &shape], Vec::new());
        self.add(name, dims);
    }
    fn transpose(&mut self, x: &Tensor) {
        let mut order: Vec<usize> = (0..x.dims.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at + 1));
        }
        let axes: Vec<i64> = order.iter().map(|axis| *axis as i64).collect();
        let name = self.node("Transpose", &[&x.name], vec![ints("perm", &axes)]);
        self.add(name, order.into_iter().map(|axis| x.dims[axis].clone()).collect());
    }
    fn reduce(&mut self, x: &Tensor) {
        if x.dims.is_empty() {
            return;
        }
        let axis = self.random.below(x.dims.len());
        let keeps = self.random.below(2) as i64;
        let (op, since) = self.random.pick(&[("ReduceSum", 13), ("ReduceMean", 18), ("ReduceL2", 18)]);
        let name = self.with_axes(op, x, &[axis as i64], since, vec![integer("keepdims", keeps)]);
        let mut dims = x.dims.clone();
        if keeps == 1 {
            dims[axis] = Some(number(1));
        } else {
            dims.remove(axis);
        }
        self.add(name, dims);
    }
    fn pad(&mut self, x: &Tensor) {
        let rank = x.dims.len();
        let mut pads = vec![0i64; 2 * rank];
        let mut dims = x.dims.clone();
        for axis in 0..rank {
            let (before, after) = self.random.pick(&[(0, 0), (0, 0), (1, 0), (1, 1), (0, 2)]);
            (pads[axis], pads[rank + axis]) = (before, after);
            dims[axis] = dims[axis].as_ref().and_then(|dim| dim.add(&number(before + after)));
        }
        let pads = self.integers(&pads);
        let name = self.node("Pad", &[&x.name, &pads], Vec::new());
        self.add(name, dims);
    }
    fn expand(&mut self, x: &Tensor) {
        if x.dims.is_empty() {
            return;
        }
        let axis = self.random.below(x.dims.len());
        let name = self.with_axes("ReduceSum", x, &[axis as i64], 13, vec![integer("keepdims", 1)]);
        let shape = self.node("Shape", &[&x.name], Vec::new());
        let expanded = self.node("Expand", &[&name, &shape], Vec::new());
        self.add(expanded, x.dims.clone());
    }
    fn gather(&mut self, x: &Tensor) {
        let axes: Vec<usize> = x
            .fixed_axes()
            .into_iter()
            .filter(|axis| x.constant(*axis).is_some_and(|extent| extent > 0))
            .collect();
        if axes.is_empty() {
            return;
        }
        let axis = self.random.pick(&axes);
        let extent = x.constant(axis).unwrap_or(1);
        let count = 1 + self.random.below(3);
        let chosen: Vec<i64> = (0..count).map(|_| self.random.below(extent as usize) as i64).collect();
        let indices = self.integers(&chosen);
        let name = self.node("Gather", &[&x.name, &indices], vec![integer("axis", axis as i64)]);
        let mut dims = x.dims.clone();
        dims[axis] = Some(number(count as i64));
        self.add(name, dims);
    }
    /// Takes the first half of an axis, with a bound computed from the shape.
    fn half(&mut self, x: &Tensor) {
        if x.dims.is_empty() {
            return;
        }
        let axis = self.random.below(x.dims.len());
        let shape = self.node("Shape", &[&x.name], Vec::new());
        let at = self.integers(&[axis as i64]);
        let extent = self.node("Gather", &[&shape, &at], vec![integer("axis", 0)]);
        let two = self.integers(&[2]);
        let middle = self.node("Div", &[&extent, &two], Vec::new());
        let zero = self.integers(&[0]);
        let is_first = self.random.below(2) == 0;
        let ends = if is_first { [zero.as_str(), &middle] } else { [middle.as_str(), &extent] };
        let name = self.node("Slice", &[&x.name, ends[0], ends[1], &at], Vec::new());
        let mut dims = x.dims.clone();
        dims[axis] = dims[axis].as_ref().and_then(|dim| {
            let first = dim.floor_div(&number(2))?;
            if is_first { Some(first) } else { dim.sub(&first) }
        });
        self.add(name, dims);
    }
    fn tile(&mut self, x: &Tensor) {
        let times: Vec<i64> = x.dims.iter().map(|_| self.random.pick(&[1, 1, 2])).collect();
        if times.is_empty() || x.dims.len() > 4 {
            return;
        }
        let repeats = self.integers(&times);
        let name = self.node("Tile", &[&x.name, &repeats], Vec::new());
        let scaled = x.dims.iter().zip(&times).map(|(dim, times)| dim.as_ref()?.mul(&number(*times)));
        let dims = scaled.collect();
        self.add(name, dims);
    }
    /// Adds zeros of the shape of the operand.
    fn filled(&mut self, x: &Tensor) {
        let shape = self.node("Shape", &[&x.name], Vec::new());
        let zeros = self.node("ConstantOfShape", &[&shape], Vec::new());
        let name = self.node("Add", &[&x.name, &zeros], Vec::new());
        self.add(name, x.dims.clone());
    }
    /// Rounds to integers and back.
    fn whole(&mut self, x: &Tensor) {
        let whole = self.node("Cast", &[&x.name], vec![integer("to", 6)]);
        let name = self.node("Cast", &[&whole], vec![integer("to", 1)]);
        self.add(name, x.dims.clone());
    }
    fn unsqueeze(&mut self, x: &Tensor) {
        if x.dims.len() > 3 {
            return;
        }
        let axis = self.random.below(x.dims.len() + 1);
        let name = self.with_axes("Unsqueeze", x, &[axis as i64], 13, Vec::new());
        let mut dims = x.dims.clone();
        dims.insert(axis, Some(number(1)));
        self.add(name, dims);
    }
}

/// Returns the extent of a window operator that keeps its operand's extent but for the stride.
fn strided(dim: &Option<DimExpr>, stride: i64) -> Option<DimExpr> {
    let dim = dim.as_ref()?;
    if stride == 1 {
        return Some(dim.clone());
    }
    dim.add(&number(stride - 1))?.floor_div(&number(stride))
}

/// Returns the number of elements that a slice takes.
fn taken(extent: i64, start: i64, end: i64, step: i64) -> i64 {
    let bound = |at: i64| if at < 0 { at + extent } else { at }.clamp(0, extent);
    (bound(end) - bound(start)).max(0).div_euclid(step)
        + i64::from((bound(end) - bound(start)).max(0) % step != 0)
}

/// Returns a random range. `is_empty` allows the extent 0.
fn range(random: &mut Random, is_empty: bool) -> Extent {
    let (min, steps) = (random.below(3) as u64 + u64::from(!is_empty), 1 + random.below(9) as u64);
    let step = random.pick(&[1, 1, 1, 2, 3]);
    let text = format!("{min}..{}/{step}", min + steps * step);
    text.parse().unwrap_or(Extent::Only(1))
}

/// Returns the random model of a seed.
pub fn dynamic(seed: u64) -> Dynamic {
    let mut random = Random(seed);
    let opset = random.pick(&OPSETS);
    let mut builder = Builder {
        random,
        opset,
        nodes: Vec::new(),
        weights: Vec::new(),
        inputs: Vec::new(),
        values: Vec::new(),
        unread: Vec::new(),
    };
    let kind = builder.random.below(4);
    let is_image = kind == 0;
    let is_empty = !is_image && builder.random.below(3) == 0;
    let mut dims: Vec<(String, Extent)> = vec![("b".to_owned(), range(&mut builder.random, is_empty))];
    match kind {
        0 => {
            builder.input("x", &["b", "2", "h", "w"]);
            dims.extend(["h", "w"].map(|name| (name.to_owned(), range(&mut builder.random, false))));
        }
        1 => {
            builder.input("x", &["b", "s", "4"]);
            dims.push(("s".to_owned(), range(&mut builder.random, is_empty)));
        }
        2 => {
            builder.input("x", &["b", "s", "4"]);
            builder.input("p", &["b", "t", "4"]);
            dims.push(("s".to_owned(), range(&mut builder.random, false)));
            let of = builder.random.pick(&["s+1", "2*s", "b+s"]);
            dims.push(("t".to_owned(), of.parse().unwrap_or(Extent::Only(1))));
        }
        _ => {
            builder.input("x", &["b", "6"]);
            builder.input("p", &["6", "s"]);
            dims.push(("s".to_owned(), range(&mut builder.random, is_empty)));
        }
    }
    let limit = (builder.random.below(4) == 0 && kind == 1).then(|| "b*s<=12".parse().ok()).flatten();
    let count = 3 + builder.random.below(14);
    while builder.nodes.len() < count {
        builder.step();
    }
    let mut outputs: Vec<String> = builder.unread.clone();
    let made: BTreeMap<String, ()> =
        builder.nodes.iter().flat_map(|node| node.output.clone()).map(|name| (name, ())).collect();
    outputs.retain(|name| made.contains_key(name));
    let float = |name: &String| {
        let tensor = type_proto::Tensor { elem_type: Some(FLOAT), shape: None };
        let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
        ValueInfoProto { name: Some(name.clone()), r#type: Some(ty), ..ValueInfoProto::default() }
    };
    let told = builder.nodes.iter().map(NodeProto::op_type).collect::<Vec<_>>().join(" ");
    let graph = GraphProto {
        name: Some("dynamic".to_owned()),
        output: outputs.iter().map(float).collect(),
        node: builder.nodes,
        input: builder.inputs,
        initializer: builder.weights,
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: None, version: Some(opset) }];
    let model = ModelProto { ir_version: Some(8), opset_import, graph: Some(graph), ..ModelProto::default() };
    Dynamic { model, dims, limits: limit.into_iter().collect(), told: format!("opset {opset}: {told}") }
}
