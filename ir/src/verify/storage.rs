//! Checks of storage: values are aligned, inside their arena and disjoint while live; arenas have
//! exactly the needed size.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::alias::Owners;
use super::live::Ranges;
use super::overlap::{Block, overlaps};
use super::structure::Tree;
use crate::entity::{GraphId, Node, SecondaryMap, Space, Value};
use crate::plan::Storage;
use crate::units::{Bytes, LiveRange, Step};

/// The value or scratch that occupies a block.
#[derive(Clone, Copy)]
enum Holder {
    Value(Value),
    Scratch(Node),
}

/// Blocks by graph and space; each body has its own arenas.
type Regions = BTreeMap<(GraphId, Space), Vec<(Block, Holder)>>;

/// Reports spaces without a unique name or without an alignment.
pub(super) fn check_spaces(report: &mut Report<'_>) {
    let mut names = BTreeSet::new();
    for (_, data) in report.module.plan.spaces.iter() {
        if data.alignment == 0 {
            report.plain("E0245", format!("the alignment of the space `@{}` is 0", data.name));
        }
        if !names.insert(data.name.as_str()) {
            report.plain("E0245", format!("two spaces have the name `@{}`", data.name));
        }
    }
}

/// Reports invalid storage and wrong arena sizes.
pub(super) fn check(report: &mut Report<'_>, tree: &Tree, ranges: &Ranges, owners: &Owners) {
    let module = report.module;
    let owner_ranges = owner_ranges(report, ranges, owners);
    let mut regions = Regions::new();
    for value in module.values.keys() {
        let Some(home) = module.home(value).filter(|home| tree.reaches(*home)) else { continue };
        if module.plan.alias[value].is_some() {
            check_alias_place(report, owners, value);
        } else if let Some(storage) = module.plan.storage[value] {
            let range = owner_ranges[value].unwrap_or_else(|| ranges.of(value));
            owner(report, &mut regions, home, value, storage, range);
        }
    }
    scratch(report, tree, &mut regions);
    let bodies = body_rooms(report);
    for ((graph, space), blocks) in &regions {
        check_room(report, &bodies, *graph, *space, blocks);
        check_apart(report, *space, blocks);
    }
    check_arenas(report, &regions);
}

/// Joins the live ranges of each owner and its aliases; `None` for an owner without aliases.
fn owner_ranges(
    report: &Report<'_>,
    ranges: &Ranges,
    owners: &Owners,
) -> SecondaryMap<Value, Option<LiveRange>> {
    let mut hulls: SecondaryMap<Value, Option<LiveRange>> = SecondaryMap::default();
    for value in &owners.aliases {
        let Some((owner, _)) = owners.of(*value) else { continue };
        if report.module.home(owner) != report.module.home(*value) {
            continue;
        }
        let hull = hulls[owner].unwrap_or_else(|| ranges.of(owner));
        let range = ranges.of(*value);
        let hull = LiveRange { start: hull.start.min(range.start), end: hull.end.max(range.end) };
        hulls.set(owner, Some(hull));
    }
    hulls
}

fn check_alias_place(report: &mut Report<'_>, owners: &Owners, value: Value) {
    let module = report.module;
    let Some((owner, offset)) = owners.of(value) else { return };
    // A view of an outer value is in the outer arena, whose offsets are unrelated.
    if module.home(owner) != module.home(value) {
        return;
    }
    let expected = module.plan.storage[owner]
        .map(|storage| Storage { space: storage.space, offset: storage.offset.saturating_add(offset) });
    if module.plan.storage[value] != expected {
        let message = format!(
            "{} is not at the place that its owner {} implies",
            report.name(value),
            report.name(owner)
        );
        report.at_value("E0243", value, message);
    }
}

fn owner(
    report: &mut Report<'_>,
    regions: &mut Regions,
    home: GraphId,
    value: Value,
    storage: Storage,
    range: LiveRange,
) {
    let name = report.name(value);
    let Some(size) = report.module.size(value) else {
        return report.at_value("E0246", value, format!("{name} has a place but no known size"));
    };
    if !aligned(report, storage) {
        report.at_value("E0240", value, format!("{name} at {:#x} is not aligned", storage.offset.0));
    }
    let block = Block { start: storage.offset.0, end: storage.offset.saturating_add(size).0, range };
    regions.entry((home, storage.space)).or_default().push((block, Holder::Value(value)));
}

fn aligned(report: &Report<'_>, storage: Storage) -> bool {
    // An alignment of 0 is reported with its space.
    storage.offset.0.checked_rem(report.module.plan.spaces[storage.space].alignment).unwrap_or(0) == 0
}

fn scratch(report: &mut Report<'_>, tree: &Tree, regions: &mut Regions) {
    let module = report.module;
    for scratch in &module.plan.scratch {
        let node = scratch.node;
        let graph = module.nodes[node].graph;
        let Some(step) = tree.position(node) else {
            report.at_node("E0246", node, "an erased node has scratch".to_owned());
            continue;
        };
        let Some(storage) = scratch.storage else {
            if graph == module.main() && scratch.bytes != Bytes(0) {
                report.at_node("E0246", node, format!("{} of scratch have no place", scratch.bytes.exact()));
            }
            continue;
        };
        if !aligned(report, storage) {
            report.at_node("E0240", node, format!("scratch at {:#x} is not aligned", storage.offset.0));
        }
        let range = LiveRange { start: Step(step), end: Step(step.saturating_add(1)) };
        let block =
            Block { start: storage.offset.0, end: storage.offset.saturating_add(scratch.bytes).0, range };
        regions.entry((graph, storage.space)).or_default().push((block, Holder::Scratch(node)));
    }
}

/// Size of the largest body arena of each node, in bytes, by space (`None` if the arena is not placed).
fn body_rooms(report: &Report<'_>) -> BTreeMap<(Node, Option<Space>), u64> {
    let mut rooms = BTreeMap::new();
    for scratch in report.module.plan.scratch.iter().filter(|scratch| scratch.body) {
        let room = rooms.entry((scratch.node, scratch.storage.map(|storage| storage.space))).or_insert(0);
        *room = scratch.bytes.0.max(*room);
    }
    rooms
}

fn check_room(
    report: &mut Report<'_>,
    bodies: &BTreeMap<(Node, Option<Space>), u64>,
    graph: GraphId,
    space: Space,
    blocks: &[(Block, Holder)],
) {
    let module = report.module;
    let room = match module.graphs[graph].parent {
        None => module.plan.arenas.iter().find(|arena| arena.space == space).map(|arena| arena.size.0),
        Some(parent) => bodies.get(&(parent, Some(space))).max(bodies.get(&(parent, None))).copied(),
    };
    let room = room.unwrap_or(0);
    for (block, holder) in blocks.iter().filter(|(block, _)| block.end > room) {
        let room = Bytes(room).exact();
        let message =
            format!("{} ends at {:#x}, outside its arena of {room}", describe(report, *holder), block.end);
        at_holder(report, "E0241", *holder, message);
    }
}

fn check_apart(report: &mut Report<'_>, space: Space, blocks: &[(Block, Holder)]) {
    let only: Vec<Block> = blocks.iter().map(|(block, _)| *block).collect();
    for (first, second) in overlaps(&only) {
        let ((a, a_holder), (b, b_holder)) = (&blocks[first], &blocks[second]);
        let message = format!(
            "{} and {} overlap in `@{}`: bytes [{:#x},{:#x}) at steps {} and bytes [{:#x},{:#x}) at steps {}",
            describe(report, *a_holder),
            describe(report, *b_holder),
            report.module.plan.spaces[space].name,
            a.start,
            a.end,
            a.range,
            b.start,
            b.end,
            b.range
        );
        at_holder(report, "E0242", *b_holder, message);
    }
}

fn describe(report: &Report<'_>, holder: Holder) -> String {
    match holder {
        Holder::Value(value) => report.name(value),
        Holder::Scratch(node) => format!("scratch of `{}`", report.module.nodes[node].operator),
    }
}

fn at_holder(report: &mut Report<'_>, code: &'static str, holder: Holder, message: String) {
    match holder {
        Holder::Value(value) => report.at_value(code, value, message),
        Holder::Scratch(node) => report.at_node(code, node, message),
    }
}

/// Checks that each space with contents of the main graph has one arena of exactly the needed size.
fn check_arenas(report: &mut Report<'_>, regions: &Regions) {
    let module = report.module;
    let mut needed: BTreeMap<Space, u64> = BTreeMap::new();
    for ((graph, space), blocks) in regions {
        if *graph == module.main() {
            needed.insert(*space, blocks.iter().map(|(block, _)| block.end).max().unwrap_or(0));
        }
    }
    let mut stated = BTreeSet::new();
    for arena in &module.plan.arenas {
        let name = &module.plan.spaces[arena.space].name;
        if !stated.insert(arena.space) {
            report.plain("E0244", format!("the space `@{name}` has two arenas"));
        }
        let exact = needed.get(&arena.space).copied().unwrap_or(0);
        if arena.size.0 != exact {
            let (size, end) = (arena.size.exact(), Bytes(exact).exact());
            let message = format!("the arena of `@{name}` has {size} but its last buffer ends at {end}");
            report.plain("E0244", message);
        }
        if arena.lower_bound > arena.size {
            let (size, bound) = (arena.size.exact(), arena.lower_bound.exact());
            let message = format!("the arena of `@{name}` has {size}, below its lower bound of {bound}");
            report.plain("E0244", message);
        }
    }
    for space in needed.keys().filter(|space| !stated.contains(space)) {
        let name = &module.plan.spaces[*space].name;
        report.plain("E0244", format!("the space `@{name}` holds buffers but has no arena"));
    }
}
