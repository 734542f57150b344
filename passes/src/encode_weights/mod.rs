//! `encode-weights`: writes the weights of matrix products in 8 or 4 bits.

mod codes;

use memc_edit::{Maker, int};
use memc_ir::{
    Attribute, Bytes, Diagnostic, ElementType, Module, Node, Operator, SecondaryMap, Severity, Stage,
    TensorType, Use, Value, ValueType,
};

use crate::claims::{Claim, EncodedWeight};
use crate::options::WeightCode;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use codes::{BLOCK, Codes, Matrix, Storage, encode};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "encode-weights",
    summary: "Writes the weights of matrix products in 8 or 4 bits, with their errors stated.",
    page: include_str!("../../doc/encode-weights.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// First version of the operator set whose DequantizeLinear has a scale for each column.
const COLUMNS: i64 = 13;
/// First version of the operator set whose DequantizeLinear has blocks and 4-bit integers.
const BLOCKS: i64 = 21;
/// Setting of MatMulNBits that multiplies integers: the operand is rounded to 8 bits in blocks. It is the
/// fast one: 2,048 x 2,048 weights in 8 bits times one row take 0.07 ms, and 10.5 ms with numbers.
const INTEGER_PRODUCTS: i64 = 4;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let Some(code) = ctx.options.encode.weights else { return Ok(Changed::No) };
    let nodes = module.graph(module.main()).nodes.clone();
    let constants = module.graph(module.main()).constants.clone();
    let stays = memc_ops::feeds_unrepeatable(module, &nodes);
    let mut walk =
        Walk { maker: Maker::new(module, INFO.name), ctx, code, stays, bytes: 0, left: Left::default() };
    for value in constants {
        if let Some(weight) = walk.weight(value) {
            walk.encode(weight);
        }
    }
    walk.tell();
    if walk.maker.edits() > 0 {
        walk.maker.drop_unused_constants();
    }
    Ok(Changed::edits(walk.maker.finish()))
}

/// Number of matrices that were not encoded, by reason, and the name of one of each.
#[derive(Default)]
struct Left {
    unreadable: Vec<String>,
    unfit: Vec<String>,
    old: Vec<String>,
    beyond: Vec<String>,
}

/// A matrix of weights to encode.
struct Weight {
    value: Value,
    /// Products that read it, in graph order.
    readers: Vec<Node>,
    /// Whether columns of the product are rows of the matrix.
    transposed: bool,
    inner: usize,
    columns: usize,
}

/// The walk over the initializers of the main graph.
struct Walk<'m, 'c, 'o> {
    maker: Maker<'m>,
    ctx: &'c mut PassContext<'o>,
    code: WeightCode,
    /// Nodes that lead to random operators, which stay as they are.
    stays: SecondaryMap<Node, bool>,
    /// Total bytes of codes so far.
    bytes: u64,
    left: Left,
}

impl Walk<'_, '_, '_> {
    fn module(&self) -> &Module {
        self.maker.module()
    }

    /// Returns a matrix of binary32 weights that matrix products read as their second operand, in one way,
    /// and nothing else.
    fn weight(&self, value: Value) -> Option<Weight> {
        let ty = &self.module().constant(self.module().constant_of(value)?).ty;
        let dims = ty.known_dims().filter(|dims| ty.element == ElementType::Float && dims.len() == 2)?;
        if ty.size()? < self.ctx.options.tuning.encode.least_weights || self.maker.is_pinned(value) {
            return None;
        }
        let mut readers = Vec::new();
        let mut ways = Vec::new();
        for site in self.maker.uses(value) {
            let Use::Operand(node, 1) = *site else { return None };
            ways.push(self.transposes(node)?);
            readers.push(node);
        }
        let transposed = *ways.first()?;
        ways.iter().all(|way| *way == transposed).then_some(())?;
        let [rows, columns] = [*dims.first()?, *dims.get(1)?].map(usize::try_from);
        let (rows, columns) = (rows.ok()?, columns.ok()?);
        let (inner, columns) = if transposed { (columns, rows) } else { (rows, columns) };
        Some(Weight { value, readers, transposed, inner, columns })
    }

    /// Returns whether a product reads its second operand transposed; `None` if the node is no product of
    /// binary32 matrices that may change.
    fn transposes(&self, node: Node) -> Option<bool> {
        let data = self.module().node(node);
        let first = self.maker.operand(node, 0)?;
        let element = self.module().ty(first).tensor()?.element;
        let plain = data.graph == self.module().main() && !self.stays[node] && data.recompute_of.is_none();
        (plain && data.operator.domain.is_empty() && element == ElementType::Float).then_some(())?;
        match &*data.operator.name {
            "MatMul" => Some(false),
            "Gemm" => Some(data.int("transB", 0) != 0),
            _ => None,
        }
    }

    /// Encodes a matrix for all its readers.
    fn encode(&mut self, weight: Weight) {
        let name = self.module().value(weight.value).name.clone();
        let Some(constant) = self.module().constant_of(weight.value) else { return };
        let Some(bytes) = self.ctx.bytes_of(self.module().constant(constant)) else {
            self.left.unreadable.push(name);
            return;
        };
        let direct = self.has_kernel()
            && weight.readers.iter().all(|node| self.is_plain_product(*node, weight.columns));
        let least = if self.code == WeightCode::Int8 { COLUMNS } else { BLOCKS };
        if !direct && self.maker.version < least {
            self.left.old.push(name);
            return;
        }
        let matrix = Matrix {
            bytes: &bytes,
            inner: weight.inner,
            columns: weight.columns,
            transposed: weight.transposed,
        };
        let by_column = !direct && self.code == WeightCode::Int8;
        let block = if by_column { weight.inner.max(1) } else { BLOCK };
        let storage = if direct { Storage::Columns } else { Storage::AsGiven };
        let Some(codes) = encode(matrix, self.code, block, storage) else {
            self.left.unfit.push(name);
            return;
        };
        let size = (codes.codes.len() + 4 * codes.scales.len()) as u64;
        if size >= bytes.len() as u64 {
            self.left.unfit.push(name);
            return;
        }
        if self.bytes.saturating_add(size) > self.ctx.options.max_weight_bytes.0 {
            self.left.beyond.push(name);
            return;
        }
        self.bytes += size;
        let errors = codes.errors;
        let (codes, scales) =
            if direct { self.direct(&weight, codes) } else { self.decoded(&weight, codes, by_column) };
        let Some(whole) = self.module().constant_of(codes) else { return };
        let [codes, scales] = [codes, scales].map(|value| self.module().value(value).name.clone());
        self.ctx.said.claims.push(Claim::EncodedWeight(EncodedWeight {
            of: name,
            codes,
            scales,
            bits: self.code.bits(),
            block: (!by_column).then_some(BLOCK as u64),
            before: Bytes(bytes.len() as u64),
            after: Bytes(size),
            whole,
            extents: [weight.inner, weight.columns].map(|extent| extent as u64),
            transposed: weight.transposed,
            errors,
        }));
    }

    /// Returns whether the runtime multiplies by codes without decoding them all.
    fn has_kernel(&self) -> bool {
        let options = self.ctx.options;
        !options.rewrite.standard && options.profile.multiplies_codes
    }

    /// Returns whether MatMulNBits can replace a product: no factors, no transposed operand, and a bias of
    /// one number a column, or none.
    fn is_plain_product(&self, node: Node, columns: usize) -> bool {
        let data = self.module().node(node);
        if &*data.operator.name == "MatMul" {
            let rank = |value| self.module().ty(value).tensor().and_then(TensorType::rank);
            return self.maker.operand(node, 0).and_then(rank).is_some_and(|rank| rank >= 2);
        }
        let bias = self.maker.operand(node, 2);
        let fits = |value: Value| {
            let dims = self.module().ty(value).tensor().and_then(TensorType::known_dims);
            dims == Some(vec![columns as u64])
        };
        data.int("transA", 0) == 0
            && data.float("alpha", 1.0) == 1.0
            && (bias.is_none() || data.float("beta", 1.0) == 1.0)
            && bias.is_none_or(fits)
    }

    /// Replaces the products by products with the codes.
    fn direct(&mut self, weight: &Weight, found: Codes) -> (Value, Value) {
        let blocks = weight.inner.div_ceil(BLOCK);
        let bits = self.code.bits();
        let dims = [weight.columns, blocks, BLOCK * bits as usize / 8].map(|extent| extent as u64);
        let codes =
            self.constant(weight.value, "codes", TensorType::fixed(ElementType::Uint8, &dims), found.codes);
        let scales = self.scales(weight.value, &[weight.columns, blocks], &found.scales);
        let integer = |value: usize| Attribute::Int(value as i64);
        let attributes = vec![
            ("K".to_owned(), integer(weight.inner)),
            ("N".to_owned(), integer(weight.columns)),
            ("accuracy_level".to_owned(), Attribute::Int(INTEGER_PRODUCTS)),
            ("bits".to_owned(), Attribute::Int(i64::from(bits))),
            ("block_size".to_owned(), integer(BLOCK)),
        ];
        for node in &weight.readers {
            let mut operands = vec![self.maker.operand(*node, 0), Some(codes), Some(scales)];
            let bias = if &*self.module().node(*node).operator.name == "Gemm" {
                self.maker.operand(*node, 2)
            } else {
                None
            };
            if bias.is_some() {
                operands.extend([None, None, bias]);
            }
            self.maker.redefine(*node, product(), operands, attributes.clone());
        }
        (codes, scales)
    }

    /// Inserts a node that decodes the matrix before its first reader.
    fn decoded(&mut self, weight: &Weight, found: Codes, by_column: bool) -> (Value, Value) {
        let [rows, columns] =
            if weight.transposed { [weight.columns, weight.inner] } else { [weight.inner, weight.columns] };
        let element = if self.code == WeightCode::Int8 { ElementType::Int8 } else { ElementType::Int4 };
        let dims = [rows, columns].map(|extent| extent as u64);
        let codes = self.constant(weight.value, "codes", TensorType::fixed(element, &dims), found.codes);
        let blocks = weight.inner.div_ceil(BLOCK);
        let scales = match (by_column, weight.transposed) {
            (true, _) => vec![weight.columns],
            (false, true) => vec![weight.columns, blocks],
            (false, false) => vec![blocks, weight.columns],
        };
        let scales = self.scales(weight.value, &scales, &found.scales);
        // Scales follow the columns of the product, blocks the numbers that are summed.
        let axis = i64::from(by_column != weight.transposed);
        let mut attributes = int("axis", axis);
        if !by_column {
            attributes.extend(int("block_size", BLOCK as i64));
        }
        let (hint, ty) =
            (self.maker.hint(weight.value, "decoded"), TensorType::fixed(ElementType::Float, &dims));
        let order = &self.module().graph(self.module().main()).nodes;
        let first = order.iter().copied().find(|node| weight.readers.contains(node));
        let new = self.maker.onnx("DequantizeLinear", [codes, scales], attributes);
        if let Some(result) = self.maker.compute(first, new, &hint, ValueType::Tensor(ty)) {
            for node in &weight.readers {
                self.maker.set_operand(*node, 1, result);
            }
        }
        (codes, scales)
    }

    fn scales(&mut self, of: Value, dims: &[usize], scales: &[f32]) -> Value {
        let dims: Vec<u64> = dims.iter().map(|extent| *extent as u64).collect();
        let raw = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        self.constant(of, "scales", TensorType::fixed(ElementType::Float, &dims), raw)
    }

    fn constant(&mut self, of: Value, what: &str, ty: TensorType, raw: Vec<u8>) -> Value {
        self.maker.tensor(&self.maker.hint(of, what), ty, raw)
    }

    /// Remarks on the encoded matrices and on those that were left.
    fn tell(&mut self) {
        let encoded: Vec<&EncodedWeight> = self.ctx.said.claims.encoded_weights().collect();
        let sum = |size: fn(&EncodedWeight) -> Bytes| {
            encoded.iter().map(|weight| size(weight)).fold(Bytes(0), Bytes::saturating_add)
        };
        let worst = encoded.iter().max_by(|a, b| a.errors.relative().total_cmp(&b.errors.relative()));
        let remark = |code, message: String, help: &str| {
            Diagnostic::new(code, Severity::Remark, message).with_help(help)
        };
        let mut remarks = Vec::new();
        if let Some(worst) = worst {
            let message = format!(
                "{} matrices of weights are written in {} bits: {} take {}; the relative error is at most {:.2} %, in `{}`",
                encoded.len(),
                self.code.bits(),
                sum(|weight| weight.before),
                sum(|weight| weight.after),
                worst.errors.relative() * 100.0,
                worst.of
            );
            remarks.push(remark(
                "W0331",
                message,
                "compare results with `memc verify`, on real inputs: `--inputs IN.npz`",
            ));
        }
        let first = |names: &[String]| match names {
            [] => None,
            [only] => Some(format!("`{only}` is")),
            [first, ..] => Some(format!("`{first}` and {} more are", names.len() - 1)),
        };
        let left = [
            (&self.left.unreadable, "cannot be read", "put the weight file beside the model"),
            (&self.left.unfit, "not finite, or codes and scales would not be smaller", "no action needed"),
            (
                &self.left.old,
                "read in a way that needs a newer DequantizeLinear",
                "convert the model to operator set 21, or use `--runtime ort` and plain products",
            ),
            (
                &self.left.beyond,
                "beyond the 512 MiB of new weights that memc writes into a model",
                "encode the model by parts",
            ),
        ];
        for (names, why, help) in left {
            if let Some(names) = first(names) {
                remarks.push(remark("W0332", format!("{names} not encoded: {why}"), help));
            }
        }
        self.ctx.said.remarks.extend(remarks);
    }
}

fn product() -> Operator {
    Operator { domain: "com.microsoft".into(), ..Operator::onnx("MatMulNBits", 1) }
}
