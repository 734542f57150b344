//! Information on values in the new model: types in `value_info`, and the places that the plan gives
//! them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use memc_ir::{AliasKind, ElementType, Module, Value, ValueType};
use memc_onnx_proto::onnx::{StringStringEntryProto, ValueInfoProto};
use memc_onnx_proto::{GraphEdit, METADATA_PREFIX, Metadata};
use memc_ops::profile;

use crate::ExportOptions;
use crate::encode::Source;
use crate::hidden;
use crate::nodes::entries;
use crate::transfers::DOMAIN;
use crate::types::{Agreement, compare, open_extents};

/// Fills in dropped and new `value_info` entries and the metadata of values.
pub(crate) fn describe(source: Source<'_>, options: &ExportOptions, edit: &mut GraphEdit) {
    let (module, graph) = (source.module, source.file.graph());
    let main = module.graph(module.main());
    let stated: BTreeMap<&str, &ValueInfoProto> =
        graph.value_info.iter().map(|info| (info.name(), info)).collect();
    let inputs = graph.input.iter().map(|info| info.name());
    let outputs = graph
        .output
        .iter()
        .map(|info| info.name())
        .filter(|name| !options.interface.removed_outputs.contains(*name));
    let added = options.interface.added_outputs.iter().map(String::as_str);
    let interface: BTreeSet<&str> = inputs.chain(outputs).chain(added).collect();
    let is_bound = !module.dims.is_empty() || has_fixed_inputs(source);
    if is_bound {
        bind_interface(source, edit);
    }
    change_inputs(source, options, edit);
    change_outputs(source, options, edit);
    let hides = hidden::hides(module);
    // Decide for each result whether its old entry is dropped and a new one added.
    let mut written: BTreeSet<&str> = BTreeSet::new();
    for value in main.nodes.iter().flat_map(|node| module.node(*node).results()) {
        let (name, ty) = (source.name(value), module.ty(value));
        if interface.contains(name) {
            continue;
        }
        let entry = stated.get(name).copied();
        if wrong_in_place(module, value) {
            edit.dropped_values.extend(entry.map(|_| name.to_owned()));
            written.insert(name);
            continue;
        }
        let fixed = is_fixed(ty) && !is_away(module, value);
        if hides && fixed && hidden::can_hide(ty) {
            let metadata = if options.metadata { place(module, value) } else { Metadata::new() };
            edit.dropped_values.extend(entry.map(|_| name.to_owned()));
            edit.new_values.push(new_entry(hidden::entry(source, value), entry, options, metadata));
            written.insert(name);
            continue;
        }
        let agreement = entry.map(|entry| compare(entry.r#type.as_ref(), ty));
        let (drop, add) = match agreement {
            Some(Agreement::Vaguer) if is_bound && !is_away(module, value) && bind(name, entry, ty, edit) => {
                (false, false)
            }
            None => (false, options.value_info && fixed),
            Some(Agreement::Fits) => (false, false),
            Some(Agreement::Vaguer) => (options.value_info && fixed, options.value_info && fixed),
            Some(Agreement::Contradicts) => (true, true),
        };
        if drop {
            edit.dropped_values.insert(name.to_owned());
        }
        if add {
            let metadata = if options.metadata { place(module, value) } else { Metadata::new() };
            edit.new_values.push(new_entry(source.value_info(value), entry, options, metadata));
        }
        if drop || add {
            written.insert(name);
        }
    }
    edit.dropped_values.extend(gone(source, &stated));
    if options.metadata {
        annotate(source, &stated, &written, edit);
    }
}

/// Whether the module knows an extent that an input of the file leaves open: that of a buffer.
fn has_fixed_inputs(source: Source<'_>) -> bool {
    let main = source.module.graph(source.module.main());
    let stated: BTreeMap<&str, &ValueInfoProto> =
        source.file.graph().input.iter().map(|info| (info.name(), info)).collect();
    main.inputs.iter().any(|input| {
        let entry = stated.get(source.name(*input)).and_then(|info| info.r#type.as_ref());
        entry.is_some_and(|entry| open_extents(entry, source.module.ty(*input)).is_some())
    })
}

/// Writes bound extents into inputs and outputs: a plan for bound dimensions is wrong for other extents,
/// and the runtime then rejects these.
fn bind_interface(source: Source<'_>, edit: &mut GraphEdit) {
    let (module, graph) = (source.module, source.file.graph());
    let main = module.graph(module.main());
    let known: BTreeMap<&str, Value> =
        main.inputs.iter().chain(&main.outputs).map(|value| (source.name(*value), *value)).collect();
    for info in graph.input.iter().chain(&graph.output) {
        if let Some(value) = known.get(info.name()) {
            bind(info.name(), Some(info), module.ty(*value), edit);
        }
    }
}

/// Writes the extents of inputs that a pass changed, drops removed inputs, and appends added ones.
fn change_inputs(source: Source<'_>, options: &ExportOptions, edit: &mut GraphEdit) {
    let (module, graph) = (source.module, source.file.graph());
    let main = module.graph(module.main());
    let stated: BTreeMap<&str, &ValueInfoProto> =
        graph.input.iter().map(|info| (info.name(), info)).collect();
    edit.dropped_inputs.extend(options.interface.removed_inputs.iter().cloned());
    for input in &main.inputs {
        let (name, ty) = (source.name(*input), module.ty(*input));
        // An added input may be a weight that an old file also lists as an input.
        match stated.get(name).filter(|_| !options.interface.added_inputs.contains(name)) {
            Some(info) if compare(info.r#type.as_ref(), ty) == Agreement::Contradicts => {
                let dims = ty.tensor().and_then(|ty| ty.known_dims()).unwrap_or_default();
                let extents = dims.iter().map(|extent| i64::try_from(*extent).ok()).collect();
                edit.value_dims.insert(name.to_owned(), extents);
            }
            Some(_) => {}
            None => {
                let metadata = if options.metadata { place(module, *input) } else { Metadata::new() };
                let old = stated.get(name).copied();
                edit.dropped_inputs.extend(old.map(|_| name.to_owned()));
                edit.new_inputs.push(new_entry(source.value_info(*input), old, options, metadata));
            }
        }
    }
}

/// Writes the extents of changed outputs, drops the entries of removed ones, and appends those of added ones.
/// An added output needs no entry in `value_info` any more.
fn change_outputs(source: Source<'_>, options: &ExportOptions, edit: &mut GraphEdit) {
    let (module, interface) = (source.module, &options.interface);
    edit.dropped_outputs.extend(interface.removed_outputs.iter().cloned());
    for output in &module.graph(module.main()).outputs {
        let shape = module.ty(*output).tensor().and_then(|ty| ty.shape.as_ref());
        if let Some(dims) = shape.filter(|_| interface.changed_outputs.contains(source.name(*output))) {
            let extents =
                dims.iter().map(|dim| dim.known().and_then(|extent| i64::try_from(extent).ok())).collect();
            edit.value_dims.insert(source.name(*output).to_owned(), extents);
        }
    }
    for output in &module.graph(module.main()).outputs {
        let name = source.name(*output);
        if !interface.added_outputs.contains(name) {
            continue;
        }
        let old = source.file.graph().value_info.iter().find(|info| info.name() == name);
        edit.dropped_values.extend(old.map(|_| name.to_owned()));
        let metadata = if options.metadata { place(module, *output) } else { Vec::new() };
        edit.new_outputs.push(new_entry(source.value_info(*output), old, options, metadata));
    }
}

/// Writes the extents that an entry leaves open and the module knows; returns whether there are any.
fn bind(name: &str, entry: Option<&ValueInfoProto>, ty: &ValueType, edit: &mut GraphEdit) -> bool {
    let extents = entry.and_then(|entry| open_extents(entry.r#type.as_ref()?, ty));
    extents.map(|extents| edit.value_dims.insert(name.to_owned(), extents)).is_some()
}

/// Whether a value is a tensor in another space. A runtime's own kernel may return a token of another
/// shape for it.
fn is_away(module: &Module, value: Value) -> bool {
    let producer = module.producer(value).map(|node| &module.node(node).operator);
    producer.is_some_and(|operator| &*operator.domain == DOMAIN && &*operator.name == "SwapOut")
}

/// Whether a session that knows the extents of a value computes it in place, and wrongly.
fn wrong_in_place(module: &Module, value: Value) -> bool {
    module.producer(value).is_some_and(|node| profile::wrong_in_place(&module.node(node).operator))
}

/// Whether a type is a dense tensor of known element type and extents.
fn is_fixed(ty: &ValueType) -> bool {
    ty.tensor()
        .is_some_and(|tensor| tensor.known_dims().is_some() && tensor.element != ElementType::Undefined)
}

/// Returns the entry that replaces an older one; it takes over the older entry's description and foreign
/// metadata.
fn new_entry(
    fresh: ValueInfoProto,
    old: Option<&ValueInfoProto>,
    options: &ExportOptions,
    metadata: Metadata,
) -> ValueInfoProto {
    let mut new = fresh;
    if let Some(old) = old {
        new.doc_string.clone_from(&old.doc_string);
        new.metadata_props.clone_from(&old.metadata_props);
    }
    if options.metadata {
        new.metadata_props.retain(|entry| !is_own(entry));
        new.metadata_props.extend(entries(metadata));
    }
    new
}

fn is_own(entry: &StringStringEntryProto) -> bool {
    entry.key().starts_with(METADATA_PREFIX)
}

/// Returns the names of entries whose value a node of the file produces but the module no longer has.
/// Entries for other names stay.
fn gone(source: Source<'_>, stated: &BTreeMap<&str, &ValueInfoProto>) -> BTreeSet<String> {
    let alive: BTreeSet<&str> = main_values(source.module).map(|value| source.name(value)).collect();
    let produced = source.file.graph().node.iter().flat_map(|node| &node.output);
    let gone = produced.filter(|name| stated.contains_key(name.as_str()) && !alive.contains(name.as_str()));
    gone.cloned().collect()
}

/// Iterates over all values of the main graph: inputs, constants, results.
pub(crate) fn main_values(module: &Module) -> impl Iterator<Item = Value> + '_ {
    let main = module.graph(module.main());
    let results = main.nodes.iter().flat_map(|node| module.node(*node).results());
    main.inputs.iter().chain(&main.constants).copied().chain(results)
}

/// Returns a name that does not identify exactly one value of the main graph, or `None` if every name
/// does.
pub(crate) fn ambiguous_name(module: &Module) -> Option<String> {
    let mut seen = HashSet::new();
    let name = |value| module.value(value).name.as_str();
    main_values(module).map(name).find(|name| name.is_empty() || !seen.insert(*name)).map(str::to_owned)
}

/// Collects metadata for the entries that stay. It replaces the metadata of an earlier plan, also by
/// nothing.
fn annotate(
    source: Source<'_>,
    stated: &BTreeMap<&str, &ValueInfoProto>,
    written: &BTreeSet<&str>,
    edit: &mut GraphEdit,
) {
    let graph = source.file.graph();
    let planned: BTreeMap<&str, Metadata> =
        main_values(source.module).map(|value| (source.name(value), place(source.module, value))).collect();
    let stays = |name: &str| !written.contains(name) && !edit.dropped_values.contains(name);
    let kept = stated.values().copied().filter(|info| stays(info.name()));
    let mut metadata = BTreeMap::new();
    let inputs = graph.input.iter().filter(|info| !edit.dropped_inputs.contains(info.name()));
    let outputs = graph.output.iter().filter(|info| !edit.dropped_outputs.contains(info.name()));
    for info in kept.chain(inputs).chain(outputs) {
        let new = planned.get(info.name()).cloned().unwrap_or_default();
        if !new.is_empty() || info.metadata_props.iter().any(is_own) {
            metadata.insert(info.name().to_owned(), new);
        }
    }
    edit.value_metadata = metadata;
}

/// Returns the plan's decisions on a value, as metadata.
fn place(module: &Module, value: Value) -> Metadata {
    let plan = &module.plan;
    let mut metadata = Metadata::new();
    let (owner, within) = plan.owner(value);
    if let Some(storage) = plan.storage[owner] {
        if let Some(space) = plan.spaces.get(storage.space) {
            metadata.push(("memc.space".to_owned(), space.name.clone()));
        }
        metadata.push(("memc.offset".to_owned(), storage.offset.saturating_add(within).0.to_string()));
    }
    if let Some(alias) = plan.alias[value] {
        let kind = match alias.kind {
            AliasKind::View => "view",
            AliasKind::InPlace => "in_place",
        };
        metadata.push(("memc.alias_of".to_owned(), module.value(alias.of).name.clone()));
        metadata.push(("memc.alias_kind".to_owned(), kind.to_owned()));
    }
    metadata
}
