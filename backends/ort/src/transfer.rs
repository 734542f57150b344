//! Transfers of a plan: the nodes that move bytes between spaces, made ready and played on worker threads.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use memc_layout::{Class, Layout};
use memc_onnx_proto::onnx::NodeProto;

use crate::error::Error;
use crate::links::{Links, Region};
use crate::places::Place;
use crate::player::{Played, Player};
use crate::prepare::Kind;
use crate::swap_file::SwapFile;
use crate::traffic::{Request, Touched, Traffic, free_from};

/// Domain of the transfer operators.
const DOMAIN: &str = "ai.memc";

/// What one link between two spaces moved in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// Space that is read; empty for initializers that no space holds.
    pub from: String,
    /// Space that is written.
    pub to: String,
    /// Copies.
    pub transfers: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Whether transfers go past the system's cache; always so where both spaces are memory.
    pub direct: bool,
    /// Nanoseconds in which the link moved bytes; 0 without a clock.
    pub busy: u64,
    /// Nanoseconds in which kernels waited for the link; 0 without a clock.
    pub waited: u64,
}

/// The copies of a plan, with the threads that make them.
#[derive(Debug)]
pub(crate) struct Transfers {
    links: Links,
    traffic: Traffic,
    /// Name of the tensor of each copy.
    tensors: Vec<String>,
    /// What each link will have moved after a run.
    uses: Vec<LinkUse>,
}

/// Whether a node is a transfer.
pub(crate) fn is_transfer(node: &NodeProto) -> bool {
    node.domain() == DOMAIN && matches!(node.op_type(), "SwapOut" | "SwapIn") && node.input.len() == 1 && node.output.len() == 1
}

impl Player<'_> {
    /// Makes the files of spaces that are no memory, writes the constants that spaces hold, and starts the links.
    ///
    /// # Errors
    /// A file or a thread cannot be made.
    pub(crate) fn make_transfers(&mut self, layout: &Layout) -> Result<(), Error> {
        let folder = self.options.swap_folder.clone().unwrap_or_else(std::env::temp_dir);
        let mut files = Vec::with_capacity(layout.arenas.len());
        for arena in &layout.arenas {
            let file = self.options.is_file(&arena.space) && arena.size > 0;
            let file = file.then(|| SwapFile::create(&folder, &arena.space, arena.size, arena.alignment));
            files.push(file.transpose()?);
        }
        self.fill_constants(&files)?;
        let requests = self.requests(layout);
        if requests.is_empty() {
            return Ok(());
        }
        let mut uses: Vec<LinkUse> = Vec::new();
        let mut list = Vec::with_capacity(requests.len());
        let mut tensors = Vec::with_capacity(requests.len());
        for (mut request, from, to) in requests {
            let link = uses.iter().position(|link| link.from == from && link.to == to).unwrap_or_else(|| {
                uses.push(LinkUse { from, to, transfers: 0, bytes: 0, direct: true, busy: 0, waited: 0 });
                uses.len() - 1
            });
            request.link = link;
            uses[link].transfers += 1;
            uses[link].bytes += request.from.bytes() as u64;
            for region in [request.from, request.to] {
                if let Region::File { file, .. } = region {
                    uses[link].direct &= files.get(file).and_then(Option::as_ref).is_some_and(SwapFile::is_direct);
                }
            }
            tensors.push(self.places.slots[self.steps[request.step].inputs[0]].name.clone());
            list.push(request);
        }
        let traffic = Traffic::new(&list, &self.touched());
        // SAFETY: the player drops the links before the memory that regions speak of; sizes on both sides were compared.
        let links = unsafe { Links::new(uses.len(), traffic.copies.clone(), files, self.options.clock) };
        let links = links.map_err(|source| Error::NoThread { source })?;
        self.transfers = Some(Transfers { links, traffic, tensors, uses });
        Ok(())
    }

    /// Copies initializers that the plan puts into a space to their places there.
    fn fill_constants(&mut self, files: &[Option<SwapFile>]) -> Result<(), Error> {
        for slot in &self.places.slots {
            let Some(weight) = self.weights.tensors.get(&slot.name).filter(|_| slot.class == Some(Class::Constant)) else {
                continue;
            };
            match slot.place {
                Place::Arena { arena, offset } => {
                    self.arenas[arena].bytes_mut()[offset..offset + slot.bytes].copy_from_slice(weight.bytes());
                }
                Place::File { arena, offset } => {
                    let Some(file) = files.get(arena).and_then(Option::as_ref) else { continue };
                    let told = |source| Error::Transfer {
                        tensor: slot.name.clone(),
                        from: String::new(),
                        to: self.spaces[arena].clone(),
                        source,
                    };
                    file.write(weight.bytes(), offset as u64, &mut None).map_err(told)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Constants that lie in memory that poison has filled.
    pub(crate) fn refill_constants(&mut self) -> Result<(), Error> {
        self.fill_constants(&[])
    }

    fn region(&self, slot: usize) -> Option<Region> {
        let data = &self.places.slots[slot];
        match data.place {
            Place::File { arena, offset } => Some(Region::File { file: arena, offset: offset as u64, bytes: data.bytes }),
            _ => Some(Region::Memory { start: self.address(slot)?.expose_provenance(), bytes: data.bytes }),
        }
    }

    fn space(&self, slot: usize) -> String {
        match self.places.slots[slot].place {
            Place::Arena { arena, .. } | Place::File { arena, .. } => self.spaces[arena].clone(),
            _ => String::new(),
        }
    }

    /// Steps that only move bytes between places that are known, as copies with the names of their spaces.
    fn requests(&mut self, layout: &Layout) -> Vec<(Request, String, String)> {
        let fetched: BTreeMap<usize, &str> =
            layout.fetches.iter().filter_map(|row| Some((usize::try_from(row.step).ok()?, row.from.as_str()))).collect();
        let mut requests = Vec::new();
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            let ([from], [to]) = (&step.inputs[..], &step.outputs[..]) else { continue };
            if step.kind != Kind::Run || !(step.is_transfer || fetched.contains_key(&position) && step.op == "Identity") {
                continue;
            }
            let (Some(source), Some(target)) = (self.region(*from), self.region(*to)) else { continue };
            if source.bytes() != target.bytes() {
                continue;
            }
            let near = fetched.get(&position).map_or_else(|| self.space(*from), |space| (*space).to_owned());
            let far = self.space(*to);
            let earliest = if step.op == "SwapOut" { self.earliest(position, *from, *to, &target) } else { position };
            requests.push((Request { step: position, earliest, link: 0, from: source, to: target }, near, far));
            self.steps[position].kind = Kind::Transfer;
        }
        requests
    }

    /// First step before which a store may start. While values are watched, it is the store's own.
    fn earliest(&self, position: usize, from: usize, to: usize, target: &Region) -> usize {
        if self.options.poison_check {
            return position;
        }
        let written = self.steps[..position].iter().rposition(|step| step.outputs.contains(&from));
        let others = (0..self.places.slots.len()).filter(|slot| *slot != to);
        let others = others.filter_map(|slot| Some((self.region(slot)?, self.places.slots[slot].live)));
        free_from(target, position, others).max(written.map_or(0, |step| step + 1))
    }

    fn touched(&self) -> Vec<Touched> {
        let of = |(position, step): (usize, &crate::prepare::Step<'_>)| {
            if step.kind != Kind::Run {
                return Touched::default();
            }
            let regions = |slots: &[usize]| slots.iter().filter_map(|slot| self.region(*slot)).collect();
            let mut touched = Touched { reads: regions(&step.inputs), writes: regions(&step.outputs) };
            touched.writes.extend(self.places.workspace.get(&(position as u64)).map(|work| {
                let start = self.arenas[work.arena].address(work.offset).expose_provenance();
                Region::Memory { start, bytes: work.bytes }
            }));
            touched
        };
        self.steps.iter().enumerate().map(of).collect()
    }

    /// Starts the copies that may start before a step, and waits for those that the step needs to be over.
    ///
    /// # Errors
    /// A copy failed.
    pub(crate) fn move_before(&self, position: usize, played: &mut Played) -> Result<(), Error> {
        let Some(transfers) = &self.transfers else { return Ok(()) };
        for copy in &transfers.traffic.issue[position] {
            // SAFETY: `Traffic` makes every later step wait that touches the copy's bytes.
            unsafe { transfers.links.issue(*copy) };
        }
        for copy in &transfers.traffic.wait[position] {
            self.wait_for(*copy, played)?;
        }
        if self.options.poison_check {
            // What is watched is looked at right after its step.
            for copy in &transfers.traffic.issue[position] {
                self.wait_for(*copy, played)?;
            }
        }
        Ok(())
    }

    fn wait_for(&self, copy: usize, played: &mut Played) -> Result<(), Error> {
        let Some(transfers) = &self.transfers else { return Ok(()) };
        let now = || self.options.clock.map_or(0, |clock| clock());
        let before = now();
        let outcome = transfers.links.wait(copy);
        let link = transfers.traffic.copies[copy].link;
        if let Some(link) = played.links.get_mut(link) {
            link.waited = link.waited.saturating_add(now().saturating_sub(before));
        }
        outcome.map_err(|source| Error::Transfer {
            tensor: transfers.tensors[copy].clone(),
            from: transfers.uses[link].from.clone(),
            to: transfers.uses[link].to.clone(),
            source,
        })
    }

    /// Begins a run: nothing is moved yet.
    pub(crate) fn begin_transfers(&self, played: &mut Played) {
        if let Some(transfers) = &self.transfers {
            transfers.links.reset();
            played.links.clone_from(&transfers.uses);
        }
    }

    /// Ends a run that came to its last step.
    ///
    /// # Errors
    /// A copy failed.
    pub(crate) fn end_transfers(&self, played: &mut Played) -> Result<(), Error> {
        let Some(transfers) = &self.transfers else { return Ok(()) };
        (0..transfers.traffic.copies.len()).try_for_each(|copy| self.wait_for(copy, played))?;
        for (number, link) in played.links.iter_mut().enumerate() {
            link.busy = transfers.links.busy(number);
        }
        Ok(())
    }

    /// Waits for what still moves, however the run ended: its memory is used again.
    pub(crate) fn stop_transfers(&self) {
        if let Some(transfers) = &self.transfers {
            transfers.links.drain();
        }
    }
}
