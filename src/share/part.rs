//! From a layout to a pure problem: buffers of one space, with the bytes in use at each step.

use std::collections::BTreeMap;

use memc_layout::{AliasKind, Class, Layout};
use memc_solve::joint::{Extent, Part, Placed};

use super::member::ShareMember;

/// The buffers of one space of a layout.
pub(super) struct Buffers {
    /// Steps, buffers and size.
    pub(super) part: Part,
    /// Tensor that owns each buffer, as a position in the layout.
    pub(super) owners: Vec<usize>,
    /// Bytes that a transfer may still read behind the live range of its tensor, until the copy is back. They
    /// may be those of later buffers, which wait for it.
    pub(super) under_way: Vec<Extent>,
    /// Buffer of each tensor of the space, and the tensor's first byte in it, by name.
    pub(super) places: BTreeMap<String, (usize, u64)>,
}

impl Buffers {
    /// Reads the buffers of a space.
    pub(super) fn of(member: &ShareMember, space: &str) -> Self {
        let layout = &member.layout;
        let (size, alignment) = super::arena(member, space).unwrap_or((0, 1));
        let mut found = Self {
            part: Part {
                steps: member.steps(),
                buffers: Vec::new(),
                alignment,
                size,
                is_rigid: member.is_ranged(),
            },
            owners: Vec::new(),
            under_way: Vec::new(),
            places: BTreeMap::new(),
        };
        let roots = roots(layout);
        let mut buffer_of: BTreeMap<usize, usize> = BTreeMap::new();
        let moved: BTreeMap<&str, u64> = layout
            .transfers
            .iter()
            .map(|row| (row.tensor.as_str(), row.load_step.saturating_add(1)))
            .collect();
        for (tensor, root) in layout.tensors.iter().zip(&roots) {
            let (Some(offset), true) = (tensor.offset, tensor.space.as_deref() == Some(space)) else {
                continue;
            };
            // A tensor without an owner in the space stands for itself.
            let own = |root: &usize| {
                layout.tensors[*root].space == tensor.space && layout.tensors[*root].offset.is_some()
            };
            let Some(root) = root.filter(|root| own(root)) else { continue };
            let owner = &layout.tensors[root];
            let first = owner.offset.unwrap_or(offset);
            let buffer = *buffer_of.entry(root).or_insert_with(|| {
                found.part.buffers.push(Placed {
                    offset: first,
                    size: owner.bytes,
                    alignment,
                    extents: Vec::new(),
                });
                found.owners.push(root);
                found.owners.len() - 1
            });
            let low = offset.saturating_sub(first);
            let high = low.saturating_add(tensor.bytes);
            found.places.insert(tensor.name.clone(), (buffer, low));
            let is_moving = tensor.alias.as_ref().is_some_and(|alias| alias.alias_offset_expr.is_some());
            let low = if is_moving { 0 } else { low };
            let buffer = &mut found.part.buffers[buffer];
            buffer.size = buffer.size.max(high);
            for live in &tensor.live {
                let step = |step: u64| u32::try_from(step).unwrap_or(u32::MAX).min(found.part.steps);
                let extent = Extent { start: step(live.start), end: step(live.end), low, high };
                if extent.start < extent.end && low < high {
                    buffer.extents.push(extent);
                }
                if let Some(end) = moved.get(tensor.name.as_str()).filter(|end| **end > live.end) {
                    let (low, high) = (first.saturating_add(low), first.saturating_add(high));
                    // The copy begins while the tensor lives.
                    let start = step(live.end).saturating_sub(1);
                    found.under_way.push(Extent { start, end: step(*end), low, high });
                }
            }
        }
        found
    }

    /// Bytes that a guest must leave as they are: those in use, and those of transfers under way.
    pub(super) fn taken(&self) -> Vec<Extent> {
        let mut all = self.part.extents();
        all.extend(&self.under_way);
        all
    }
}

/// The tensor that owns the bytes of each tensor; `None` for aliases in a cycle or of unknown tensors.
pub(super) fn roots(layout: &Layout) -> Vec<Option<usize>> {
    let names: BTreeMap<&str, usize> =
        layout.tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.as_str(), at)).collect();
    let root = |mut at: usize| {
        // Links are no more than tensors: a longer walk is a cycle.
        for _ in 0..=layout.tensors.len() {
            match &layout.tensors[at].alias {
                Some(alias) => at = *names.get(alias.of.as_str())?,
                None => return Some(at),
            }
        }
        None
    };
    (0..layout.tensors.len()).map(root).collect()
}

/// How a member reads one of its inputs.
pub(super) struct Reads {
    /// Step after the last one that reads the input or a view of it; 0 if none does.
    pub(super) until: u64,
    /// Whether a result is written over it.
    pub(super) is_overwritten: bool,
}

/// Derives how a member reads an input.
pub(super) fn reads(layout: &Layout, input: usize) -> Reads {
    let roots = roots(layout);
    let mut found = Reads { until: 0, is_overwritten: false };
    for (tensor, _) in layout.tensors.iter().zip(&roots).filter(|(_, root)| **root == Some(input)) {
        let in_place = tensor.alias.as_ref().is_some_and(|alias| alias.kind == AliasKind::InPlace);
        found.is_overwritten |= in_place;
        // Views end with their last reader; a result over the input is no longer the input.
        let is_input = !in_place && tensor.class != Class::Scratch;
        let ends = tensor.live.iter().map(|live| live.end).filter(|_| is_input);
        found.until = found.until.max(ends.max().unwrap_or(0));
    }
    found
}
