//! Checks a layout against the model that is played: a plan that contradicts the model is rejected
//! before any node runs.
//!
//! This does not replace `memc check`, which derives every fact independently. It finds contradictions
//! that a run could hide by luck.

use memc_layout::AliasKind;
use memc_ops::{InPlace, View};

use crate::error::Error;
use crate::places::{Place, Places, Slot};
use crate::step::{Kind, Step};

/// Checks live ranges against the schedule, aliases against nodes, and places against each other.
/// O(steps + values · values live at once).
///
/// # Errors
/// Returns the first contradiction.
pub(crate) fn audit(places: &Places, steps: &[Step<'_>], outputs: &[String]) -> Result<(), Error> {
    for (position, step) in steps.iter().enumerate().filter(|(_, step)| step.kind != Kind::Constant) {
        for slot in step.inputs.iter().chain(&step.outputs) {
            let slot = &places.slots[*slot];
            if is_placed(slot) && !slot.live.contains(position as u64) {
                return Err(wrong(slot, "a step outside its live range reads or writes it"));
            }
        }
    }
    for slot in outputs.iter().filter_map(|name| places.by_name.get(name)).map(|slot| &places.slots[*slot]) {
        if is_placed(slot) && slot.live.end < steps.len() as u64 {
            return Err(wrong(slot, "it is a graph output, and its live range ends before the run does"));
        }
    }
    let touches = Touches::of(places, steps);
    for (position, slot) in places.slots.iter().enumerate() {
        if let Some((of, kind)) = slot.alias
            && is_placed(slot)
        {
            related(places, steps, &touches, (position, of, kind)).map_err(|reason| wrong(slot, reason))?;
        }
    }
    apart(places)
}

/// For each slot, the step that makes it and the last step that reads it.
struct Touches {
    maker: Vec<Option<usize>>,
    last_reader: Vec<Option<usize>>,
}

impl Touches {
    fn of(places: &Places, steps: &[Step<'_>]) -> Self {
        let none = vec![None; places.slots.len()];
        let mut touches = Self { maker: none.clone(), last_reader: none };
        for (position, step) in steps.iter().enumerate() {
            step.outputs.iter().for_each(|slot| touches.maker[*slot] = Some(position));
            step.inputs.iter().for_each(|slot| touches.last_reader[*slot] = Some(position));
        }
        touches
    }
}

fn is_placed(slot: &Slot) -> bool {
    matches!(slot.place, Place::Arena { .. } | Place::File { .. })
}

fn wrong(slot: &Slot, reason: &'static str) -> Error {
    Error::Tensor { tensor: slot.name.clone(), reason }
}

/// Checks that one node links an alias with its owner, and that no later step reads a value that was
/// written over.
fn related(
    places: &Places,
    steps: &[Step<'_>],
    touches: &Touches,
    (slot, of, kind): (usize, usize, AliasKind),
) -> Result<(), &'static str> {
    let joins = |result: usize, operand: usize| {
        let position = touches.maker[result]?;
        let step = &steps[position];
        let info = memc_ops::find(&step.domain, &step.op).filter(|_| step.inputs.contains(&operand))?;
        let may = match kind {
            AliasKind::View => info.view != View::None,
            // Operators that move no bytes may also write over their operand.
            AliasKind::InPlace => !matches!(info.in_place, InPlace::Never) || info.view != View::None,
        };
        may.then_some(position)
    };
    // An operand of Concat may be a view of the result.
    let back = || if kind == AliasKind::View { joins(of, slot) } else { None };
    let at =
        joins(slot, of).or_else(back).ok_or("no node computes it from the tensor that it is an alias of")?;
    if kind == AliasKind::InPlace {
        if places.slots[slot].bytes != places.slots[of].bytes {
            return Err("it is written over a tensor of another size");
        }
        if touches.last_reader[of].is_some_and(|reader| reader > at) {
            return Err("it is written over a tensor that is read later");
        }
    }
    Ok(())
}

/// Checks that two values share bytes in one step only if they are aliases of one owner.
fn apart(places: &Places) -> Result<(), Error> {
    let span = |slot: &Slot| match slot.place {
        Place::Arena { arena, offset } | Place::File { arena, offset } => {
            Some((arena, offset, offset + slot.bytes))
        }
        _ => None,
    };
    let mut order: Vec<usize> =
        (0..places.slots.len()).filter(|slot| is_placed(&places.slots[*slot])).collect();
    order.sort_by_key(|slot| places.slots[*slot].live.start);
    let mut roots: Vec<usize> = Vec::with_capacity(places.slots.len());
    for slot in 0..places.slots.len() {
        roots.push(root(places, slot).ok_or_else(|| wrong(&places.slots[slot], "its aliases form a cycle"))?);
    }
    let mut live: Vec<usize> = Vec::new();
    for slot in order {
        let data = &places.slots[slot];
        live.retain(|other| places.slots[*other].live.end > data.live.start);
        let Some((arena, from, to)) = span(data).filter(|(_, from, to)| from < to) else { continue };
        for other in &live {
            let meets = span(&places.slots[*other])
                .is_some_and(|(space, start, end)| space == arena && start < to && from < end);
            if meets && roots[*other] != roots[slot] {
                return Err(wrong(data, "it shares bytes with another tensor while both are live"));
            }
        }
        // Treat a range that ends before it starts as empty.
        let end = data.live.end.max(data.live.start);
        for (_, work) in places.workspace.range(data.live.start..end) {
            if work.arena == arena && work.offset < to && from < work.offset + work.bytes {
                return Err(wrong(data, "it shares bytes with a workspace while it is live"));
            }
        }
        live.push(slot);
    }
    Ok(())
}

/// Returns the owner of a value's bytes, or `None` if its aliases form a cycle.
fn root(places: &Places, mut slot: usize) -> Option<usize> {
    // Links are no more than slots: a longer walk is a cycle.
    for _ in 0..=places.slots.len() {
        match places.slots[slot].alias {
            Some((of, _)) => slot = of,
            None => return Some(slot),
        }
    }
    None
}
