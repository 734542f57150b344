//! Branch and bound for the question "is there a placement of height at most C?".
//!
//! Buffers are placed from the bottom up, by non-decreasing offset, each on top of the buffers below it
//! (Moffitt's canonical order, MiniMalloc, 2023). Every placement can be pushed down to this form. A
//! partial placement affects the rest only through the offset at which each free buffer rests. So a
//! state is the list of these offsets, and failed states are remembered as hashes.

use super::instance::Instance;
use super::ranking::Order;
use crate::basics::no_goods::{MAX_STATES, NoGoods, mix};

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::place) enum Verdict {
    /// All buffers are placed.
    Found,
    /// No placement keeps the capacity.
    Impossible,
    /// The node limit was reached.
    Limit,
}

/// A saved change, for undoing it.
#[derive(Clone, Copy, Debug)]
struct Change {
    item: u32,
    rests: u32,
    least: u32,
    key: u128,
}

/// The search at one capacity.
pub(in crate::place) struct Search<'a> {
    instance: &'a Instance,
    /// Rank of each item in the order that breaks ties.
    rank: Vec<u32>,
    order: &'a Order,
    /// Highest allowed offset of each item.
    highest: Vec<u32>,
    /// Highest allowed top of each section, in granules.
    ceiling: Vec<u32>,
    /// Offset at which each item rests on the items placed below it.
    rests: Vec<u32>,
    /// Lower bound of each item's offset. An item that was passed over must first be lifted by another
    /// item.
    least: Vec<u32>,
    placed: Vec<bool>,
    /// Granules of the unplaced items of each section.
    open: Vec<u32>,
    /// Lowest allowed offset of a free item of each section.
    floor: Vec<u32>,
    floor_trail: Vec<(u32, u32)>,
    /// Sections whose floor must be computed again, and whether each section is listed.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    key: Vec<u128>,
    trail: Vec<Change>,
    lists: Vec<u32>,
    pub offsets: Vec<u32>,
    pub nodes: u64,
    limit: u64,
}

/// An offset and a rank. Later placements are never before this pair.
type Mark = (u32, u32);

impl<'a> Search<'a> {
    /// Creates a search for height `capacity` in bytes. `order` lists the items, preferred items first.
    pub fn new(instance: &'a Instance, capacity: u64, order: &'a Order) -> Self {
        let count = instance.items();
        let mut rank = vec![0; count];
        for (place, item) in order.items.iter().enumerate() {
            rank[*item as usize] = place as u32 + 1;
        }
        let (highest, ceiling) = instance.limits(capacity);
        let sections = instance.padding.len();
        let open = (0..sections as u32)
            .map(|section| {
                instance
                    .section_items
                    .of(section)
                    .iter()
                    .map(|item| instance.extent[*item as usize])
                    .fold(0, u32::saturating_add)
            })
            .collect();
        let rests: Vec<u32> = instance.fixed.iter().map(|fixed| fixed.unwrap_or(0)).collect();
        let mut search = Self {
            instance,
            rank,
            order,
            highest,
            ceiling,
            least: rests.clone(),
            rests,
            placed: vec![false; count],
            open,
            floor: vec![0; sections],
            floor_trail: Vec::new(),
            dirty: Vec::new(),
            is_dirty: vec![false; sections],
            key: vec![0; count],
            trail: Vec::new(),
            lists: Vec::new(),
            offsets: vec![0; count],
            nodes: 0,
            limit: 0,
        };
        for item in 0..count {
            search.key[item] = mix(item as u32, search.rests[item]);
        }
        search
    }

    /// Searches from the empty placement for at most `limit` nodes.
    pub fn run(&mut self, limit: u64, no_goods: &mut NoGoods) -> Verdict {
        let count = self.instance.items() as u32;
        self.limit = self.nodes + limit;
        for section in 0..self.open.len() as u32 {
            self.mark_dirty(section);
        }
        if self.highest.contains(&u32::MAX) || !self.floors_hold() {
            return Verdict::Impossible;
        }
        self.lists.clear();
        self.lists.extend(0..count);
        self.split(0, (0, 0), no_goods)
    }

    /// Solves the items of `lists[from..]`. Each group that shares no section with the others is solved
    /// by itself.
    fn split(&mut self, from: usize, mark: Mark, no_goods: &mut NoGoods) -> Verdict {
        let to = self.lists.len();
        let undo = self.mark_undo();
        let mut start = from;
        let mut ranks: Vec<(u32, u32)> = Vec::new();
        while start < to {
            let mut end = start + 1;
            let mut reach = self.instance.last[self.lists[start] as usize];
            while end < to && self.instance.first[self.lists[end] as usize] < reach {
                reach = reach.max(self.instance.last[self.lists[end] as usize]);
                end += 1;
            }
            let alone = start == from && end == to || end - start < 3;
            if !alone {
                ranks.extend(self.rerank(start..end));
            }
            // The lower bounds cover the items that were passed over, so the new ranks may start from
            // zero.
            let group_mark = if alone { mark } else { (mark.0, 0) };
            let verdict = self.group(start..end, group_mark, no_goods);
            if verdict != Verdict::Found {
                // The groups before this one are open again, so they get their old ranks back too.
                ranks.into_iter().for_each(|(item, rank)| self.rank[item as usize] = rank);
                self.undo(undo);
                self.take_out(from..start);
                return verdict;
            }
            start = end;
        }
        Verdict::Found
    }

    /// Ranks a group by the open loads; returns the old ranks.
    fn rerank(&mut self, range: std::ops::Range<usize>) -> Vec<(u32, u32)> {
        let items = &self.lists[range];
        let old: Vec<(u32, u32)> = items.iter().map(|item| (*item, self.rank[*item as usize])).collect();
        let load = |item: u32| {
            self.instance
                .item_sections
                .of(item)
                .iter()
                .map(|section| self.open[*section as usize])
                .max()
                .unwrap_or(0)
        };
        let mut keyed: Vec<_> = old
            .iter()
            .map(|(item, rank)| (self.order.key(self.instance, *item, u64::from(load(*item))), *rank, *item))
            .collect();
        keyed.sort_unstable();
        for (place, (_, _, item)) in keyed.into_iter().enumerate() {
            self.rank[item as usize] = place as u32 + 1;
        }
        old
    }

    /// Solves one group of items: places each candidate in turn and continues with the others.
    fn group(&mut self, range: std::ops::Range<usize>, mark: Mark, no_goods: &mut NoGoods) -> Verdict {
        self.nodes += 1;
        if self.nodes > self.limit {
            return Verdict::Limit;
        }
        if let [only] = self.lists[range.clone()] {
            return self.place_alone(only, mark);
        }
        let state = self.lists[range.clone()]
            .iter()
            .fold(0_u128, |sum, item| sum.wrapping_add(self.key[*item as usize]));
        if no_goods.contains(&state) {
            return Verdict::Impossible;
        }
        let undo = self.mark_undo();
        let ceiling = self.lowest_ceiling(range.clone());
        for (offset, rank, item) in self.candidates(range.clone(), mark) {
            // All later items have this offset or a higher one, and every section must still hold its
            // open items.
            if offset > ceiling {
                break;
            }
            let verdict = self.branch(item, (offset, rank), range.clone(), no_goods);
            if verdict != Verdict::Impossible {
                return verdict;
            }
            if !self.pass_over(item, (offset, rank)) || !self.floors_hold() {
                break;
            }
        }
        self.undo(undo);
        if no_goods.len() < MAX_STATES {
            no_goods.insert(state);
        }
        Verdict::Impossible
    }

    /// Places one item of a group and solves the others.
    fn branch(
        &mut self,
        item: u32,
        mark: Mark,
        range: std::ops::Range<usize>,
        no_goods: &mut NoGoods,
    ) -> Verdict {
        let undo = self.mark_undo();
        let own = self.lists.len();
        self.lists.push(item);
        let from = own + 1;
        for place in range {
            let other = self.lists[place];
            if other != item {
                self.lists.push(other);
            }
        }
        let fits = self.place(item, mark, from);
        let verdict = if fits { self.split(from, mark, no_goods) } else { Verdict::Impossible };
        if verdict != Verdict::Found {
            self.undo(undo);
            self.take_out(own..from);
        }
        self.lists.truncate(own);
        verdict
    }

    /// Returns the highest offset that the next placement of a group may have.
    fn lowest_ceiling(&self, range: std::ops::Range<usize>) -> u32 {
        let items = &self.lists[range];
        let first = items.first().map_or(0, |item| self.instance.first[*item as usize]) as usize;
        let last = items.iter().map(|item| self.instance.last[*item as usize]).max().unwrap_or(0) as usize;
        let sections = self.open[first..last].iter().zip(&self.ceiling[first..last]);
        sections
            .filter(|(open, _)| **open > 0)
            .map(|(open, ceiling)| ceiling.saturating_sub(*open))
            .min()
            .unwrap_or(u32::MAX)
    }

    fn place_alone(&mut self, item: u32, mark: Mark) -> Verdict {
        let index = item as usize;
        let offset = self.rests[index];
        if offset > self.highest[index] || (offset, self.rank[index]) < mark || offset < self.least[index] {
            return Verdict::Impossible;
        }
        self.offsets[index] = offset;
        Verdict::Found
    }

    /// Returns the items that may be placed next, lowest offset first, ties by rank.
    fn candidates(&self, range: std::ops::Range<usize>, mark: Mark) -> Vec<(u32, u32, u32)> {
        let items = &self.lists[range];
        // No item starts at or above the lowest top of a free item: that free item could be pushed down
        // below it.
        let lowest_top = items
            .iter()
            .map(|item| self.rests[*item as usize] + self.instance.extent[*item as usize])
            .min()
            .unwrap_or(0);
        let lowest_fixed =
            items.iter().filter_map(|item| self.instance.fixed[*item as usize]).min().unwrap_or(u32::MAX);
        let may_come = |item: &&u32| {
            let index = **item as usize;
            let offset = self.rests[index];
            let follows = (offset, self.rank[index]) > mark && offset >= self.least[index];
            let fits = offset < lowest_top && offset <= lowest_fixed && offset <= self.highest[index];
            follows && fits && self.instance.twin[index].is_none_or(|twin| self.placed[twin as usize])
        };
        let mut list: Vec<_> = items
            .iter()
            .filter(may_come)
            .map(|item| (self.rests[*item as usize], self.rank[*item as usize], *item))
            .collect();
        list.sort_unstable();
        list
    }

    /// Places an item; returns `false` if the rest, `lists[from..]`, can no longer fit.
    fn place(&mut self, item: u32, mark: Mark, from: usize) -> bool {
        let instance = self.instance;
        let index = item as usize;
        self.placed[index] = true;
        self.offsets[index] = mark.0;
        for &section in instance.item_sections.of(item) {
            self.open[section as usize] -= instance.extent[index];
            if self.floor[section as usize] >= self.least[index] {
                self.mark_dirty(section);
            }
        }
        let top = mark.0 + instance.extent[index];
        let lifted = instance
            .overlaps
            .of(item)
            .iter()
            .all(|other| self.placed[*other as usize] || self.lift(*other, top));
        let passed = lifted && (from..self.lists.len()).all(|place| self.pass_over(self.lists[place], mark));
        // Clean the dirty sections in any case.
        self.floors_hold() && passed
    }

    /// Lifts a free item to `top`, after another item was placed below it. Returns `false` if it no
    /// longer fits.
    fn lift(&mut self, item: u32, top: u32) -> bool {
        let index = item as usize;
        if top <= self.rests[index] {
            return true;
        }
        let alignment = self.instance.alignment[index];
        let rests = if alignment == 1 { top } else { top.div_ceil(alignment) * alignment };
        if rests > self.highest[index] || self.instance.fixed[index].is_some() {
            return false;
        }
        self.save(item);
        self.rests[index] = rests;
        if rests > self.least[index] {
            self.raise_least(item, rests);
        }
        self.key[index] = mix(item, rests);
        true
    }

    /// Raises the bound of a free item that later placements pass over: another item must be placed
    /// below it first. Returns `false` if it no longer fits.
    fn pass_over(&mut self, item: u32, mark: Mark) -> bool {
        let index = item as usize;
        if (self.rests[index], self.rank[index]) > mark || self.least[index] > mark.0.max(self.rests[index]) {
            return true;
        }
        let lifts = |other: &u32| {
            (!self.placed[*other as usize])
                .then(|| self.least[*other as usize].max(mark.0) + self.instance.extent[*other as usize])
        };
        let lowest = self.instance.overlaps.of(item).iter().filter_map(lifts).min().unwrap_or(u32::MAX);
        if lowest > self.highest[index] || self.instance.fixed[index].is_some() {
            return false;
        }
        self.save(item);
        self.raise_least(item, lowest);
        self.key[index] = mix(item, u32::MAX);
        true
    }

    /// Raises the bound of an item, and marks the sections in which it was the lowest.
    fn raise_least(&mut self, item: u32, least: u32) {
        let index = item as usize;
        for &section in self.instance.item_sections.of(item) {
            if self.floor[section as usize] >= self.least[index] {
                self.mark_dirty(section);
            }
        }
        self.least[index] = least;
    }

    fn mark_dirty(&mut self, section: u32) {
        if !std::mem::replace(&mut self.is_dirty[section as usize], true) {
            self.dirty.push(section);
        }
    }

    /// Recomputes the floors of dirty sections. Returns whether each section can hold its free items
    /// above its floor.
    fn floors_hold(&mut self) -> bool {
        let mut hold = true;
        while let Some(section) = self.dirty.pop() {
            let at = section as usize;
            self.is_dirty[at] = false;
            if !hold || self.open[at] == 0 {
                continue;
            }
            let free =
                self.instance.section_items.of(section).iter().filter(|item| !self.placed[**item as usize]);
            let floor = free.map(|item| self.least[*item as usize]).min().unwrap_or(0);
            if floor != self.floor[at] {
                self.floor_trail.push((section, self.floor[at]));
                self.floor[at] = floor;
            }
            hold = floor.saturating_add(self.open[at]) <= self.ceiling[at];
        }
        hold
    }

    fn mark_undo(&self) -> (usize, usize) {
        (self.trail.len(), self.floor_trail.len())
    }

    fn save(&mut self, item: u32) {
        let index = item as usize;
        self.trail.push(Change {
            item,
            rests: self.rests[index],
            least: self.least[index],
            key: self.key[index],
        });
    }

    /// Removes the placed items of `lists[range]`.
    fn take_out(&mut self, range: std::ops::Range<usize>) {
        for place in range {
            let item = self.lists[place];
            if std::mem::replace(&mut self.placed[item as usize], false) {
                for &section in self.instance.item_sections.of(item) {
                    self.open[section as usize] += self.instance.extent[item as usize];
                }
            }
        }
    }

    fn undo(&mut self, to: (usize, usize)) {
        while self.trail.len() > to.0 {
            if let Some(change) = self.trail.pop() {
                let index = change.item as usize;
                (self.rests[index], self.least[index], self.key[index]) =
                    (change.rests, change.least, change.key);
            }
        }
        while self.floor_trail.len() > to.1 {
            if let Some((section, floor)) = self.floor_trail.pop() {
                self.floor[section as usize] = floor;
            }
        }
    }
}
