//! Anchors in a plan: dead-end nodes that pin the order for runtimes that choose their own, with room
//! for their results.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Rewriter, Storage};
use memc_onnx_export::{AnchorKind, Anchored, add_anchors, is_anchor};
use memc_passes::Options;
use memc_passes::analysis::{Buffer, Memory};

/// Adds anchors to a planned module, with a place for each result; everything else keeps its place. An anchor
/// whose result does not fit below `ceiling` is left out, and its node is not pinned.
///
/// If unread results live for one step, no two anchor results are alive together: the arena grows by at
/// most the largest one, rounded up to the alignment, and only if no gap at its step holds it. If the
/// runtime keeps unread results to the end, the arena grows by all of them. A second placement of all
/// tensors could not promise this. O(size of the module + values alive at anchors).
pub(crate) fn anchor(module: &mut Module, options: &Options, ceiling: Bytes) -> Anchored {
    let mut anchored = add_anchors(module, AnchorKind::Shape);
    if anchored.added == 0 {
        return anchored;
    }
    let beyond = place(module, options, ceiling);
    anchored.added -= beyond.len().min(anchored.added);
    for anchor in &beyond {
        anchored.unpinned.extend(module.node(*anchor).operands().filter_map(|value| module.producer(value)));
    }
    let mut rewriter = Rewriter::new(module);
    for anchor in beyond {
        rewriter.erase(anchor);
    }
    rewriter.finish();
    bound(module, options);
    anchored
}

/// Raises the bound of the arena to the peak with anchors.
fn bound(module: &mut Module, options: &Options) {
    let (peak, _) = Memory::of(module, options).peak(module);
    if let Some(arena) = module.plan.arenas.first_mut() {
        arena.lower_bound = arena.lower_bound.max(peak).min(arena.size);
    }
}

/// Walks the schedule with the occupied bytes of each step, and puts the result of each anchor into the
/// first gap. Returns the anchors whose results do not fit below `ceiling`; these get no place.
fn place(module: &mut Module, options: &Options, ceiling: Bytes) -> Vec<Node> {
    let mut beyond = Vec::new();
    let Some(mut arena) = module.plan.arenas.first().copied() else { return beyond };
    let alignment = module.plan.spaces[arena.space].alignment.max(1);
    let Memory { liveness, buffers, .. } = Memory::of(module, options);
    let mut starts = vec![Vec::new(); liveness.steps as usize + 1];
    let mut ends = starts.clone();
    for buffer in &buffers {
        starts[buffer.range.start.0 as usize].push(buffer);
        ends[buffer.range.end.0 as usize].push(buffer);
    }
    let mut occupied = BTreeSet::new();
    for (step, node) in module.graph(module.main()).nodes.clone().into_iter().enumerate() {
        for buffer in &ends[step] {
            span(module, buffer).map(|span| occupied.remove(&span));
        }
        for buffer in &starts[step] {
            // A step of an anchor begins nothing but its result.
            if is_anchor(module, node) {
                let outlives = buffer.range.end.0 as usize > step + 1;
                let offset = match outlives {
                    // Gaps at this step may be filled at later ones, but nothing lies above the arena.
                    true => Bytes(arena.size.0.checked_next_multiple_of(alignment).unwrap_or(u64::MAX)),
                    false => first_gap(&occupied, buffer.bytes, alignment),
                };
                if offset.saturating_add(buffer.bytes) > arena.size.max(ceiling) {
                    beyond.push(node);
                    continue;
                }
                module.plan.storage.set(buffer.owner, Some(Storage { space: arena.space, offset }));
                arena.size = arena.size.max(offset.saturating_add(buffer.bytes));
            }
            occupied.extend(span(module, buffer));
        }
    }
    module.plan.arenas[0] = arena;
    beyond
}

/// First byte of a placed buffer and one past its last; `None` for a buffer without bytes, which blocks
/// nothing.
fn span(module: &Module, buffer: &Buffer) -> Option<(Bytes, Bytes)> {
    let offset = module.plan.storage[buffer.owner]?.offset;
    (buffer.bytes > Bytes(0)).then(|| (offset, offset.saturating_add(buffer.bytes)))
}

/// Lowest aligned offset at which `bytes` bytes overlap no occupied range.
fn first_gap(occupied: &BTreeSet<(Bytes, Bytes)>, bytes: Bytes, alignment: u64) -> Bytes {
    let mut offset = Bytes(0);
    for (start, end) in occupied {
        if offset.saturating_add(bytes) <= *start {
            break;
        }
        let next = end.0.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        offset = offset.max(Bytes(next));
    }
    offset
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use memc_ir::verify::verify;
    use memc_ir::{Stage, Value, text};
    use memc_passes::{Options, PassContext, Pipeline, Silent};

    use super::*;

    fn planned(source: &str, options: &Options) -> Module {
        let mut module = text::parse(source).unwrap();
        let mut ctx = PassContext::new(options, Default::default());
        Pipeline::parse("in-place,place", module.stage, memc_plan::registry::REGISTRY)
            .unwrap()
            .run(&mut module, &mut ctx, true, &mut Silent)
            .unwrap();
        module
    }

    fn places(module: &Module) -> Vec<(Value, Option<Storage>)> {
        module.values().keys().map(|value| (value, module.plan.storage[value])).collect()
    }

    /// Two branches that end in one result; the first must be pinned. Operator set 13 is old enough that
    /// results of anchors have bytes.
    const BRANCHES: &str = "mem 1\nir_version 10\nopset \"\" 13\n\ngraph @g {\n  input %x : f32[1024]\n  %a = Neg(%x) : f32[1024]\n  \
        %b = Abs(%a) : f32[1024]\n  %c = Exp(%x) : f32[1024]\n  %y = Add(%b, %c) : f32[1024]\n  return %y\n}\n";

    #[test]
    fn anchor_results_take_gaps_and_move_no_other_tensor() {
        let options = Options::default();
        let before = planned(BRANCHES, &options);
        let mut module = before.clone();
        assert_eq!(anchor(&mut module, &options, Bytes(u64::MAX)).added, 1);
        verify(&module, Stage::Planned).unwrap();
        assert_eq!(places(&module)[..places(&before).len()], places(&before));
        assert_eq!(
            module.plan.arenas, before.plan.arenas,
            "a place for two tensors holds one and the result of the anchor"
        );
        let result = module.values().iter().find(|(_, data)| data.name == "b.anchor").unwrap().0;
        assert_eq!(module.plan.storage[result].unwrap().offset, Bytes(4096));
    }

    #[test]
    fn without_a_gap_the_arena_grows_by_one_result() {
        let options = Options::default();
        // %b and %a fill the arena, and %c overwrites %a: nothing else is ever alive.
        let source = BRANCHES.replace("%b = Abs(%a)", "%b = Exp(%x)").replace("%c = Exp(%x)", "%c = Neg(%a)");
        let before = planned(&source, &options);
        let mut module = before.clone();
        assert_eq!(anchor(&mut module, &options, Bytes(u64::MAX)).added, 2);
        verify(&module, Stage::Planned).unwrap();
        let (old, new) = (before.plan.arenas[0], module.plan.arenas[0]);
        assert_eq!((old.size, new.size, new.lower_bound), (Bytes(8192), Bytes(8200), Bytes(8200)));
        assert_eq!(places(&module)[..places(&before).len()], places(&before));
    }

    #[test]
    fn anchors_beyond_the_ceiling_are_left_out() {
        let options = Options::default();
        let source = BRANCHES.replace("%b = Abs(%a)", "%b = Exp(%x)").replace("%c = Exp(%x)", "%c = Neg(%a)");
        let before = planned(&source, &options);
        for (ceiling, size, added) in [(8192, 8192, 1), (8199, 8192, 1), (8200, 8200, 2)] {
            let mut module = before.clone();
            let anchored = anchor(&mut module, &options, Bytes(ceiling));
            verify(&module, Stage::Planned).unwrap();
            assert_eq!((anchored.added, anchored.unpinned.len()), (added, 2 - added), "{ceiling}");
            assert_eq!(module.plan.arenas[0].size, Bytes(size));
            assert_eq!(
                module.graph(module.main()).nodes.len(),
                before.graph(before.main()).nodes.len() + added
            );
        }
    }

    #[test]
    fn the_first_gap_is_aligned_and_may_be_behind_everything() {
        let occupied =
            BTreeSet::from([(Bytes(0), Bytes(10)), (Bytes(64), Bytes(100)), (Bytes(192), Bytes(200))]);
        assert_eq!(first_gap(&occupied, Bytes(8), 16), Bytes(16));
        assert_eq!(first_gap(&occupied, Bytes(64), 64), Bytes(128));
        assert_eq!(first_gap(&occupied, Bytes(65), 64), Bytes(256));
        assert_eq!(first_gap(&occupied, Bytes(0), 64), Bytes(0));
        // A large buffer that began lower reaches over a small one's gap.
        let nested = BTreeSet::from([(Bytes(0), Bytes(500)), (Bytes(64), Bytes(100))]);
        assert_eq!(first_gap(&nested, Bytes(8), 64), Bytes(512));
    }
}
