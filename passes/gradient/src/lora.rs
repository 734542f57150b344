//! Adapters of low rank: a frozen matrix `W` with two small trainable ones, `W + L R`, of which only `x L`
//! and `(x L) R` are computed. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021).

use std::str::FromStr;

use memc_edit::is_made_by;
use memc_ir::{Dim, ElementType, Module, Node, NodeData, Rewriter, TensorType, Use, Value, matches};

use crate::emit::Emit;
use crate::error::{GradientError, Refusal};
use crate::trainable::Trainable;
use crate::{Known, NAME};

/// Endings of the names of the two matrices of an adapter.
pub const ENDINGS: [&str; 2] = [".lora_a", ".lora_b"];

/// A request for adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lora {
    /// Rank: columns of the first and rows of the second matrix.
    pub rank: u64,
    /// Pattern of the names of the adapted matrices.
    pub pattern: String,
}

/// Reads `r=N:PATTERN`.
impl FromStr for Lora {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not r=N:PATTERN, as in r=8:'*.attn.*'");
        let (rank, pattern) =
            text.strip_prefix("r=").and_then(|rest| rest.split_once(':')).ok_or_else(wrong)?;
        let rank = rank.parse().ok().filter(|rank| (1..=65536).contains(rank)).ok_or_else(wrong)?;
        if pattern.is_empty() { Err(wrong()) } else { Ok(Self { rank, pattern: pattern.to_owned() }) }
    }
}

/// A product that reads an adapted matrix as its operand 1.
struct Product {
    node: Node,
    /// Whether the product reads the matrix transposed.
    turned: bool,
}

/// Returns the products that read a matrix as operand 1, by itself or behind a Transpose; none if the matrix
/// has other readers, for which the adapter would have to be added to it.
fn products(rewriter: &Rewriter<'_>, matrix: Value) -> Vec<Product> {
    let module = rewriter.module();
    let (mut open, mut found) = (vec![(matrix, false)], Vec::new());
    while let Some((value, turned)) = open.pop() {
        for site in rewriter.uses(value) {
            let Use::Operand(node, position) = site else { return Vec::new() };
            let data = module.node(*node);
            match (&*data.operator.name, position) {
                ("Transpose", 0) if data.ints("perm").is_none_or(|order| order == [1, 0]) => {
                    open.extend(data.results().map(|result| (result, !turned)));
                }
                ("MatMul", 1) => found.push(Product { node: *node, turned }),
                ("Gemm", 1) if is_plain(data) => {
                    found.push(Product { node: *node, turned: turned != (data.int("transB", 0) != 0) });
                }
                _ => return Vec::new(),
            }
        }
    }
    found.sort_by_key(|product| product.node);
    found
}

/// Whether a Gemm multiplies the rows of its operand 0 as they are.
fn is_plain(data: &NodeData) -> bool {
    data.int("transA", 0) == 0 && data.float("alpha", 1.0) == 1.0
}

/// Adds adapters to the products that read matrices of the requested names. Returns the trainable matrices
/// of the adapters, graph inputs with defaults: the first is drawn by the name of its matrix, the second is
/// zero. The model gives the same results until the adapters are trained.
///
/// # Errors
/// A pattern names no matrix that a product reads as its second operand.
pub fn adapt(
    module: &mut Module,
    data: &mut Known,
    requests: &[Lora],
) -> Result<Vec<Trainable>, GradientError> {
    let Some(anchor) = module.graph(module.main()).constants.first().copied() else {
        return if requests.is_empty() { Ok(Vec::new()) } else { Err(none(&requests[0])) };
    };
    let mut emit = Emit::new(module, std::mem::take(data), anchor);
    let mut made = Vec::new();
    for request in requests {
        let before = made.len();
        let constants = emit.module().graph(emit.module().main()).constants.clone();
        for matrix in constants {
            let name = emit.name(matrix).to_owned();
            let is_new = made.iter().all(|other: &Trainable| other.name != format!("{name}{}", ENDINGS[0]));
            let is_matrix = emit.element(matrix) == ElementType::Float && emit.rank(matrix) == Ok(2);
            let products = products(&emit.maker, matrix);
            if matches(&request.pattern, &name) && is_new && is_matrix && !products.is_empty() {
                let wrong =
                    |refusal: Refusal| GradientError::Defect { node: name.clone(), why: refusal.to_string() };
                made.extend(adapter(&mut emit, matrix, &products, request.rank).map_err(wrong)?);
            }
        }
        if made.len() == before {
            return Err(none(request));
        }
    }
    *data = emit.finish()?;
    Ok(made)
}

fn none(request: &Lora) -> GradientError {
    let why = format!(
        "`{}` names no matrix of type f32 that only products read, as their second operand",
        request.pattern
    );
    GradientError::NoTrainable { why }
}

/// Adds one adapter to all products that read a matrix.
fn adapter(
    emit: &mut Emit<'_>,
    matrix: Value,
    products: &[Product],
    rank: u64,
) -> Result<[Trainable; 2], Refusal> {
    let (name, main) = (emit.name(matrix).to_owned(), emit.module().main());
    let extents = emit.extents(matrix)?;
    let types =
        [[extents[0], rank], [rank, extents[1]]].map(|dims| TensorType::fixed(ElementType::Float, &dims));
    let count = (extents[0] * rank) as usize;
    let bytes = [drawn(&name, count, extents[0]), vec![0; (extents[1] * rank) as usize * 4]];
    let mut made = types.into_iter().zip(bytes).zip(ENDINGS).map(|((ty, raw), ending)| {
        let (name, bytes) = (format!("{name}{ending}"), ty.size().unwrap_or_default());
        let value = emit.maker.input_with_default(main, &name, memc_edit::constant(ty.clone(), raw));
        Trainable { value, name, ty, bytes, is_input: false, is_merged: false }
    });
    let [Some(first), Some(second)] = [made.next(), made.next()] else {
        return Err(Refusal::form("an adapter has two matrices"));
    };
    drop(made);
    for product in products {
        let data = emit.module().node(product.node).clone();
        let ([Some(x), ..], Some(y)) = (&data.inputs[..], data.results().next()) else { continue };
        let order = &emit.module().graph(main).nodes;
        let next =
            order.iter().position(|node| *node == product.node).and_then(|at| order.get(at + 1)).copied();
        emit.before = next;
        let own = emit.name(y).to_owned();
        emit.set_place(format!("{own}_lora"), crate::walk::label(emit.module(), product.node));
        let (left, right) = match product.turned {
            false => (first.value, second.value),
            true => (emit.transpose(second.value, &[1, 0]), emit.transpose(first.value, &[1, 0])),
        };
        let narrow = emit.op("MatMul", &[*x, left]);
        let change = emit.op("MatMul", &[narrow, right]);
        let sum = emit.op("Add", &[y, change]);
        emit.before = None;
        // Readers of the product read the sum, under the name of the product.
        let adder = emit.module().producer(sum).filter(|node| is_made_by(emit.module(), *node, NAME));
        emit.maker.replace_uses(y, sum);
        if let Some(adder) = adder {
            emit.maker.set_operand(adder, 0, y);
        }
        let fresh = emit.maker.fresh_name(&format!("{own}_frozen"));
        emit.maker.rename(y, fresh);
        emit.maker.rename(sum, own);
        let dims: Vec<Dim> = emit.dims(y)?;
        emit.stated(sum, &dims);
    }
    Ok([first, second])
}

/// Draws numbers evenly between plus and minus one over the root of `rows`, by a name: the sequence of
/// SplitMix64 (Steele, Lea and Flood, 2014) from the FNV-1a hash of the name.
fn drawn(name: &str, count: usize, rows: u64) -> Vec<u8> {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let bound = 1.0 / (rows.max(1) as f64).sqrt();
    let mut state = hash;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| ((2.0 * next() - 1.0) * bound) as f32).flat_map(f32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!("r=8:h.*:x".parse(), Ok(Lora { rank: 8, pattern: "h.*:x".to_owned() }));
        for wrong in ["", "8:*", "r=0:*", "r=8", "r=8:", "r=x:*"] {
            assert!(wrong.parse::<Lora>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn drawn_numbers_depend_on_the_name_alone_and_keep_their_bound() {
        let numbers = |name: &str| -> Vec<f32> {
            drawn(name, 1000, 64)
                .chunks_exact(4)
                .map(|raw| f32::from_le_bytes(raw.try_into().unwrap()))
                .collect()
        };
        assert_eq!(numbers("a"), numbers("a"));
        assert_ne!(numbers("a"), numbers("b"));
        assert!(numbers("a").iter().all(|number| number.abs() <= 0.125));
        let mean = numbers("a").iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.01, "{mean}");
    }
}
