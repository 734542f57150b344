//! Scans over the rows of a batch: what a body computes from one row must be that row of what the input model
//! computes.
//!
//! The row is any one: the batch of the input model has `row` positions before it and `after` behind it,
//! both free, also if the batch is fixed. The body is numbered with rows of the graph inputs in place of its
//! formal inputs. Its results must have the numbers of the rows of the input model's outputs.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Attribute, Dim, DimExpr, GraphId, Node, Rewriter, TensorType, Value, ValueType};

use crate::ctx::Ctx;
use crate::extents::Extents;
use crate::flat::flat;
use crate::numbering::{Moves, Names, Numbering};
use crate::rows::is_onnx;
use crate::side::{Known, Side};

/// Free dimension of the rows before the one that is compared. No model has this name: it is no identifier.
const BEFORE: &str = "rows before";
/// Free dimension of the rows behind the one that is compared.
const AFTER: &str = "rows after";
/// Attributes of a Scan that reads and writes rows in order, along the first axis.
const PLAIN: [&str; 2] = ["body", "num_scan_inputs"];

/// A Scan over rows of graph inputs.
struct Scan {
    node: Node,
    body: GraphId,
    batch: Batch,
}

/// First extent of the inputs of a Scan over rows.
#[derive(PartialEq, Eq)]
enum Batch {
    /// A free dimension of this name.
    Free(String),
    Fixed(u64),
}

impl Batch {
    /// Returns the first extent of a value.
    fn of(side: &Side<'_>, value: Value) -> Option<Self> {
        match side.module.ty(value).tensor()?.shape.as_deref()?.first()? {
            Dim::Symbolic(extent) => extent.as_symbol().map(|name| Self::Free(name.to_owned())),
            Dim::Known(extent) => Some(Self::Fixed(*extent)),
            Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => None,
        }
    }

    /// Returns extents with this batch around one row, and the batch in them.
    fn around_one(&self, extents: &Extents) -> Option<(Extents, DimExpr)> {
        match self {
            Self::Free(name) => {
                let (others, range) = extents.without(name)?;
                others.around_one(range.max, BEFORE, AFTER)
            }
            Self::Fixed(extent) => extents.around_one(Some(*extent), BEFORE, AFTER),
        }
    }

    /// Returns a side with `rows` in place of this batch of graph inputs. A fixed batch of the input model
    /// may be any other one then: what its operators compute of these inputs counts, not what the file says.
    fn replaced<'e, 'f: 'e>(
        &self,
        side: &Side<'f>,
        inputs: &BTreeSet<&str>,
        rows: &DimExpr,
        extents: &'e Extents,
    ) -> Side<'e> {
        match self {
            Self::Free(name) => side.substituted(name, rows, extents),
            Self::Fixed(extent) => side.resized(inputs, *extent, rows, extents),
        }
    }
}

/// Returns the results of Scans over rows that are proven to be the outputs of the same names of the input
/// model. `rewritten` has pairs of names of equal values: of the input model, and of the output model.
pub(crate) fn proven(ctx: &Ctx<'_>, given: &Side<'_>, rewritten: &[(&str, &str)]) -> Vec<(String, Value)> {
    let scans = ctx.out.rows.iter().filter_map(|row| scan(ctx.out, row.node));
    scans.filter_map(|scan| proven_results(ctx, given, &scan, rewritten)).flatten().collect()
}

/// Returns whether a body of a Scan over rows has a result of this name.
pub(crate) fn has_result(out: &Side<'_>, name: &str) -> bool {
    let bodies = out.rows.iter().filter_map(|row| scan(out, row.node)).map(|scan| scan.body);
    let nodes = bodies.flat_map(|body| &out.module.graph(body).nodes);
    let mut results = nodes.flat_map(|node| out.module.node(*node).results());
    results.any(|value| out.module.value(value).name == name)
}

/// Returns a node as a Scan over rows: it carries no state, and reads graph inputs of one first extent.
fn scan(out: &Side<'_>, node: Node) -> Option<Scan> {
    let data = out.module.node(node);
    let count = usize::try_from(data.int("num_scan_inputs", 0)).ok()?;
    let is_plain = data.attributes.iter().all(|(name, _)| PLAIN.contains(&name.as_str()));
    (is_onnx(data, "Scan") && is_plain && count > 0 && count == data.inputs.len()).then_some(())?;
    let Some(Attribute::Graph(body)) = data.attribute("body") else { return None };
    let mut batches =
        data.inputs.iter().map(|input| Batch::of(out, (*input).filter(|input| out.is_input(*input))?));
    let first = batches.next()??;
    batches.all(|other| other.as_ref() == Some(&first)).then_some(Scan { node, body: *body, batch: first })
}

/// Returns the results of a Scan, if all are proven to be the outputs of the same names.
fn proven_results(
    ctx: &Ctx<'_>,
    given: &Side<'_>,
    scan: &Scan,
    rewritten: &[(&str, &str)],
) -> Option<Vec<(String, Value)>> {
    let (extents, rows) = scan.batch.around_one(ctx.out.extents)?;
    let before = DimExpr::symbol(BEFORE);
    let inputs: BTreeSet<&str> =
        ctx.out.module.node(scan.node).operands().map(|input| ctx.out.name(input)).collect();
    let whole = scan.batch.replaced(given, &inputs, &rows, &extents);
    let flat = flat(&whole);
    let whole = flat.as_ref().unwrap_or(&whole);
    let out = scan.batch.replaced(ctx.out, &inputs, &rows, &extents);
    let (row, formals) = of_one_row(&out, scan)?;
    (0..row.rows.len()).all(|index| !row.unrepeatable(index)).then_some(())?;
    let mut numbering = Numbering::moving(Moves::Any);
    let none = Names { original: &|_| None, wide: &|_| None, fixed: &|_| None };
    let theirs = numbering.model(whole, 0, none);
    // In the order of the nodes, no cut is followed far.
    let all = whole.values.iter().filter_map(|value| {
        let found = numbering.row_of(whole, *value, theirs.values[*value], [&rows, &before])?;
        Some((*value, found))
    });
    let all: BTreeMap<Value, (u32, Known)> = all.collect();
    let named = |name: &str| whole.named.get(name).and_then(|value| all.get(value));
    let mut fixed: BTreeMap<Value, u32> = BTreeMap::new();
    for (formal, input) in &formals {
        let (number, ty) = named(input)?;
        fixed.insert(*formal, numbering.without_rows(*number, ty, &extents)?);
    }
    for (theirs, ours) in rewritten {
        fixed.extend(row.named.get(*ours).copied().zip(named(theirs).map(|(number, _)| *number)));
    }
    let ours = numbering.model(&row, 1, Names { fixed: &|value| fixed.get(&value).copied(), ..none });
    let results = &row.module.graph(row.module.main()).outputs;
    let made = &ctx.out.module.node(scan.node).outputs;
    let is_equal = |(result, value): (&Option<Value>, &Value)| {
        let name = ctx.out.name((*result)?).to_owned();
        let (number, ty) = named(&name)?;
        let expected = numbering.without_rows(*number, ty, &extents)?;
        (expected == ours.values[*value]).then_some((name, (*result)?))
    };
    made.iter().zip(results).map(is_equal).collect()
}

/// Returns the body of a Scan as a model of one row, and its inputs, each with the name of the input of the
/// output model whose row it is.
fn of_one_row<'e>(out: &Side<'e>, scan: &Scan) -> Option<(Side<'e>, Vec<(Value, String)>)> {
    let mut module = out.module.clone();
    let (main, data) = (module.main(), module.node(scan.node).clone());
    let body = module.graph(scan.body).clone();
    (body.inputs.len() == data.inputs.len() && body.outputs.len() == data.outputs.len()).then_some(())?;
    let mut inputs = Vec::new();
    let mut rewriter = Rewriter::new(&mut module);
    for (formal, input) in body.inputs.iter().zip(data.operands()) {
        let ty = rewriter.module().ty(input).tensor()?.clone();
        let dims = ty.shape.as_deref()?.split_first()?.1.to_vec();
        let name = rewriter.fresh_name("row");
        let row = rewriter.input(main, &name, ValueType::Tensor(TensorType::new(ty.element, dims)));
        rewriter.replace_uses(*formal, row);
        inputs.push((row, rewriter.module().value(input).name.clone()));
    }
    let results = rewriter.inline(scan.node, scan.body);
    rewriter.set_outputs(main, results);
    rewriter.erase(scan.node).then_some(())?;
    rewriter.finish();
    let elements = memc_ops::infer(&mut module).data;
    Some((out.with(module, elements), inputs))
}
