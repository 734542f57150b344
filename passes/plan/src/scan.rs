//! `scan`: computes the rows of a batch one after another, in the body of a Scan.

use std::borrow::Cow;
use std::collections::BTreeSet;

use memc_edit::{Maker, constant};
use memc_ir::{
    Alias, AliasKind, Attribute, Bytes, Dim, DimExpr, ElementType, GraphId, Module, Node, Plan, Range, Stage,
    TensorType, Value, ValueType,
};

use memc_passes::micro_batch::are_apart;
use memc_passes::{Changed, Claim, Io, Options, PassContext, PassError, PassInfo, PipelineError, Said};

use crate::model::{Model, Planned};
use crate::search::{Search, Wish};
use crate::tuning::Tuning;

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "scan",
    summary: "Computes the rows of a batch one after another, in the body of a Scan.",
    page: include_str!("../doc/scan.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// Free dimension in place of a fixed batch. No model has this name: it is no identifier.
const FREED: &str = "rows of the batch";
/// First version of ONNX's operator set in which Scan has no batch of its own.
const WITHOUT_A_BATCH: i64 = 9;
/// First version of ONNX's operator set in which the axes of Unsqueeze and Squeeze are operands.
const AXES_ARE_OPERANDS: i64 = 13;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let Some(rows) = rows(module, ctx).filter(|_| are_provable(&ctx.said)) else { return Ok(Changed::No) };
    let Some((mut row, said)) = planned_row(&rows, ctx)? else { return Ok(Changed::No) };
    let edits = enclose(&mut row, module, &rows);
    ctx.data = memc_ops::infer(&mut row).data;
    ctx.said.remarks.extend(said.remarks);
    ctx.said.claims.extend(said.claims);
    *module = row;
    Ok(Changed::edits(edits))
}

/// Returns whether the passes so far claim only what is provable of values in a body.
fn are_provable(said: &Said) -> bool {
    said.claims.clone().into_iter().all(|claim| matches!(claim, Claim::Rewritten(_) | Claim::Joined(_)))
}

/// Returns the plan of one row, with the order and the aliases of its values; `None` if there is none, or if
/// it changes more than nodes: what the plan claims must be provable of a row.
fn planned_row(rows: &Rows<'_>, ctx: &PassContext<'_>) -> Result<Option<(Module, Said)>, PassError> {
    let Rows { free, batch } = rows;
    let one = batch.as_symbol().map(|name| (name.to_owned(), 1));
    let mut row = free.at(&one.into_iter().collect());
    let data = memc_ops::infer(&mut row).data;
    // A row is the runtime's, also if the arena holds its input: no node may overwrite it.
    let io = if ctx.options.io == Io::Arena { Io::Outputs } else { ctx.options.io };
    let options = Options { pipelines: Vec::new(), io, ..ctx.options.clone() };
    let (external, memo) = (ctx.external, ctx.memo.apart());
    let model = Model {
        module: &row,
        data: &data,
        external,
        options: &options,
        transforms: &[],
        verify: false,
        memo,
    };
    let tuning = Tuning::default();
    let wish = Wish { limit: None, slowdown: 0 };
    let search = Search::new(&model, &tuning, wish, None, None);
    let found =
        search.and_then(|mut search| search.run().map(|()| search.pool.into_best())).map_err(|error| {
            match error {
                PipelineError::Pass(error) => error,
                other => PassError::WrongAnswer { pass: INFO.name, why: other.to_string() },
            }
        })?;
    ctx.memo.spend(model.memo.spent());
    let Some(Planned { module: mut planned, said, .. }) = found.filter(|found| are_provable(&found.said))
    else {
        return Ok(None);
    };
    planned.stage = Stage::Typed;
    planned.plan = Plan { alias: std::mem::take(&mut planned.plan.alias), ..free.plan.clone() };
    Ok(Some((planned, said)))
}

/// Returns whether this pass wrote the nodes of a module.
pub(crate) fn is_scanned(module: &Module) -> bool {
    memc_edit::has_made(module, INFO.name)
}

/// A module whose rows are apart.
struct Rows<'m> {
    /// The module with a free batch.
    free: Cow<'m, Module>,
    /// The batch, a symbol: a first extent of graph inputs.
    batch: DimExpr,
}

/// Returns the rows that are apart, of a free batch or else of a fixed one; `None` if there are none, or if
/// something else than operators ties rows.
fn rows<'m>(module: &'m Module, ctx: &PassContext<'_>) -> Option<Rows<'m>> {
    let options = ctx.options;
    let version = module.opsets.get("").copied().unwrap_or_default();
    let main = module.graph(module.main());
    let has_bodies = || main.nodes.iter().any(|node| module.node(*node).bodies().next().is_some());
    let has_farther = options.weights.is_some() || !options.farther.is_empty();
    if version < WITHOUT_A_BATCH
        || has_farther
        || options.shares_state()
        || !options.growing.is_empty()
        || has_bodies()
    {
        return None;
    }
    // Each result is one value that a node makes.
    let outputs: BTreeSet<Value> = main.outputs.iter().copied().collect();
    if outputs.len() < main.outputs.len() || outputs.iter().any(|value| module.producer(*value).is_none()) {
        return None;
    }
    let given = main.inputs.iter().filter(|input| module.value(**input).default.is_none());
    let (mut symbols, mut extents) = (BTreeSet::new(), BTreeSet::new());
    for first in given.filter_map(|input| dims(module, *input).first()) {
        match first {
            Dim::Symbolic(extent) if extent.as_symbol().is_some() => _ = symbols.insert(extent.clone()),
            Dim::Known(extent) if *extent > 1 => _ = extents.insert(*extent),
            _ => (),
        }
    }
    let is_free = |batch: &DimExpr| {
        has_rows_only(module, batch) && are_apart(module, &ctx.data, options.profile, batch)
    };
    if let Some(batch) = symbols.into_iter().find(is_free) {
        return Some(Rows { free: Cow::Borrowed(module), batch });
    }
    let batch = DimExpr::symbol(FREED);
    extents.into_iter().find_map(|extent| {
        let mut free = freed(module, extent, &batch);
        let data = memc_ops::infer(&mut free).data;
        (has_rows_only(&free, &batch) && are_apart(&free, &data, options.profile, &batch))
            .then(|| Rows { free: Cow::Owned(free), batch: batch.clone() })
    })
}

/// Returns a module whose graph inputs of a first extent have a free one instead, of at least one row; types
/// of results are left to inference.
fn freed(module: &Module, extent: u64, batch: &DimExpr) -> Module {
    let mut free = module.clone();
    free.forget_results();
    for input in &module.graph(module.main()).inputs {
        let Some(mut ty) = module.ty(*input).tensor().cloned() else { continue };
        let first = ty.shape.as_mut().and_then(|dims| dims.first_mut());
        if let Some(first) = first.filter(|first| first.known() == Some(extent)) {
            *first = Dim::Symbolic(batch.clone());
            free.set_type(*input, ValueType::Tensor(ty));
        }
    }
    let mut domain = module.domain().clone();
    domain.ranges.insert(FREED.to_owned(), Range { min: 1, max: Some(extent), step: 1 });
    free.set_domain(domain);
    free
}

/// Returns whether a free extent has at least one row, and is no other axis than the first one of graph
/// inputs and outputs.
fn has_rows_only(module: &Module, batch: &DimExpr) -> bool {
    let main = module.graph(module.main());
    let range = batch.as_symbol().and_then(|name| module.domain().ranges.get(name));
    let is_other = |dim: &Dim| match dim {
        Dim::Known(_) => true,
        dim => dim
            .upper_expr()
            .is_some_and(|extent| extent.symbols().iter().all(|name| batch.as_symbol() != Some(name))),
    };
    let is_batch = |dim: &Dim| matches!(dim, Dim::Symbolic(extent) if extent == batch);
    let fits = |value: &Value| match dims(module, *value).split_first() {
        Some((first, others)) => (is_batch(first) || is_other(first)) && others.iter().all(is_other),
        None => true,
    };
    range.is_some_and(|range| range.min > 0) && main.inputs.iter().chain(&main.outputs).all(fits)
}

/// The body of a Scan under construction.
struct Body<'m> {
    maker: Maker<'m>,
    graph: GraphId,
    /// The axis of rows, if Unsqueeze and Squeeze read it.
    axes: Option<Value>,
    /// Values with the bytes of others.
    views: Vec<(Value, Value)>,
}

impl<'m> Body<'m> {
    /// Moves all nodes of a module into a new body.
    fn of(module: &'m mut Module) -> Self {
        let main = module.main();
        let mut maker = Maker::new(module, INFO.name);
        let graph = maker.enclose(main, INFO.name);
        let axes = (maker.version >= AXES_ARE_OPERANDS).then(|| {
            let (name, ty) = (maker.fresh_name("axes"), TensorType::fixed(ElementType::Int64, &[1]));
            maker.initializer(graph, &name, constant(ty, vec![0; 8]))
        });
        Self { maker, graph, axes, views: Vec::new() }
    }

    /// Adds a row of an input of the main graph as a formal input, in place of the input. A runtime passes
    /// the row without a copy.
    fn read(&mut self, input: Value) {
        let before = self.maker.module().graph(self.graph).nodes.first().copied();
        let name = self.maker.name_after(input, "row");
        let row = self.maker.input(self.graph, &name, ValueType::Unknown);
        let name = self.maker.name_after(input, "one");
        if let Some(one) = self.turned("Unsqueeze", row, before, name) {
            self.maker.replace_uses(input, one);
            self.views.push((one, row));
        }
    }

    /// Returns the row of a result, which leaves its name to the result of the Scan.
    fn written(&mut self, output: Value) -> Option<Value> {
        let name = self.maker.name_after(output, "row");
        let row = self.turned("Squeeze", output, None, name);
        let name = self.maker.name_after(output, "one");
        self.maker.rename(output, name);
        self.views.extend(row.map(|row| (row, output)));
        row
    }

    /// Inserts a node that adds or drops the axis of rows.
    fn turned(&mut self, operator: &str, value: Value, before: Option<Node>, name: String) -> Option<Value> {
        let attribute = ("axes".to_owned(), Attribute::Ints(vec![0]));
        let attributes = if self.axes.is_none() { vec![attribute] } else { Vec::new() };
        let new = self.maker.onnx(operator, [value].into_iter().chain(self.axes), attributes);
        let node = self.maker.insert_into(self.graph, before, new, &[Some((name, ValueType::Unknown))]);
        self.maker.result(node)
    }
}

/// Puts the nodes of a module of one row into the body of a Scan over the rows of the module `whole`.
fn enclose(row: &mut Module, whole: &Module, rows: &Rows<'_>) -> u64 {
    row.set_domain(whole.domain().clone());
    let main = row.main();
    let (inputs, outputs) = (row.graph(main).inputs.clone(), row.graph(main).outputs.clone());
    for input in &inputs {
        row.set_type(*input, whole.ty(*input).clone());
    }
    let mut body = Body::of(row);
    let Rows { free, batch } = rows;
    let has_rows =
        |value: &Value| matches!(dims(free, *value).first(), Some(Dim::Symbolic(first)) if first == batch);
    let rows: Vec<Value> = inputs.into_iter().filter(has_rows).collect();
    rows.iter().for_each(|input| body.read(*input));
    let name = |value: &Value| (whole.value(*value).name.clone(), whole.ty(*value).clone());
    let names: Vec<_> = outputs.iter().map(|output| Some(name(output))).collect();
    let results = outputs.into_iter().filter_map(|output| body.written(output)).collect();
    let Body { mut maker, graph, views, .. } = body;
    maker.set_outputs(graph, results);
    let count = i64::try_from(rows.len()).unwrap_or_default();
    let attributes = vec![
        ("body".to_owned(), Attribute::Graph(graph)),
        ("num_scan_inputs".to_owned(), Attribute::Int(count)),
    ];
    let new = maker.onnx("Scan", rows, attributes);
    let scan = maker.insert(None, new, &names);
    let results = maker.module().node(scan).results().collect();
    maker.set_outputs(main, results);
    let edits = maker.finish();
    for (view, of) in views {
        row.plan.alias.set(view, Some(Alias { of, kind: AliasKind::View, offset: Bytes(0) }));
    }
    edits
}

fn dims(module: &Module, value: Value) -> &[Dim] {
    module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default()
}
