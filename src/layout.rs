//! Contents of the layout file of a planned module.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{
    Alias, AliasKind, Attribute, Definition, DimExpr, Module, Nanos, Node, SecondaryMap, SpaceData, Storage,
    Value, ValueType,
};
use memc_layout as file;
use memc_onnx_export::{Exported, is_anchor, written};
use memc_ops::families::memory::{Transfer, part_of_constant, transfer_of};
use memc_passes::analysis::open::largest_peak;
use memc_passes::analysis::scratch::scratch_expr;
use memc_passes::analysis::state::{Reason, StatePair, shared, unpaired};
use memc_passes::analysis::windows::{KnownData, SubView, first_byte, windows};
use memc_passes::analysis::{self, Liveness, Memory, StorageClass};
use memc_passes::buffer::GrownCache;
use memc_passes::parallel::Engines;
use memc_passes::{Claims, Encoded, Io, LastRow, NewOutput, Options, Replaced, StatedNode};

use crate::encoded_weights::encoded_weights;

/// Contents of the layout beside the plan itself.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// Options of planning.
    pub options: &'a Options,
    /// The options as the user gave them.
    pub stated: &'a BTreeMap<String, String>,
    /// Hash of the input file.
    pub input_sha256: String,
    /// Hash of the written model.
    pub output_sha256: String,
    /// Budgets by space.
    pub budget: BTreeMap<String, u64>,
    /// Peak of the input model in file order, as a reader of both files can derive it.
    pub file_order_peak: u64,
    /// Peak of the input model in file order with all workspace, also of nodes without a unique name.
    pub own_peak: u64,
    /// Dimensions that equal expressions over free dimensions.
    pub equal: BTreeMap<String, String>,
    /// Bytes of all constants of the input model.
    pub weights: u64,
    /// Nodes of the input file's main graph.
    pub nodes_before: u64,
    /// Lower bound of the extra time of every plan within the budget, as a share of the whole time.
    pub overhead_lower_bound: Option<f64>,
    /// How the searches behind the plan ended.
    pub solvers: Vec<file::Solver>,
    /// How the plan was found.
    pub trace: Option<file::Trace>,
    /// Other budgets, with arena and time of their plans.
    pub pareto: Vec<file::ParetoPoint>,
    /// Engines of the steps; `None` for one engine.
    pub engines: Option<&'a Engines>,
    /// What the passes promise about their changes.
    pub claims: &'a Claims,
    /// The input as imported, for modelled cost.
    pub given: &'a Module,
}

/// An output that the input model does not have.
fn added_output(output: &NewOutput) -> file::AddedOutput {
    let node = |node: &StatedNode| file::AddedNode {
        op: node.operator.name.to_string(),
        domain: node.operator.domain.to_string(),
        inputs: node.inputs.clone(),
        outputs: node.outputs.clone(),
        attributes: node
            .attributes
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), attribute(value)?)))
            .collect(),
    };
    file::AddedOutput {
        name: output.name.clone(),
        by: output.by.to_owned(),
        nodes: output.nodes.iter().map(node).collect(),
    }
}

/// An output of which the written model has only the last row.
fn last_row(row: &LastRow) -> file::LastRow {
    file::LastRow { output: row.output.clone(), whole: row.whole.clone(), axis: row.axis as u64 }
}

/// The value of an attribute; `None` for kinds that claims do not have.
fn attribute(value: &Attribute) -> Option<file::Attribute> {
    let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(match value {
        Attribute::Int(number) => file::Attribute::Int(*number),
        Attribute::Float(number) => file::Attribute::Float(*number),
        Attribute::String(bytes) => file::Attribute::String(text(bytes)),
        Attribute::Ints(numbers) => file::Attribute::Ints(numbers.clone()),
        Attribute::Floats(numbers) => file::Attribute::Floats(numbers.clone()),
        Attribute::Strings(all) => file::Attribute::Strings(all.iter().map(text).collect()),
        _ => return None,
    })
}

/// The layout of a planned module that was written as `exported`.
pub(crate) fn layout(module: &Module, exported: &Exported, context: &Context<'_>) -> file::Layout {
    let writer = Writer::new(module, exported, context);
    let tensors = writer.tensors();
    let weights =
        tensors.iter().filter(|tensor| tensor.class == file::Class::Constant && tensor.alias.is_none());
    let weights =
        weights.map(|tensor| tensor.bytes).fold(analysis::body_constants(module).0, u64::saturating_add);
    let mut layout = file::Layout {
        schema: file::VERSION.to_owned(),
        memc_version: env!("CARGO_PKG_VERSION").to_owned(),
        options: context.stated.clone(),
        model: writer.model(),
        target: writer.target(),
        io: match context.options.io {
            Io::Outputs => file::Io::Outputs,
            Io::Arena => file::Io::Arena,
            Io::External => file::Io::External,
        },
        budget: context.budget.clone(),
        arenas: writer.arenas(),
        schedule: writer.schedule(),
        tensors,
        sync: writer.sync(),
        transfers: writer.transfers(),
        unplanned: writer.unplanned(),
        subgraphs: writer.subgraphs(),
        peak: BTreeMap::new(),
        lower_bound: BTreeMap::new(),
        weights,
        baseline: writer.baseline(),
        cost: writer.cost(),
        timeline: writer.timeline(),
        solvers: context.solvers.clone(),
        trace: context.trace.clone(),
        pareto: context.pareto.clone(),
        rewrites: writer.rewrites(),
        state: writer.state(),
        unpaired: writer.unpaired(),
        fetches: writer.fetches(),
        caches: writer.caches(),
        added_outputs: context.claims.outputs().map(added_output).collect(),
        last_rows: context.claims.last_rows().map(last_row).collect(),
        stated: writer.stated(),
        encodings: writer.encodings(),
        encoded_weights: encoded_weights(module, context.claims),
        formula: BTreeMap::new(),
        layouts: Vec::new(),
    };
    if !layout.model.ranges.is_empty() {
        layout.formula = file::formula(&layout);
    }
    layout.cost.modelled_ns_after = layout.timeline.iter().map(|busy| busy.end_ns).max().unwrap_or(0) as f64;
    // Peaks and bounds are derived from the layout itself, as its readers derive them.
    let profile = file::LiveCurve::of(&layout);
    for space in &profile.spaces {
        let is_first = space.space == context.options.space.name;
        let open = is_first && layout.unplanned.iter().any(|row| is_counted(row, layout.io));
        let at_most = open.then(|| largest_peak(module, context.options, &space.live_bytes)).flatten();
        let peak =
            file::Peak { bytes: space.peak, step: space.peak_step, at_most: at_most.map(|bytes| bytes.0) };
        layout.peak.insert(space.space.clone(), peak);
    }
    layout.lower_bound = writer.lower_bounds(&layout);
    layout
}

/// Returns the arenas of a planned module, and the offset of each tensor that owns bytes in one.
pub(crate) fn offsets(
    module: &Module,
    exported: &Exported,
    context: &Context<'_>,
) -> (Vec<file::Arena>, BTreeMap<String, u64>) {
    let writer = Writer::new(module, exported, context);
    let owners = writer.tensors().into_iter().filter(|tensor| tensor.alias.is_none());
    let offsets = owners.filter_map(|tensor| Some((tensor.name, tensor.offset?))).collect();
    (writer.arenas(), offsets)
}

/// Whether the arena would hold a value if it had a size.
fn is_counted(row: &file::Unplanned, io: file::Io) -> bool {
    row.class.is_some_and(|class| io.holds(class))
}

struct Writer<'a> {
    module: &'a Module,
    exported: &'a Exported,
    context: &'a Context<'a>,
    classes: SecondaryMap<Value, Option<StorageClass>>,
    liveness: Liveness,
    position: SecondaryMap<Node, u64>,
    /// State that shares storage with its new value.
    shared: Vec<StatePair>,
    /// Elements of small tensors, for modules with free dimensions.
    data: KnownData,
    /// Possible sub-views, for modules with free dimensions.
    views: Vec<SubView>,
}

impl<'a> Writer<'a> {
    fn new(module: &'a Module, exported: &'a Exported, context: &'a Context<'a>) -> Self {
        let mut position = SecondaryMap::default();
        for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
            position.set(*node, index as u64);
        }
        let Memory { liveness, classes, .. } = Memory::of(module, context.options);
        let shared =
            if context.options.shares_state() { shared(module, context.options) } else { Vec::new() };
        let data = if module.domain().is_empty() {
            KnownData::default()
        } else {
            memc_ops::infer(&mut module.clone()).data
        };
        let views = if module.domain().is_empty() { Vec::new() } else { windows(module, &data) };
        Self { module, exported, context, classes, liveness, position, shared, data, views }
    }

    fn model(&self) -> file::Model {
        // As written: nodes of inlined functions may bring operator sets that the file does not import.
        let opsets: BTreeSet<&(String, i64)> = self.exported.opset_imports.iter().collect();
        file::Model {
            input_sha256: self.context.input_sha256.clone(),
            output_sha256: self.context.output_sha256.clone(),
            ir_version: u64::try_from(self.exported.ir_version).unwrap_or(0),
            opset_imports: opsets
                .into_iter()
                .map(|(domain, version)| file::OpsetImport {
                    domain: domain.clone(),
                    version: u64::try_from(*version).unwrap_or(0),
                })
                .collect(),
            dims: self.module.dims.clone(),
            bound: !self.module.dims.is_empty(),
            ranges: self.ranges(),
            limits: self
                .module
                .domain()
                .limits
                .iter()
                .map(|limit| file::Limit { of: limit.of.quoted(), most: limit.most })
                .collect(),
            equal: self.context.equal.clone(),
        }
    }

    /// Extents of the free dimensions.
    fn ranges(&self) -> BTreeMap<String, file::Extents> {
        let ranges = self.module.domain().ranges.iter();
        let bounded =
            ranges.filter_map(|(name, range)| Some((name.clone(), (range.min, range.max?, range.step))));
        bounded.map(|(name, (min, max, step))| (name, file::Extents { min, max, step })).collect()
    }

    fn target(&self) -> file::Target {
        let options = self.context.options;
        let target = &options.cost.target;
        let described: Vec<&SpaceData> = std::iter::once(&options.space).chain(&options.farther).collect();
        // A plan that was read in may lie in spaces of its own.
        let own = self.module.plan.spaces.iter().map(|(_, space)| space);
        let own = own.filter(|space| !described.iter().any(|known| known.name == space.name));
        let space = |space: &SpaceData| file::Space {
            name: space.name.clone(),
            capacity: space.capacity.map(|bytes| bytes.0),
            alignment: space.alignment,
            access: target.space(&space.name).and_then(|index| target.spaces.get(index)?.access),
        };
        let link = |link: &memc_cost::Link| {
            let name =
                |index: usize| target.spaces.get(index).map(|space| space.name.clone()).unwrap_or_default();
            file::Link {
                from: name(link.from),
                to: name(link.to),
                bytes_per_second: link.bytes_per_second,
                latency_ns: link.latency.0,
            }
        };
        file::Target {
            name: target.name.clone(),
            spaces: described.iter().copied().chain(own).map(space).collect(),
            links: target.links.iter().map(link).collect(),
        }
    }

    fn arenas(&self) -> Vec<file::Arena> {
        let plan = &self.module.plan;
        let arena = |arena: &memc_ir::ArenaSize| {
            let space = &plan.spaces[arena.space];
            file::Arena { space: space.name.clone(), size: arena.size.0, alignment: space.alignment }
        };
        plan.arenas.iter().map(arena).collect()
    }

    fn schedule(&self) -> Vec<file::ScheduledNode> {
        let nodes = &self.module.graph(self.module.main()).nodes;
        nodes
            .iter()
            .enumerate()
            .map(|(step, node)| {
                let data = self.module.node(*node);
                let operator = written(&data.operator);
                let name = |value: &Option<Value>| {
                    value.map(|value| self.module.value(value).name.clone()).unwrap_or_default()
                };
                file::ScheduledNode {
                    step: step as u64,
                    node: self.exported.node_names[*node].clone(),
                    op: operator.name.to_string(),
                    domain: operator.domain.to_string(),
                    engine: self.engine(step),
                    anchor: is_anchor(self.module, *node),
                    reads: data.inputs.iter().map(name).collect(),
                    writes: data.outputs.iter().map(name).collect(),
                }
            })
            .collect()
    }

    /// Engine of a step; `None` if the plan has one engine.
    fn engine(&self, step: usize) -> Option<u64> {
        self.context.engines?.engines.get(step).map(|engine| u64::from(*engine))
    }

    /// Waits between engines.
    fn sync(&self) -> Vec<file::Sync> {
        let waits = self.context.engines.iter().flat_map(|engines| &engines.waits);
        waits.map(|wait| file::Sync { step: wait.step.into(), after: wait.after.into() }).collect()
    }

    /// Values of the main graph that the written file names: inputs, initializers, results.
    fn values(&self) -> impl Iterator<Item = Value> {
        let main = self.module.main();
        self.module.values().iter().filter_map(move |(value, data)| match data.definition {
            Definition::Input(graph, _) | Definition::Constant(graph, _) => (graph == main).then_some(value),
            Definition::Result(node, _) => {
                (self.module.node(node).graph == main && self.is_scheduled(node)).then_some(value)
            }
            Definition::Erased => None,
        })
    }

    fn is_scheduled(&self, node: Node) -> bool {
        let nodes = &self.module.graph(self.module.main()).nodes;
        nodes.get(self.position[node] as usize) == Some(&node)
    }

    fn tensors(&self) -> Vec<file::Tensor> {
        let mut tensors: Vec<file::Tensor> = self.values().filter_map(|value| self.tensor(value)).collect();
        let mut count: BTreeMap<Node, usize> = BTreeMap::new();
        for scratch in &self.module.plan.scratch {
            let node = &self.exported.node_names[scratch.node];
            let index = count.entry(scratch.node).or_default();
            let name =
                if scratch.body { format!("scratch:{node}:body") } else { format!("scratch:{node}:{index}") };
            *index += usize::from(!scratch.body);
            let step = self.position[scratch.node];
            let (space, offset) = self.place(scratch.storage);
            let bytes_expr = scratch_expr(self.module, scratch, self.context.options).map(|of| of.quoted());
            tensors.push(file::Tensor {
                name,
                dtype: "uint8".to_owned(),
                shape: vec![scratch.bytes.0],
                bytes: scratch.bytes.0,
                shape_expr: bytes_expr.clone().map(|of| vec![of]),
                bytes_expr,
                class: file::Class::Scratch,
                space,
                offset,
                live: vec![file::LiveRange { start: step, end: step + 1 }],
                alias: None,
                recompute_of: None,
                step: Some(step),
            });
        }
        tensors
    }

    fn tensor(&self, value: Value) -> Option<file::Tensor> {
        let data = self.module.value(value);
        let ty = self.module.planned(value)?;
        let (shape, bytes) = (ty.known_dims()?, self.module.size(value)?.0);
        let (space, offset) = self.place(self.module.plan.storage[value]);
        let range = self.liveness.range(value)?;
        let live = file::LiveRange { start: u64::from(range.start.0), end: u64::from(range.end.0) };
        let is_live = live.start < live.end;
        let alias = self.module.plan.alias[value].map(|alias| file::Alias {
            of: self.module.value(alias.of).name.clone(),
            kind: match alias.kind {
                AliasKind::View => file::AliasKind::View,
                AliasKind::InPlace => file::AliasKind::InPlace,
            },
            alias_offset: alias.offset.0,
            alias_offset_expr: self.alias_offset_expr(value, alias),
        });
        let (shape_expr, bytes_expr) = self.expressions(value).unwrap_or_default();
        let class = self.class(value)?;
        Some(file::Tensor {
            name: data.name.clone(),
            dtype: ty.element.onnx_name().to_owned(),
            shape,
            bytes,
            shape_expr,
            bytes_expr,
            class,
            space,
            offset,
            live: if is_live { vec![live] } else { Vec::new() },
            alias,
            recompute_of: self.recompute_of(value),
            step: None,
        })
    }

    /// Shape and size of a value as expressions, if they depend on free dimensions. A size with too many
    /// terms is left out: it is the product of the shape.
    fn expressions(&self, value: Value) -> Option<(Option<Vec<String>>, Option<String>)> {
        let own = self.module.ty(value).tensor().filter(|tensor| tensor.known_dims().is_none())?;
        let is_assumed = self.module.assumed.contains_key(&value);
        let dims = own.shape.as_ref().filter(|_| !is_assumed)?;
        let shape = dims.iter().map(|dim| dim.expr().map(|of| of.quoted())).collect();
        Some((shape, own.size_expr().map(|size| size.quoted())))
    }

    /// First byte of a sub-view in its owner as an expression, if it depends on free dimensions.
    fn alias_offset_expr(&self, value: Value, alias: Alias) -> Option<String> {
        let views = self
            .views
            .iter()
            .filter(|view| view.part == value && view.whole == alias.of && view.offset == alias.offset);
        let at = views.filter_map(|view| first_byte(self.module, view, &self.data)).next()?;
        at.as_constant().is_none().then(|| at.quoted())
    }

    fn class(&self, value: Value) -> Option<file::Class> {
        Some(match self.classes[value]? {
            _ if self.shared.iter().any(|pair| pair.old == value) => file::Class::State,
            StorageClass::Constant => file::Class::Constant,
            StorageClass::Input | StorageClass::IdleInput => file::Class::Input,
            StorageClass::Output => file::Class::Output,
            StorageClass::Transient => file::Class::Transient,
        })
    }

    /// Values whose sizes the file or the user states.
    fn stated(&self) -> Vec<file::Stated> {
        let rows = self.values().filter(|value| self.module.size(*value).is_some()).filter_map(|value| {
            let by = match value {
                _ if self.module.assumed.contains_key(&value) => file::StatedBy::User,
                _ if self.module.claimed.contains(&value) => file::StatedBy::File,
                _ => return None,
            };
            Some(file::Stated { tensor: self.module.value(value).name.clone(), by })
        });
        rows.collect()
    }

    fn recompute_of(&self, value: Value) -> Option<String> {
        let Definition::Result(node, position) = self.module.value(value).definition else { return None };
        let original = self.module.node(node).recompute_of?;
        let result = self.module.node(original).outputs.get(position as usize).copied().flatten()?;
        Some(self.module.value(result).name.clone())
    }

    fn place(&self, storage: Option<Storage>) -> (Option<String>, Option<u64>) {
        match storage {
            Some(storage) => {
                (Some(self.module.plan.spaces[storage.space].name.clone()), Some(storage.offset.0))
            }
            None => (None, None),
        }
    }

    /// Pairs of a node that sends a value away and one that fetches it, in the order of the latter.
    fn transfers(&self) -> Vec<file::Transfer> {
        let near = &self.context.options.space.name;
        let nodes = &self.module.graph(self.module.main()).nodes;
        let pairs = nodes.iter().filter_map(|load| {
            let far = self.moved(*load, Transfer::In)?.0;
            let store = self.module.producer(far)?;
            let (tensor, _) = self.moved(store, Transfer::Out)?;
            let (_, result) = self.moved(*load, Transfer::In)?;
            Some(file::Transfer {
                tensor: self.module.value(tensor).name.clone(),
                result: self.module.value(result).name.clone(),
                from: near.clone(),
                to: self.place(self.module.plan.storage[far]).0?,
                store_step: self.position[store],
                load_step: self.position[*load],
                bytes: self.module.size(tensor)?.0,
            })
        });
        pairs.collect()
    }

    /// Operand and result of a transfer.
    fn moved(&self, node: Node, way: Transfer) -> Option<(Value, Value)> {
        let data = self.module.node(node);
        let is_it = transfer_of(&data.operator) == Some(way);
        data.operands().next().zip(data.results().next()).filter(|_| is_it)
    }

    fn state(&self) -> Vec<file::StateUpdate> {
        let name = |value: Value| self.module.value(value).name.clone();
        self.shared
            .iter()
            .map(|pair| file::StateUpdate { tensor: name(pair.old), result: name(pair.new) })
            .collect()
    }

    /// Caches that are kept in one buffer.
    fn caches(&self) -> Vec<file::Cache> {
        let ranges = &self.module.domain().ranges;
        let most = |of: &DimExpr| of.upper_bound(ranges).and_then(|most| u64::try_from(most).ok());
        let row = |cache: &GrownCache| file::Cache {
            input: cache.input.clone(),
            output: cache.output.clone(),
            axis: cache.axis as u64,
            capacity: cache.capacity,
            rows: cache.rows,
            rows_expr: cache.rows_expr.as_ref().map(DimExpr::quoted),
            count: cache.count.clone(),
            grows: cache.grows.iter().filter_map(|(name, of)| Some((name.clone(), most(of)?))).collect(),
        };
        self.context.claims.caches().map(row).collect()
    }

    /// Outputs that share no storage with state although requested, with the reason of each.
    fn unpaired(&self) -> Vec<file::Unpaired> {
        let options = self.context.options;
        if !options.shares_state() {
            return Vec::new();
        }
        let row = |open: analysis::state::Unpaired| {
            let (near, reason) = match open.reason {
                Reason::Ambiguous(near) => (near, "equally near to several inputs"),
                Reason::Taken(near) => (near, "its inputs have nearer outputs"),
                Reason::StillRead(old) => (vec![old], "the old value is still read"),
            };
            let name = |value: Value| self.module.value(value).name.clone();
            file::Unpaired {
                result: name(open.new),
                candidates: near.into_iter().map(name).collect(),
                reason: reason.to_owned(),
            }
        };
        unpaired(self.module, options).into_iter().map(row).collect()
    }

    /// Constants that are copied from a farther space, in the order in which they are.
    fn fetches(&self) -> Vec<file::Fetch> {
        let nodes = &self.module.graph(self.module.main()).nodes;
        let rows = nodes.iter().filter_map(|node| {
            let (constant, near) =
                self.moved(*node, Transfer::Fetch).or_else(|| self.moved(*node, Transfer::Rows))?;
            Some(file::Fetch {
                tensor: self.module.value(constant).name.clone(),
                result: self.module.value(near).name.clone(),
                from: self.module.node(*node).string("from")?.to_owned(),
                to: self.context.options.space.name.clone(),
                step: self.position[*node],
                bytes: self.module.size(near)?.0,
                part: self.fetched_part(*node),
                rows: self.fetched_rows(*node),
            })
        });
        rows.collect()
    }

    fn fetched_part(&self, node: Node) -> Option<file::FetchedPart> {
        let part = part_of_constant(self.module, node)?;
        Some(file::FetchedPart {
            axis: part.axis as u64,
            start: part.positions.start,
            end: part.positions.end,
        })
    }

    fn fetched_rows(&self, node: Node) -> Option<file::FetchedRows> {
        let data = self.module.node(node);
        let indices = data
            .inputs
            .get(1)
            .copied()
            .flatten()
            .filter(|_| transfer_of(&data.operator) == Some(Transfer::Rows))?;
        let count = self.module.planned(indices)?.elements()?;
        Some(file::FetchedRows { indices: self.module.value(indices).name.clone(), count })
    }

    fn unplanned(&self) -> Vec<file::Unplanned> {
        let open = self.values().filter(|value| self.module.size(*value).is_none());
        open.map(|value| {
            let reason = match self.module.ty(value) {
                ValueType::Tensor(tensor) if tensor.element.bits().is_none() => {
                    format!("elements of type {} have no fixed size", tensor.element)
                }
                ValueType::Tensor(tensor) => format!("nobody can derive the shape {tensor}"),
                ValueType::Unknown => "nobody can derive the type".to_owned(),
                other => format!("{other} is no dense tensor"),
            };
            file::Unplanned {
                name: self.module.value(value).name.clone(),
                reason,
                class: self.class(value),
                at_most: self.module.largest_size(value).map(|bytes| bytes.0),
            }
        })
        .collect()
    }

    /// Nodes that took over the work of others, and rewritten windows, numbered from 1, with those of their
    /// results that both models have a name for.
    fn rewrites(&self) -> Vec<file::Rewrite> {
        let names = |module: &Module| {
            module
                .values()
                .iter()
                .filter(|(_, data)| data.definition != Definition::Erased)
                .map(|(_, data)| data.name.clone())
                .collect::<BTreeSet<_>>()
        };
        let claims = &self.context.claims;
        if !claims.has_rewritten() && claims.joined().next().is_none() {
            return Vec::new();
        }
        let before = names(self.context.given);
        let after: BTreeSet<String> =
            self.values().map(|value| self.module.value(value).name.clone()).collect();
        let is_known =
            |(given, written): &&(String, String)| before.contains(given) && after.contains(written);
        let rewrite = |(number, window): (u64, &Replaced)| {
            let known = window.outputs.iter().filter(is_known);
            let pairs = known.map(|(given, written)| file::RewrittenValue {
                given: given.clone(),
                written: written.clone(),
            });
            file::Rewrite { window: number, rules: window.rules.clone(), outputs: pairs.collect() }
        };
        // What later rewriting took in as well is a part of its window.
        let joined = claims.joined().filter(|node| node.outputs.iter().any(|pair| is_known(&pair)));
        (1..).zip(joined.chain(claims.rewritten())).map(rewrite).collect()
    }

    /// Values that lie as codes, if the written model has all of their values.
    fn encodings(&self) -> Vec<file::Encoding> {
        let names: BTreeSet<&str> =
            self.values().map(|value| self.module.value(value).name.as_str()).collect();
        let is_written = |encoded: &&Encoded| {
            let all = encoded.codes.iter().chain([&encoded.of, &encoded.decoded]);
            all.into_iter().all(|name| names.contains(name.as_str()))
        };
        let row = |encoded: &Encoded| file::Encoding {
            of: encoded.of.clone(),
            code: encoded.codes.clone(),
            decoded: encoded.decoded.clone(),
            form: encoded.form.name().to_owned(),
            exact: encoded.form.is_exact(),
            error: encoded.form.error(),
        };
        self.context.claims.encoded().filter(is_written).map(row).collect()
    }

    fn subgraphs(&self) -> Vec<file::Subgraph> {
        let nodes = &self.module.graph(self.module.main()).nodes;
        let rows = nodes.iter().flat_map(|node| {
            let name = self.exported.node_names[*node].clone();
            let bodies = analysis::scratch::bodies(self.module, *node, self.context.options);
            bodies.into_iter().map(move |(graph, bytes)| file::Subgraph {
                node: name.clone(),
                graph,
                arena_bytes: bytes.0,
            })
        });
        rows.collect()
    }

    fn lower_bounds(&self, layout: &file::Layout) -> BTreeMap<String, file::LowerBound> {
        let plan = &self.module.plan;
        // Recomputation and transfers can need less than every order.
        let is_order = layout.cost.recomputed_nodes == 0 && layout.transfers.is_empty();
        let bounds = plan.arenas.iter().map(|arena| {
            let name = plan.spaces[arena.space].name.clone();
            let peak = layout.peak.get(&name).map_or(0, |peak| peak.bytes);
            let order =
                arena.order_lower_bound.map(|bound| if is_order { bound.0.min(peak) } else { bound.0 });
            let bound = file::LowerBound {
                placement: arena.lower_bound.0,
                order,
                order_proved: is_order && order == Some(peak),
                placement_proved: arena.lower_bound == arena.size,
            };
            (name, bound)
        });
        bounds.collect()
    }

    fn baseline(&self) -> file::Baseline {
        let name = self.context.options.space.name.clone();
        file::Baseline {
            file_order_peak: BTreeMap::from([(name.clone(), self.context.file_order_peak)]),
            own_peak: BTreeMap::from([(name, self.context.own_peak)]),
            weights: self.context.weights,
        }
    }

    /// When each step runs, in whole nanoseconds.
    fn timeline(&self) -> Vec<file::Busy> {
        if let Some(engines) = self.context.engines {
            return engines
                .spans
                .iter()
                .map(|(begin, end)| file::Busy { start_ns: *begin, end_ns: *end })
                .collect();
        }
        let spans = memc_cost::timeline(self.module, &self.context.options.cost);
        // Casts of floats are defined: they saturate, and NaN becomes 0.
        let whole = |time: Nanos| time.0.round() as u64;
        spans
            .into_iter()
            .map(|span| file::Busy { start_ns: whole(span.start), end_ns: whole(span.end) })
            .collect()
    }

    fn cost(&self) -> file::Cost {
        let nodes = &self.module.graph(self.module.main()).nodes;
        let recomputed = nodes.iter().filter(|node| self.module.node(**node).recompute_of.is_some());
        let extra = recomputed
            .clone()
            .filter_map(|node| memc_cost::flops(self.module, *node))
            .fold(0, u64::saturating_add);
        file::Cost {
            nodes_before: self.context.nodes_before,
            nodes_after: nodes.len() as u64,
            recomputed_nodes: recomputed.count() as u64,
            extra_flops: extra as f64,
            base_flops: memc_cost::total_flops(self.context.given) as f64,
            transferred_bytes: self.transfers().iter().map(|pair| pair.bytes).fold(0, u64::saturating_add),
            modelled_ns_before: self.context.options.cost.total_nanos(self.context.given).0.round(),
            // The end of the timeline, filled in below.
            modelled_ns_after: 0.0,
            modelled_error: self.context.options.cost.error(self.module),
            overhead_lower_bound: self.context.overhead_lower_bound,
        }
    }
}
