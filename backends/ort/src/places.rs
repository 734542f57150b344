//! The place of every value of a model: an offset in an arena, the weights, the caller's memory, or the
//! runtime's memory.

use std::collections::BTreeMap;

use memc_layout::{Alias, AliasKind, Class, Layout, LiveRange};

use crate::element::Element;
use crate::error::Error;

/// Place of a value's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// At an offset in an arena.
    Arena { arena: usize, offset: usize },
    /// At an offset in the file of a space that is not memory; only transfers access it.
    File { arena: usize, offset: usize },
    /// An initializer, or a graph input that has an initializer as default.
    Weight,
    /// Memory of the caller: a graph input, or an output that no arena holds.
    Caller,
    /// Memory of the caller that the new value of a state overwrites. Before the run it holds a default
    /// of the model, if there is one.
    State,
    /// Inside another value that no arena holds, at an offset in bytes.
    Window { of: usize, offset: usize },
    /// Memory that the runtime allocates.
    Runtime,
}

/// A value with its place in the plan.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    /// Type and dimensions; `None` if the layout does not know them.
    pub(crate) ty: Option<(Element, Vec<u64>)>,
    pub(crate) bytes: usize,
    pub(crate) place: Place,
    pub(crate) class: Option<Class>,
    pub(crate) live: LiveRange,
    /// The value that this one is a view of.
    pub(crate) view_of: Option<usize>,
    /// The value whose bytes this one shares, and the kind of the alias.
    pub(crate) alias: Option<(usize, AliasKind)>,
}

/// Planned workspace of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workspace {
    pub(crate) arena: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// All values by position, and their positions by name.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) slots: Vec<Slot>,
    pub(crate) by_name: BTreeMap<String, usize>,
    /// Planned workspace by step; the largest block of each step.
    pub(crate) workspace: BTreeMap<u64, Workspace>,
}

impl Places {
    /// Reads the tensors of a layout. `is_weight` tells which names are initializers, `is_file` which
    /// spaces are files.
    ///
    /// # Errors
    /// A tensor contradicts itself or its arena.
    pub(crate) fn new(
        layout: &Layout,
        is_weight: &dyn Fn(&str) -> bool,
        is_file: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let mut places = Self::default();
        // Give every tensor a slot with its place.
        for tensor in layout.tensors.iter().filter(|tensor| tensor.class != Class::Scratch) {
            let wrong = |reason| Error::Tensor { tensor: tensor.name.clone(), reason };
            let element = Element::from_name(&tensor.dtype);
            if let Some(element) = element
                && element.bytes(&tensor.shape) != Some(tensor.bytes)
            {
                return Err(wrong("its size does not match its type and shape"));
            }
            let bytes = usize::try_from(tensor.bytes).map_err(|_| wrong("its size is impossible"))?;
            let place = match (&tensor.space, tensor.offset) {
                // Kernels cannot take bytes of such a type, so the runtime allocates the value even if
                // the plan has a place for it.
                _ if element.is_none() => Place::Runtime,
                (Some(space), Some(offset)) => {
                    match arena_place(layout, space, offset, tensor.bytes).map_err(wrong)? {
                        Place::Arena { arena, offset } if is_file(space) => Place::File { arena, offset },
                        place => place,
                    }
                }
                _ if is_weight(&tensor.name) => Place::Weight,
                _ if tensor.class == Class::Constant => Place::Runtime,
                _ => Place::Caller,
            };
            let live = tensor.live.first().copied().unwrap_or(LiveRange { start: 0, end: 0 });
            let ty = element.map(|element| (element, tensor.shape.clone()));
            let slot = Slot {
                name: tensor.name.clone(),
                ty,
                bytes,
                place,
                class: Some(tensor.class),
                live,
                view_of: None,
                alias: None,
            };
            if places.by_name.insert(tensor.name.clone(), places.slots.len()).is_some() {
                return Err(wrong("it is listed twice"));
            }
            places.slots.push(slot);
        }
        // Link aliases with their owners, and new states with their old ones.
        for tensor in &layout.tensors {
            if let Some(alias) = &tensor.alias {
                places.relate(&tensor.name, alias)?;
            }
        }
        for update in &layout.state {
            places.share(&update.tensor, &update.result)?;
        }
        places.read_workspace(layout, is_file)?;
        Ok(places)
    }

    /// Gives the new value of a state the storage of its old value.
    fn share(&mut self, old: &str, new: &str) -> Result<(), Error> {
        let wrong = |reason| Error::Tensor { tensor: new.to_owned(), reason };
        let find = |name: &str| {
            self.by_name.get(name).copied().ok_or_else(|| wrong("its row in `state` names an unknown tensor"))
        };
        let (old, new) = (find(old)?, find(new)?);
        let is_held = matches!(self.slots[old].place, Place::Weight | Place::Caller)
            && self.slots[new].place == Place::Caller;
        if !is_held || self.slots[old].class != Some(Class::State) || self.slots[old].ty != self.slots[new].ty
        {
            return Err(wrong("it cannot take the storage of the tensor that it updates"));
        }
        self.slots[old].place = Place::State;
        self.slots[new].place = Place::Window { of: old, offset: 0 };
        Ok(())
    }

    /// Records an alias. A view of a value outside the arenas gets a place inside that value.
    fn relate(&mut self, name: &str, alias: &Alias) -> Result<(), Error> {
        let wrong = |reason| Error::Tensor { tensor: name.to_owned(), reason };
        let of = *self.by_name.get(&alias.of).ok_or_else(|| wrong("it is an alias of an unknown tensor"))?;
        let Some(own) = self.by_name.get(name).copied() else { return Ok(()) };
        self.slots[own].alias = Some((of, alias.kind));
        if alias.kind == AliasKind::View {
            self.slots[own].view_of = Some(of);
        }
        if self.slots[own].place == Place::Caller {
            let offset = usize::try_from(alias.alias_offset)
                .map_err(|_| wrong("its offset in its owner is impossible"))?;
            if offset.checked_add(self.slots[own].bytes).is_none_or(|end| end > self.slots[of].bytes) {
                return Err(wrong("it ends beyond the tensor that it is a view of"));
            }
            self.slots[own].place = Place::Window { of, offset };
        }
        Ok(())
    }

    fn read_workspace(&mut self, layout: &Layout, is_file: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        // The plan knows a body's arena by its size only: values of the body get bytes on request, not
        // at the offsets of the body's own plan.
        for tensor in layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch) {
            let wrong = |reason| Error::Tensor { tensor: tensor.name.clone(), reason };
            let (Some(step), Some(space), Some(offset)) = (tensor.step, &tensor.space, tensor.offset) else {
                continue;
            };
            if is_file(space) {
                return Err(wrong("it lies in a file, but kernels need memory"));
            }
            let Place::Arena { arena, offset } =
                arena_place(layout, space, offset, tensor.bytes).map_err(wrong)?
            else {
                continue;
            };
            let bytes = usize::try_from(tensor.bytes).map_err(|_| wrong("its size is impossible"))?;
            let known = self.workspace.entry(step).or_insert(Workspace { arena, offset, bytes });
            if known.bytes < bytes {
                *known = Workspace { arena, offset, bytes };
            }
        }
        Ok(())
    }

    /// Returns the slot of a name. A name that the layout does not have gets a new slot in the runtime's
    /// memory.
    pub(crate) fn slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let slot = self.slots.len();
        self.slots.push(Slot {
            name: name.to_owned(),
            ty: None,
            bytes: 0,
            place: Place::Runtime,
            class: None,
            live: LiveRange { start: 0, end: 0 },
            view_of: None,
            alias: None,
        });
        self.by_name.insert(name.to_owned(), slot);
        slot
    }

    /// Follows views of views to the value that owns the bytes.
    pub(crate) fn view_root(&self, mut slot: usize) -> usize {
        // Links are no more than slots: a longer walk is a cycle.
        for _ in 0..self.slots.len() {
            match self.slots[slot].view_of {
                Some(of) => slot = of,
                None => break,
            }
        }
        slot
    }
}

fn arena_place(layout: &Layout, space: &str, offset: u64, bytes: u64) -> Result<Place, &'static str> {
    let arena =
        layout.arenas.iter().position(|arena| arena.space == space).ok_or("its space has no arena")?;
    let end = offset.checked_add(bytes).ok_or("its offset is impossible")?;
    if end > layout.arenas[arena].size {
        return Err("it lies beyond the end of its arena");
    }
    Ok(Place::Arena { arena, offset: usize::try_from(offset).map_err(|_| "its offset is impossible")? })
}
