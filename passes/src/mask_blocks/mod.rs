//! `mask-blocks`: computes masked attention in blocks of rows that leave out hidden columns.

mod grid;
mod mask;
mod product;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use memc_edit::Maker;
use memc_ir::{ConstData, Module, Node, Rewriter, Stage, TensorType, Value};
use memc_ops::{Table, Tables, normalize_axis, table_of};

use self::grid::{Core, Role};
use self::mask::{Blocks, Masked};
use crate::Replaced;
use crate::claims::Claim;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "mask-blocks",
    summary: "Computes masked attention in blocks of rows that leave out hidden columns.",
    page: include_str!("../../doc/mask-blocks.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["parts"],
    run,
};

/// Numbers of blocks, unless the setting `parts` says otherwise: the first one with at most
/// [`MAX_BLOCKS`] blocks of all cores together. Eight blocks of a causal mask keep 56 % of the
/// elements, four 62 %, two 75 %, and sixteen would keep 53 %.
const PARTS: [u64; 3] = [8, 4, 2];
/// Maximum number of blocks of all cores together. Every block adds about ten nodes, and planning
/// takes time in proportion to nodes.
const MAX_BLOCKS: u64 = 192;
/// Multiple to which rows and columns of blocks are rounded. Kernels of ONNX Runtime sum vectors of up
/// to 64 numbers side by side, so that left-out zeros at the end change no bit.
const EDGE: u64 = 64;
/// Extent of sums up to which a kernel's blocks of sums do not depend on the number of columns.
const SHORT_SUM: u64 = 128;
/// Minimum number of rows and columns of a core. A shorter one takes little time and memory.
const MIN_EXTENT: u64 = 128;
/// Maximum share of elements that blocks may keep, in percent. Above it, copies take more time than
/// left-out elements save.
const MAX_KEPT: u64 = 80;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    // Operands of different extents broadcast without an attribute since version 7.
    if module.opsets.get("").copied().unwrap_or(0) < 7 {
        return Ok(Changed::No);
    }
    let found = cores(module, ctx);
    if found.is_empty() {
        return Ok(Changed::No);
    }
    let mut order = module.graph(module.main()).nodes.clone();
    let names: Vec<Replaced> = found.iter().map(|(core, _)| replaced(module, core)).collect();
    let mut maker = Maker::new(module, INFO.name);
    for ((core, blocks), names) in found.iter().zip(names) {
        if write::write(&mut maker, core, blocks, &mut order) {
            ctx.said.claims.push(Claim::Rewritten(names));
        }
    }
    let main = maker.module().main();
    maker.set_schedule(main, order);
    maker.drop_unused_constants();
    let edits = maker.finish();
    ctx.data = memc_ops::infer(module).data;
    Ok(Changed::edits(edits))
}

/// Names the results of a core, which keep their names.
fn replaced(module: &Module, core: &Core) -> Replaced {
    let sinks = core.nodes.iter().filter(|(_, role)| matches!(role, Role::Sink(_)));
    let name = |value: Value| module.value(value).name.clone();
    let outputs = sinks
        .flat_map(|(node, _)| module.node(*node).results())
        .map(|value| (name(value), name(value)))
        .collect();
    Replaced { rules: BTreeMap::from([(INFO.name.to_owned(), 1)]), outputs }
}

/// Returns the cores that are worth writing in blocks; no two share a node.
fn cores(module: &mut Module, ctx: &PassContext<'_>) -> Vec<(Core, Blocks)> {
    let seeds: Vec<Node> =
        module.graph(module.main()).nodes.iter().copied().filter(|node| is_softmax(module, *node)).collect();
    if seeds.is_empty() {
        return Vec::new();
    }
    let given = module.clone();
    let known = |value: Value| table_of(ctx.data[value].as_deref()?);
    let read = |constant: &ConstData| Table::of_bytes(&constant.ty, &ctx.bytes_of(constant)?);
    let mut tables = Tables::new(&given, &known, &read);
    let masks = seeds.into_iter().filter_map(|seed| {
        let scores = given.node(seed).inputs.first().copied().flatten()?;
        Some((seed, mask::masked(&given, &mut tables, scores)?))
    });
    let masks: Vec<(Node, Masked)> = masks.collect();
    let parts = ctx.settings.parts.unwrap_or_else(|| parts(masks.len() as u64));
    let rewriter = Rewriter::new(module);
    let mut taken: BTreeSet<Node> = BTreeSet::new();
    let mut found: Vec<(Core, Blocks)> = Vec::new();
    for (seed, masked) in &masks {
        let Some((core, blocks)) = blocks_of(&rewriter, &mut tables, *seed, (masked, parts), ctx) else {
            continue;
        };
        if core.nodes.keys().all(|node| !taken.contains(node)) {
            taken.extend(core.nodes.keys());
            found.push((core, blocks));
        }
    }
    found
}

/// Returns the number of blocks of each core if there are `cores` of them.
fn parts(cores: u64) -> u64 {
    let fits = |parts: &u64| parts.saturating_mul(cores) <= MAX_BLOCKS;
    PARTS.into_iter().find(fits).unwrap_or(PARTS[PARTS.len() - 1])
}

/// Returns whether a node is a Softmax over the last axis of long rows.
fn is_softmax(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let Some(scores) = data.inputs.first().copied().flatten().filter(|_| data.operator.domain.is_empty())
    else {
        return false;
    };
    let Some(rank) = module.ty(scores).tensor().and_then(TensorType::rank) else { return false };
    let default = if data.operator.version < 13 { 1 } else { -1 };
    &*data.operator.name == "Softmax"
        && normalize_axis(data.int("axis", default), rank) == rank.checked_sub(1)
        && mask::extents(module, scores)
            .is_some_and(|extents| extents.iter().all(|extent| *extent >= MIN_EXTENT))
}

/// Returns the core around a Softmax, and its blocks for a mask and a number of parts, if they leave out
/// enough.
fn blocks_of(
    rewriter: &Rewriter<'_>,
    tables: &mut Tables<'_>,
    seed: Node,
    (masked, parts): (&Masked, u64),
    ctx: &PassContext<'_>,
) -> Option<(Core, Blocks)> {
    let (module, exact) = (rewriter.module(), ctx.options.rewrite.exact);
    let blocks = Blocks::new(masked, parts, EDGE, exact);
    let [rows, columns] = blocks.extents;
    if blocks.count() < 2
        || u128::from(blocks.elements()) * 100 > u128::from(rows) * u128::from(columns) * u128::from(MAX_KEPT)
    {
        return None;
    }
    let core = grid::core(rewriter, tables, seed, &blocks, exact)?;
    let mut sums =
        core.nodes.values().filter_map(|role| if let Role::Sink(sum) = role { Some(*sum) } else { None });
    let adds = sums.clone().any(|sum| !sum.over_columns);
    let keeps_bits = !exact || has_short_sums(module, &core);
    (sums.next().is_some() && (!adds || blocks.cover_columns()) && keeps_bits).then_some((core, blocks))
}

/// Returns whether the products that make scores sum few numbers each.
fn has_short_sums(module: &Module, core: &Core) -> bool {
    let sources = core.nodes.iter().filter(|(_, role)| **role == Role::Source);
    sources.into_iter().all(|(node, _)| {
        let product = product::Product::of(module, *node);
        let value = module.node(*node).inputs.first().copied().flatten();
        let extent = product.zip(value).and_then(|(product, value)| {
            module.ty(value).tensor()?.shape.as_ref()?.get(product.summed_axis(0))?.known()
        });
        extent.is_some_and(|extent| extent <= SHORT_SUM)
    })
}
