//! Random mutants of layouts, written models and workspaces: none that is wrong is accepted.
//!
//! `PROPTEST_RNG_SEED` sets the seed, and `MEMC_MUTANTS` the number of mutants of each kind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use crate::plans::{Plan, plans};
use memc_layout::{Class, Layout};
use memc_onnx_proto::onnx::{GraphProto, ModelProto, NodeProto};
use prost::Message as _;

/// Number of mutants of each kind without a request for more.
const MUTANTS: u64 = 300;

/// Random numbers.
struct Draws(u64);

impl Draws {
    fn new() -> Self {
        let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
        Self(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// Draws a number below `count`, or 0.
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap().checked_rem(count).unwrap_or(0)
    }
}

fn count() -> u64 {
    std::env::var("MEMC_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(MUTANTS)
}

/// Draws a number near another one.
fn other(draws: &mut Draws, number: u64) -> u64 {
    [number + 1, number.saturating_sub(1), number + 64, number.saturating_sub(64), number * 2, number / 2, 0]
        [draws.below(7)]
}

/// What a change of a layout must keep to be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// Any change is wrong.
    Claim,
    /// Places and live ranges: right if all bytes stay apart and live.
    Place,
}

/// Changes a layout at random.
fn layout_mutant(layout: &mut Layout, draws: &mut Draws) -> Change {
    let tensor = draws.below(layout.tensors.len());
    let step = draws.below(layout.schedule.len());
    let arena = draws.below(layout.arenas.len());
    let last = layout.tensors.len();
    match draws.below(16) {
        0 | 1 => {
            let offset = layout.tensors[draws.below(last)].offset;
            layout.tensors[tensor].offset = offset;
            return Change::Place;
        }
        2 => {
            let of = layout.tensors[tensor].offset.map(|offset| other(draws, offset));
            layout.tensors[tensor].offset = of;
            return Change::Place;
        }
        3 | 4 => {
            if let Some(range) = layout.tensors[tensor].live.first_mut() {
                range.end = other(draws, range.end);
            }
            return Change::Place;
        }
        5 => {
            if let Some(range) = layout.tensors[tensor].live.first_mut() {
                range.start = other(draws, range.start);
            }
            return Change::Place;
        }
        6 => layout.tensors[tensor].bytes = other(draws, layout.tensors[tensor].bytes),
        7 => layout.arenas[arena].size = other(draws, layout.arenas[arena].size),
        8 => layout.schedule.swap(step, step.saturating_sub(1)),
        9 => layout.weights = other(draws, layout.weights),
        10 => {
            if let Some(alias) = &mut layout.tensors[tensor].alias {
                alias.alias_offset = other(draws, alias.alias_offset);
            }
        }
        11 => drop(layout.tensors.remove(tensor)),
        12 => {
            if let Some(peak) = layout.peak.values_mut().next() {
                peak.bytes = other(draws, peak.bytes);
            }
        }
        13 => layout.model.bound = !layout.model.bound,
        14 => layout.cost.nodes_after = other(draws, layout.cost.nodes_after),
        _ => {
            let at = draws.below(layout.fetches.len());
            if at < layout.fetches.len() {
                layout.fetches.remove(at);
            }
        }
    }
    Change::Claim
}

/// Whether all owners of bytes are apart while they are live, inside their arenas and aligned, and each live
/// range covers that of the right plan. Looks at each pair.
fn is_apart(layout: &Layout, right: &Layout) -> bool {
    let placed: Vec<_> = layout.tensors.iter().filter(|tensor| tensor.offset.is_some()).collect();
    let related = |a: &str, b: &str| {
        let owner = |name: &str| {
            let mut name = name.to_owned();
            for _ in 0..layout.tensors.len() {
                let alias = layout
                    .tensors
                    .iter()
                    .find(|tensor| tensor.name == name)
                    .and_then(|tensor| tensor.alias.as_ref());
                let Some(alias) = alias else { break };
                name.clone_from(&alias.of);
            }
            name
        };
        owner(a) == owner(b)
    };
    let apart = placed.iter().enumerate().all(|(at, a)| {
        placed[at + 1..].iter().all(|b| {
            let meet = a.live.iter().any(|a| b.live.iter().any(|b| a.start < b.end && b.start < a.end));
            let (low, other) = (a.offset.unwrap(), b.offset.unwrap());
            let is_clear = low + a.bytes <= other || other + b.bytes <= low;
            a.space != b.space || !meet || is_clear || related(&a.name, &b.name)
        })
    });
    let covered = layout.tensors.iter().zip(&right.tensors).all(|(tensor, right)| {
        let within = right.live.iter().all(|needed| {
            tensor.live.iter().any(|live| live.start <= needed.start && needed.end <= live.end)
        });
        let in_owner = tensor.alias.is_none() || tensor.offset == right.offset;
        within && in_owner && tensor.offset.is_some() == right.offset.is_some()
    });
    let inside = placed.iter().all(|tensor| {
        let arena = layout.arenas.iter().find(|arena| Some(&arena.space) == tensor.space.as_ref()).unwrap();
        let offset = tensor.offset.unwrap();
        offset + tensor.bytes <= arena.size && offset % arena.alignment == 0 || tensor.alias.is_some()
    });
    apart && covered && inside
}

#[test]
fn no_wrong_layout_is_accepted() {
    let (plans, mut draws) = (plans(), Draws::new());
    let mut wrong = Vec::new();
    for number in 0..count() {
        let plan = &plans[draws.below(plans.len())];
        let mut layout = plan.layout.clone();
        let change = layout_mutant(&mut layout, &mut draws);
        if layout == plan.layout || !plan.accepts(&plan.check(&layout)) {
            continue;
        }
        let is_right = match change {
            Change::Claim => false,
            Change::Place => is_caller_held(&layout, &plan.layout) || is_apart(&layout, &plan.layout),
        };
        if !is_right {
            wrong.push(format!("{number}: {} {change:?}: {}", plan.name, difference(&layout, &plan.layout)));
        }
    }
    assert!(wrong.is_empty(), "accepted and wrong: {}\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether only tensors without a place differ: the caller holds them, and their ranges inform.
fn is_caller_held(layout: &Layout, right: &Layout) -> bool {
    let mut pairs = layout.tensors.iter().zip(&right.tensors);
    pairs.all(|(tensor, right)| tensor == right || tensor.offset.is_none() && right.offset.is_none())
}

fn difference(layout: &Layout, right: &Layout) -> String {
    let pairs = layout.tensors.iter().zip(&right.tensors).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| format!("{a:?} for {b:?}")).collect::<Vec<_>>().join("; ")
}

/// Returns a text that determines each graph output: operators and attributes over inputs and weights.
/// Transfers and identities stand for their operands.
fn meaning(model: &ModelProto) -> Vec<Option<u64>> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let hash = |parts: &[u8], operands: &[Option<u64>]| {
        let mut hasher = DefaultHasher::new();
        (parts, operands).hash(&mut hasher);
        hasher.finish()
    };
    let graph = model.graph.as_ref().unwrap();
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for input in &graph.input {
        known.insert(input.name().to_owned(), hash(input.name().as_bytes(), &[]));
    }
    for tensor in &graph.initializer {
        let nameless = memc_onnx_proto::onnx::TensorProto { name: None, doc_string: None, ..tensor.clone() };
        known.insert(tensor.name().to_owned(), hash(&nameless.encode_to_vec(), &[]));
    }
    for node in &graph.node {
        let operands: Vec<Option<u64>> = node.input.iter().map(|name| known.get(name).copied()).collect();
        let passes = matches!(node.op_type(), "Identity" | "SwapIn" | "SwapOut");
        let is_random = node.op_type().starts_with("Random");
        let own = NodeProto {
            name: is_random.then(|| node.name().to_owned()),
            doc_string: None,
            input: Vec::new(),
            output: Vec::new(),
            metadata_props: Vec::new(),
            ..node.clone()
        };
        for (at, output) in node.output.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
            let parts = [own.encode_to_vec(), at.to_le_bytes().to_vec()].concat();
            let number =
                if passes { operands.first().copied().flatten() } else { Some(hash(&parts, &operands)) };
            known.extend(number.map(|number| (output.clone(), number)));
        }
    }
    graph.output.iter().map(|info| known.get(info.name()).copied()).collect()
}

/// Changes a graph at random.
fn model_mutant(graph: &mut GraphProto, draws: &mut Draws) {
    let names: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    let count = graph.node.len();
    let kind = draws.below(8);
    let node = &mut graph.node[draws.below(count)];
    match kind {
        0 => {
            let others = ["Tanh", "Exp", "Neg", "Relu", "Sigmoid", "Abs", "Add", "Mul", "Sub", "MatMul"];
            node.op_type = Some(others[draws.below(others.len())].to_owned());
        }
        1 => node.input.reverse(),
        2 | 3 => {
            let at = draws.below(node.input.len());
            if let Some(input) = node.input.get_mut(at) {
                input.clone_from(&names[draws.below(names.len())]);
            }
        }
        4 => {
            let at = draws.below(node.attribute.len());
            if let Some(attribute) = node.attribute.get_mut(at) {
                attribute.i = attribute.i.map(|number| number + 1);
                attribute.f = attribute.f.map(|number| number * 1.5 + 1.0);
                attribute.ints.iter_mut().take(1).for_each(|number| *number += 1);
            }
        }
        5 | 6 => {
            let at = draws.below(graph.initializer.len());
            let Some(tensor) = graph.initializer.get_mut(at) else { return };
            let is_shape = tensor.data_type() == memc_onnx_proto::onnx::tensor_proto::DataType::Int64 as i32;
            if let Some(bytes) = tensor.raw_data.as_mut() {
                let mut other = bytes.to_vec();
                let at = draws.below(other.len());
                if let Some(byte) = other.get_mut(at) {
                    *byte ^= 1 << draws.below(8);
                }
                // A zero in a shape copies an extent, which may be right.
                if !is_shape || other.chunks(8).all(|number| number.iter().any(|byte| *byte != 0)) {
                    *bytes = other.into();
                }
            }
        }
        _ => drop(graph.node.remove(draws.below(count))),
    }
}

#[test]
fn no_wrong_model_is_accepted() {
    let (plans, mut draws) = (plans(), Draws::new());
    // Fragments that `rewrites` names and codes change the meaning by right.
    let same = |plan: &&Plan| plan.is_proven && meaning(plan.given.model()) == meaning(plan.out.model());
    let plans: Vec<&Plan> = plans.iter().filter(same).collect();
    assert!(plans.len() >= 6, "{:?}", plans.iter().map(|plan| plan.name).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for number in 0..count() {
        let plan = plans[draws.below(plans.len())];
        let mut out = plan.out.model().clone();
        model_mutant(out.graph.as_mut().unwrap(), &mut draws);
        let is_wrong = meaning(&out) != meaning(plan.given.model());
        if is_wrong && plan.check_model(&out).is_some_and(|report| plan.accepts(&report)) {
            wrong.push(format!("{number}: {}: {}", plan.name, changed_parts(&out, plan.out.model())));
        }
    }
    assert!(wrong.is_empty(), "accepted and wrong: {}\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the nodes and constants of a model that another one does not have.
fn changed_parts(model: &ModelProto, right: &ModelProto) -> String {
    let [of, other] = [model, right].map(|model| model.graph.as_ref().unwrap());
    let nodes = of.node.iter().filter(|node| !other.node.contains(node)).map(|node| format!("{node:?}"));
    let constants = of.initializer.iter().filter(|tensor| !other.initializer.contains(tensor));
    nodes
        .chain(constants.map(|tensor| format!("constant {:?}", tensor.name())))
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn workspaces_below_the_needs_of_kernels_are_refused() {
    let (plans, mut draws) = (plans(), Draws::new());
    // The player's rows are the formulas themselves; other runtimes round them up.
    let plans: Vec<&Plan> =
        plans.iter().filter(|plan| ["player", "branches", "by hand"].contains(&plan.name)).collect();
    let mut kinds = BTreeSet::new();
    let mut wrong = Vec::new();
    for number in 0..count() {
        let plan = plans[draws.below(plans.len())];
        let rows: Vec<usize> = (0..plan.layout.tensors.len())
            .filter(|at| plan.layout.tensors[*at].class == Class::Scratch)
            .collect();
        let mut layout = plan.layout.clone();
        let row = &mut layout.tensors[rows[draws.below(rows.len())]];
        let small = [row.bytes - 1, row.bytes / 2, 1, 0][draws.below(4)]
            .min(draws.below(usize::try_from(row.bytes).unwrap()) as u64);
        (row.bytes, row.shape) = (small, vec![small]);
        kinds.insert(row.name.clone());
        let name = row.name.clone();
        if let Some(node) = name.strip_prefix("scratch:").and_then(|name| name.strip_suffix(":body")) {
            layout
                .subgraphs
                .iter_mut()
                .filter(|body| body.node == node)
                .for_each(|body| body.arena_bytes = small);
        }
        if plan.accepts(&plan.check(&layout)) {
            wrong.push(format!("{number}: {} {name} {small}", plan.name));
        }
    }
    assert!(
        kinds.len() > 4 && wrong.is_empty(),
        "{kinds:?}; accepted and wrong: {}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
