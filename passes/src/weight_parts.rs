//! `weight-parts`: computes products with large weights in parts of columns, so that only parts of a weight
//! in a farther space are near.

use std::collections::BTreeSet;

use memc_edit::{Maker, int};
use memc_ir::{Dim, Module, Node, SecondaryMap, Stage, TensorType, Use, Value, ValueType, uses};
use memc_ops::{Piece, Pieces, Share, Stretch, Typed, pieces, pieces_giving};

use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "weight-parts",
    summary: "Computes products with large weights in parts, of which one is near at a time.",
    page: include_str!("../doc/weight-parts.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["limit"],
    run,
};

/// Parts begin at multiples of this number of positions, if they have that many: kernels compute so many
/// columns at once.
const COLUMNS: u64 = 16;
/// Maximum number of parts of a weight.
const MAX_PARTS: u64 = 64;
/// Maximum number of nodes that compute one product, in parts of the weight and blocks of rows.
const MAX_NODES: u64 = 256;
/// Maximum number of nodes between a weight and its product.
const MAX_LINKS: usize = 8;
/// Oldest version of the operator set in which operands of different extents broadcast without an
/// attribute.
const OLDEST: i64 = 7;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let is_old = module.opsets.get("").copied().unwrap_or(0) < OLDEST;
    let Some(limit) = ctx.settings.limit.filter(|_| !is_old && ctx.options.weights.is_some()) else {
        return Ok(Changed::No);
    };
    let tuning = &ctx.options.tuning.weights;
    let sizes = Sizes { whole: tuning.whole.of(limit.0), part: tuning.part.of(limit.0) };
    let found = products(module, sizes);
    let mut maker = Maker::new(module, INFO.name);
    for product in &found {
        write(&mut maker, product);
    }
    let edits = maker.finish();
    if edits > 0 {
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Sizes in bytes.
#[derive(Clone, Copy)]
struct Sizes {
    /// Largest weight that is read whole.
    whole: u64,
    /// Largest part of a weight.
    part: u64,
}

/// A product with a weight, computed in parts of one axis of the weight.
struct Product {
    weight: Value,
    /// Axis of the weight.
    axis: usize,
    /// Number of positions of that axis, and of a part.
    extent: u64,
    step: u64,
    /// Nodes that compute with constants alone, and last the product.
    links: Vec<Link>,
    /// Axis of the result of the product.
    joined: usize,
    /// Blocks of the result, if it is large.
    rows: Option<Rows>,
}

/// A node that computes a part of its result from parts of constants.
struct Link {
    node: Node,
    /// Position of the operand that is, or follows from, the weight.
    position: usize,
    pieces: Pieces,
}

/// Finds the products with weights that are too large to be read whole. A weight that other nodes read
/// whole is left out: it must be near anyway. Linear in nodes and operands.
fn products(module: &Module, sizes: Sizes) -> Vec<Product> {
    let uses = uses(module);
    let constants = module.graph(module.main()).constants.iter().copied();
    let is_large = |value: &Value| module.size(*value).is_some_and(|size| size.0 > sizes.whole);
    let mut found = Vec::new();
    for weight in constants.filter(is_large) {
        let mut own = Vec::new();
        let is_read_in_part = uses[weight].iter().all(|site| match site {
            Use::Operand(node, 0) if is_lookup(module, *node) => true,
            Use::Operand(node, position) => {
                own.extend(product(module, &uses, weight, (*node, *position as usize), sizes));
                own.last().is_some_and(|product: &Product| product.links[0].node == *node)
            }
            Use::Output(..) => false,
        });
        if is_read_in_part {
            found.extend(own);
        }
    }
    // A node that reads two large weights is computed in parts of the first one.
    let mut taken = BTreeSet::new();
    found.retain(|product| product.links.iter().all(|link| taken.insert(link.node)));
    found
}

/// Returns whether a node looks up rows of its operand 0.
fn is_lookup(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let is_first = data.int("axis", 0) == 0 && data.inputs.get(1) != data.inputs.first();
    data.graph == module.main()
        && data.operator.domain.is_empty()
        && &*data.operator.name == "Gather"
        && is_first
}

/// Returns the product at the end of the nodes that read a weight, if an axis of the weight becomes an axis
/// of its result.
fn product(
    module: &Module,
    uses: &SecondaryMap<Value, Vec<Use>>,
    weight: Value,
    reader: (Node, usize),
    sizes: Sizes,
) -> Option<Product> {
    let dims = module.ty(weight).tensor()?.known_dims()?;
    let bytes = module.size(weight)?.0;
    (0..dims.len()).find_map(|axis| {
        let extent = dims[axis];
        let most = (u128::from(sizes.part) * u128::from(extent) / u128::from(bytes.max(1))) as u64;
        let most = most.max(extent.div_ceil(MAX_PARTS));
        let step = if most >= COLUMNS { most / COLUMNS * COLUMNS } else { most.max(1) };
        let (links, joined) = links(module, uses, reader, axis)?;
        let most = MAX_NODES / extent.div_ceil(step).max(1);
        let rows = links.last().and_then(|last| rows(module, last, joined, sizes, most));
        (step < extent).then_some(Product { weight, axis, extent, step, links, joined, rows })
    })
}

/// Follows an axis of a constant through nodes that compute with constants alone to the first other node.
/// Returns all of them, and the axis of the result.
fn links(
    module: &Module,
    uses: &SecondaryMap<Value, Vec<Use>>,
    (mut node, mut position): (Node, usize),
    mut axis: usize,
) -> Option<(Vec<Link>, usize)> {
    let mut links = Vec::new();
    while links.len() < MAX_LINKS {
        let data = module.node(node);
        if data.graph != module.main() || links.iter().any(|link: &Link| link.node == node) {
            return None;
        }
        let (pieces, along) = pieces_of(module, node, position, axis)?;
        let others = || data.inputs.iter().enumerate().filter(|(other, _)| *other != position);
        let is_constant =
            others().all(|(_, value)| value.is_none_or(|value| module.constant_of(value).is_some()));
        links.push(Link { node, position, pieces });
        if !is_constant {
            return Some((links, along));
        }
        // The next node is the only reader.
        let [Use::Operand(next, at)] = uses[data.results().next()?].as_slice() else { return None };
        (node, position, axis) = (*next, *at as usize, along);
    }
    None
}

/// Returns how a node computes a part of its only result from positions of an axis of an operand, and the
/// axis of the result. All other operands are read whole, or are constants of which it reads a part.
fn pieces_of(module: &Module, node: Node, position: usize, axis: usize) -> Option<(Pieces, usize)> {
    let data = module.node(node);
    let mut operands = vec![Piece::Whole; data.inputs.len()];
    *operands.get_mut(position)? = Piece::Along(axis);
    let found = pieces(Share { node: Typed::of(module, node), operands: &operands, parts: 1 })?;
    let fits = |(at, piece): (usize, &Piece)| match piece {
        Piece::Whole => true,
        Piece::Along(_) => {
            at == position || data.inputs[at].is_some_and(|value| module.constant_of(value).is_some())
        }
        _ => false,
    };
    let [Piece::Along(along)] = found.results[..] else { return None };
    (is_plain(&found) && data.results().count() == 1 && found.operands.iter().enumerate().all(fits))
        .then_some((found, along))
}

/// Returns whether the nodes of parts are those of the whole, on parts of operands.
fn is_plain(pieces: &Pieces) -> bool {
    pieces.extents.is_none()
        && pieces.divided.is_none()
        && pieces.count.is_none()
        && pieces.in_first.is_empty()
        && pieces.in_last.is_empty()
        && pieces.accumulates.is_none()
        && pieces.operator.is_none()
        && pieces.reach.is_none()
}

/// Rows of the result of a product, which are computed in blocks.
struct Rows {
    /// Axis of the result.
    axis: usize,
    pieces: Pieces,
    /// Number of positions of the axis, and of a block.
    extent: u64,
    step: u64,
}

/// Returns the rows of a product's result that are computed together, if the result is too large to lie
/// beside its own parts. There are at most `most` blocks.
fn rows(module: &Module, last: &Link, joined: usize, sizes: Sizes, most: u64) -> Option<Rows> {
    let node = last.node;
    let result = module.node(node).results().next()?;
    let (dims, bytes) = (module.ty(result).tensor()?.known_dims()?, module.size(result)?.0);
    let axis =
        (0..dims.len()).find(|axis| dims[*axis] > 1).filter(|axis| *axis != joined && bytes > sizes.whole)?;
    let typed = Typed::of(module, node);
    let found = pieces_giving(typed, axis, |operands| pieces(Share { node: typed, operands, parts: 1 }))?;
    let extent = dims[axis];
    let step = (u128::from(sizes.part) * u128::from(extent) / u128::from(bytes)) as u64;
    let step = step.max(extent.div_ceil(most.max(1))).clamp(1, extent);
    let is_whole = found.operands.get(last.position) == Some(&Piece::Whole);
    let is_cut_twice = |(own, other): (&Piece, &Piece)| own.axis().is_some() && other.axis().is_some();
    let is_apart = !found.operands.iter().zip(&last.pieces.operands).any(is_cut_twice);
    (is_whole && is_apart && is_plain(&found) && step < extent).then_some(Rows {
        axis,
        pieces: found,
        extent,
        step,
    })
}

/// Writes a product in parts, with a Concat of their results; a result that is too large to lie beside its
/// parts in blocks of rows.
fn write(maker: &mut Maker<'_>, product: &Product) {
    let Some(last) = product.links.last().map(|link| link.node) else { return };
    let Some(result) = maker.result(last) else { return };
    let (mut start, mut parts) = (0, Vec::new());
    while start < product.extent {
        let positions = Stretch::from(start..product.extent.min(start + product.step));
        let Some(made) = operands(maker, product, last, &positions, parts.len()) else { return };
        parts.push((positions, made));
        start += product.step;
    }
    let Some(rows) = &product.rows else {
        let made = parts.iter().enumerate().map(|(number, (positions, operands))| {
            let ty = narrowed(maker.module().ty(result), product.joined, positions);
            computed(maker, last, operands.clone(), ty, &format!("part{number}"))
        });
        let Some(made) = made.collect::<Option<Vec<Value>>>() else { return };
        let joined = maker.concat(Some(last), made, product.joined);
        maker.move_result(result, joined, 0);
        maker.erase(last);
        return;
    };
    let mut blocks = Vec::new();
    for start in (0..rows.extent).step_by(usize::try_from(rows.step).unwrap_or(usize::MAX)) {
        let block = Stretch::from(start..rows.extent.min(start + rows.step));
        let Some(made) = block_of(maker, product, rows, &block, &parts, blocks.len()) else { return };
        blocks.push(made);
    }
    let joined = maker.concat(Some(last), blocks, rows.axis);
    maker.move_result(result, joined, 0);
    maker.erase(last);
}

/// Writes all columns of a block of rows.
fn block_of(
    maker: &mut Maker<'_>,
    product: &Product,
    rows: &Rows,
    block: &Stretch,
    parts: &[(Stretch, Vec<Option<Value>>)],
    number: usize,
) -> Option<Value> {
    let last = product.links.last()?;
    let result = maker.result(last.node)?;
    let ty = narrowed(maker.module().ty(result), rows.axis, block);
    let given = maker.module().node(last.node).inputs.clone();
    // Operands of which the block reads rows only.
    let mut own: Vec<Option<Value>> = vec![None; given.len()];
    for (at, piece) in rows.pieces.operands.iter().enumerate() {
        if let (Some(value), Piece::Along(axis)) = (given[at], piece) {
            own[at] = Some(cut(maker, last.node, value, *axis, block, number)?);
        }
    }
    let mut made = Vec::new();
    for (positions, operands) in parts {
        let operands = operands.iter().zip(&own).map(|(part, own)| own.or(*part)).collect();
        let ty = narrowed(&ty, product.joined, positions);
        made.push(computed(maker, last.node, operands, ty, &format!("block{number}"))?);
    }
    let joined = maker.onnx("Concat", made, int("axis", product.joined as i64));
    let name = maker.name_after(result, &format!("block{number}"));
    let joined = maker.insert(Some(last.node), joined, &[Some((name, ty))]);
    maker.result(joined)
}

/// Returns the operands of a part of the product: parts of the weight and of other constants, made before a
/// node by copies of the nodes between weight and product.
fn operands(
    maker: &mut Maker<'_>,
    product: &Product,
    before: Node,
    positions: &Stretch,
    number: usize,
) -> Option<Vec<Option<Value>>> {
    let mut own = cut(maker, before, product.weight, product.axis, positions, number)?;
    for Link { node, position, pieces } in &product.links {
        let mut operands = maker.module().node(*node).inputs.clone();
        for (at, piece) in pieces.operands.iter().enumerate() {
            operands[at] = match (operands[at], piece) {
                (Some(_), _) if at == *position => Some(own),
                (Some(value), Piece::Along(axis)) => {
                    Some(cut(maker, before, value, *axis, positions, number)?)
                }
                (other, _) => other,
            };
        }
        if *node == before {
            return Some(operands);
        }
        let result = maker.result(*node)?;
        let ty = narrowed(maker.module().ty(result), pieces.results.first()?.axis()?, positions);
        own = computed_by(maker, *node, before, operands, ty, &format!("part{number}"))?;
    }
    None
}

/// Inserts a copy of a node before it, with other operands; returns its result.
fn computed(
    maker: &mut Maker<'_>,
    node: Node,
    operands: Vec<Option<Value>>,
    ty: ValueType,
    ending: &str,
) -> Option<Value> {
    computed_by(maker, node, node, operands, ty, ending)
}

fn computed_by(
    maker: &mut Maker<'_>,
    node: Node,
    before: Node,
    operands: Vec<Option<Value>>,
    ty: ValueType,
    ending: &str,
) -> Option<Value> {
    let (data, result) = (maker.module().node(node).clone(), maker.result(node)?);
    let name = maker.name_after(result, ending);
    let new = maker.node(data.operator, operands, data.attributes);
    let made = maker.insert(Some(before), new, &[Some((name, ty))]);
    maker.result(made)
}

/// Cuts positions out of a value.
fn cut(
    maker: &mut Maker<'_>,
    before: Node,
    value: Value,
    axis: usize,
    positions: &Stretch,
    number: usize,
) -> Option<Value> {
    let name = maker.name_after(value, &format!("part{number}"));
    let made = maker.slice(Some(before), value, axis, positions, name);
    maker.result(made)
}

/// Returns a type with these positions of an axis.
fn narrowed(ty: &ValueType, axis: usize, positions: &Stretch) -> ValueType {
    let mut ty = ty.clone();
    if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty
        && let Some(extent) = dims.get_mut(axis)
    {
        *extent = positions.known().map_or(Dim::Unknown, |range| Dim::Known(range.end - range.start));
    }
    ty
}
