//! Transfers of a plan: prepares the steps that move bytes between spaces, and plays them on worker
//! threads.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use memc_layout::{Fetch, FetchedPart, Layout};

use crate::error::Error;
use crate::links::{Links, Region};
use crate::options::PlayOptions;
use crate::places::Place;
use crate::played::LinkUse;
use crate::stage::Stage;
use crate::step::{Kind, Step};
use crate::swap_file::SwapFile;
use crate::traffic::{Request, Touched, Traffic, free_from};

/// The copies of a plan, and the threads that carry them out.
#[derive(Debug)]
pub(crate) struct Transfers {
    links: Links,
    traffic: Traffic,
    /// Name of the tensor of each copy.
    tensors: Vec<String>,
    /// Traffic of each link in a complete run.
    uses: Vec<LinkUse>,
    /// Whether each copy ends before the step that starts it.
    is_serial: bool,
    clock: Option<fn() -> u64>,
}

impl Transfers {
    /// Makes the files of spaces that are not memory, writes their constants, turns steps that only move
    /// bytes into transfers, and starts the links. Returns `None` if there are no transfers. The stage
    /// must live longer than the result.
    ///
    /// # Errors
    /// A file or a thread cannot be made, or a constant cannot be written.
    pub(crate) fn new(
        stage: &Stage<'_>,
        steps: &mut [Step<'_>],
        layout: &Layout,
        options: &PlayOptions,
    ) -> Result<Option<Self>, Error> {
        let files = files(layout, options)?;
        write_constants(stage, &files)?;
        let mut uses: Vec<LinkUse> = Vec::new();
        let (mut requests, mut tensors) = (Vec::new(), Vec::new());
        // Assign each request to a link, and add up the traffic of the links.
        for (mut request, from, to) in requested(stage, steps, layout, options.is_serial()) {
            let link = uses.iter().position(|link| link.from == from && link.to == to).unwrap_or_else(|| {
                uses.push(LinkUse { from, to, transfers: 0, bytes: 0, direct: true, busy: 0, waited: 0 });
                uses.len() - 1
            });
            request.link = link;
            uses[link].transfers += 1;
            uses[link].bytes += request.from.bytes() as u64;
            for region in [request.from, request.to] {
                if let Region::File { file, .. } = region {
                    uses[link].direct &=
                        files.get(file).and_then(Option::as_ref).is_some_and(SwapFile::is_direct);
                }
            }
            steps[request.step].kind = Kind::Transfer;
            tensors.push(stage.places.slots[steps[request.step].inputs[0]].name.clone());
            requests.push(request);
        }
        if requests.is_empty() {
            return Ok(None);
        }
        let traffic = Traffic::new(&requests, &touched(stage, steps));
        // SAFETY: the stage lives longer, and the memory of the regions does not move; sizes on both
        // sides were compared.
        let links = unsafe { Links::new(uses.len(), traffic.copies.clone(), files, options.clock) };
        let links = links.map_err(|source| Error::NoThread { source })?;
        Ok(Some(Self { links, traffic, tensors, uses, is_serial: options.is_serial(), clock: options.clock }))
    }

    /// Begins a run, in which no link has moved bytes yet.
    pub(crate) fn begin(&self) -> Vec<LinkUse> {
        self.links.reset();
        self.uses.clone()
    }

    /// Starts the copies that may start before a step, and waits for the copies that must end before the
    /// step.
    ///
    /// # Errors
    /// A copy failed.
    pub(crate) fn move_before(&self, position: usize, uses: &mut [LinkUse]) -> Result<(), Error> {
        for copy in &self.traffic.issue[position] {
            // SAFETY: according to `Traffic`, every later step that touches the copy's bytes waits for
            // it.
            unsafe { self.links.issue(*copy) };
        }
        let at_once = self.traffic.issue[position].iter().filter(|_| self.is_serial);
        self.traffic.wait[position].iter().chain(at_once).try_for_each(|copy| self.wait_for(*copy, uses))
    }

    fn wait_for(&self, copy: usize, uses: &mut [LinkUse]) -> Result<(), Error> {
        let now = || self.clock.map_or(0, |clock| clock());
        let before = now();
        let outcome = self.links.wait(copy);
        let link = self.traffic.copies[copy].link;
        uses[link].waited = uses[link].waited.saturating_add(now().saturating_sub(before));
        outcome.map_err(|source| Error::Transfer {
            tensor: self.tensors[copy].clone(),
            from: self.uses[link].from.clone(),
            to: self.uses[link].to.clone(),
            source,
        })
    }

    /// Ends a run that reached its last step.
    ///
    /// # Errors
    /// A copy failed.
    pub(crate) fn end(&self, uses: &mut [LinkUse]) -> Result<(), Error> {
        (0..self.traffic.copies.len()).try_for_each(|copy| self.wait_for(copy, uses))?;
        for (number, link) in uses.iter_mut().enumerate() {
            link.busy = self.links.busy(number);
        }
        Ok(())
    }

    /// Waits for all running copies even after a failed run, because their memory is reused.
    pub(crate) fn stop(&self) {
        self.links.drain();
    }
}

/// Makes a file for each space that is not memory and has a planned size.
fn files(layout: &Layout, options: &PlayOptions) -> Result<Vec<Option<SwapFile>>, Error> {
    let folder = options.swap_folder.clone().unwrap_or_else(std::env::temp_dir);
    let file = |arena: &memc_layout::Arena| {
        let is_file = options.is_file(&arena.space) && arena.size > 0;
        is_file.then(|| SwapFile::create(&folder, &arena.space, arena.size, arena.alignment)).transpose()
    };
    layout.arenas.iter().map(file).collect()
}

/// Writes the initializers that the plan places in files to their places.
fn write_constants(stage: &Stage<'_>, files: &[Option<SwapFile>]) -> Result<(), Error> {
    for (position, slot) in stage.places.slots.iter().enumerate() {
        let Place::File { arena, offset } = slot.place else { continue };
        let (Some(weight), Some(file)) = (stage.placed_constant(position), &files[arena]) else { continue };
        let (tensor, to) = (slot.name.clone(), stage.spaces[arena].clone());
        let told = |source| Error::Transfer { tensor, from: String::new(), to, source };
        file.write(weight.bytes(), offset as u64, &mut None).map_err(told)?;
    }
    Ok(())
}

/// Returns the steps that only move bytes between known places, as copies with the names of their two
/// spaces.
fn requested(
    stage: &Stage<'_>,
    steps: &[Step<'_>],
    layout: &Layout,
    is_serial: bool,
) -> Vec<(Request, String, String)> {
    let fetched: BTreeMap<usize, &Fetch> =
        layout.fetches.iter().filter_map(|row| Some((usize::try_from(row.step).ok()?, row))).collect();
    let mut requests = Vec::new();
    for (position, step) in steps.iter().enumerate() {
        let (Some(from), [to]) = (step.inputs.first(), &step.outputs[..]) else { continue };
        let fetch = fetched.get(&position).filter(|_| step.domain.is_empty());
        let part = fetch.and_then(|row| row.part.as_ref()).filter(|_| step.op == "Slice");
        let is_copy =
            step.inputs.len() == 1 && (step.is_transfer || fetch.is_some() && step.op == "Identity");
        if step.kind != Kind::Run || !(is_copy || part.is_some()) {
            continue;
        }
        let source = part.map_or_else(|| region(stage, *from), |part| runs(stage, *from, part));
        let (Some(source), Some(target)) = (source, region(stage, *to)) else { continue };
        if source.bytes() != target.bytes() {
            continue;
        }
        let near = fetch.map_or_else(|| space(stage, *from), |row| row.from.clone());
        let is_store = step.op == "SwapOut" && !is_serial;
        let earliest =
            if is_store { earliest(stage, &steps[..position], *from, *to, &target) } else { position };
        requests.push((
            Request { step: position, earliest, link: 0, from: source, to: target },
            near,
            space(stage, *to),
        ));
    }
    requests
}

fn region(stage: &Stage<'_>, slot: usize) -> Option<Region> {
    let data = &stage.places.slots[slot];
    match data.place {
        Place::File { arena, offset } => {
            Some(Region::File { file: arena, offset: offset as u64, bytes: data.bytes })
        }
        _ => Some(Region::Memory { start: stage.span(slot)?.0, bytes: data.bytes }),
    }
}

/// Returns the bytes of a part of a constant in memory; `None` if the constant has no such part, or elements
/// of less than a byte.
fn runs(stage: &Stage<'_>, slot: usize, part: &FetchedPart) -> Option<Region> {
    let data = &stage.places.slots[slot];
    let shape: Vec<usize> =
        data.ty.as_ref()?.1.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<_>>()?;
    let number = |number: u64| usize::try_from(number).ok();
    let (axis, first, end) = (number(part.axis)?, number(part.start)?, number(part.end)?);
    let extent = *shape.get(axis)?;
    let product =
        |extents: &[usize]| extents.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
    let (count, share) = (product(&shape[..axis])?, product(&shape[..axis])?.checked_mul(extent)?);
    // Bytes of one position of the axis.
    let each = data.bytes.checked_div(share).filter(|each| each.checked_mul(share) == Some(data.bytes))?;
    let run = end.checked_sub(first).filter(|_| end <= extent)?.checked_mul(each)?;
    let Some(Region::Memory { start, .. }) = region(stage, slot) else { return None };
    Some(Region::Runs {
        start: start.checked_add(first.checked_mul(each)?)?,
        run,
        stride: extent.checked_mul(each)?,
        count,
    })
}

fn space(stage: &Stage<'_>, slot: usize) -> String {
    match stage.places.slots[slot].place {
        Place::Arena { arena, .. } | Place::File { arena, .. } => stage.spaces[arena].clone(),
        _ => String::new(),
    }
}

/// Returns the first step before which a store may start that follows the steps `before`: its operand is
/// written, and its far bytes are free.
fn earliest(stage: &Stage<'_>, before: &[Step<'_>], from: usize, to: usize, target: &Region) -> usize {
    let written = before.iter().rposition(|step| step.outputs.contains(&from));
    let others = (0..stage.places.slots.len()).filter(|slot| *slot != to);
    let others = others.filter_map(|slot| Some((region(stage, slot)?, stage.places.slots[slot].live)));
    free_from(target, before.len(), others).max(written.map_or(0, |step| step + 1))
}

/// Returns the bytes that each step's kernel touches.
fn touched(stage: &Stage<'_>, steps: &[Step<'_>]) -> Vec<Touched> {
    let of = |(position, step): (usize, &Step<'_>)| {
        if step.kind != Kind::Run {
            return Touched::default();
        }
        let regions = |slots: &[usize]| slots.iter().filter_map(|slot| region(stage, *slot)).collect();
        let mut touched = Touched { reads: regions(&step.inputs), writes: regions(&step.outputs) };
        touched.writes.extend(stage.places.workspace.get(&(position as u64)).map(|work| {
            let start = stage.arenas[work.arena].address(work.offset).expose_provenance();
            Region::Memory { start, bytes: work.bytes }
        }));
        touched
    };
    steps.iter().enumerate().map(of).collect()
}
