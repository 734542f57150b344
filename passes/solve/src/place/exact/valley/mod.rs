//! Branch and bound on the valleys of the skyline, for problems with little room to spare.
//!
//! A state is a skyline and the items above it. A *valley* is a flat stretch between two higher walls;
//! an item on its ground must fit between them. So any section of a valley has few continuations. Either
//! an item that covers the section and fits between the walls is placed on the ground there. Or the
//! section stays empty up to the lower wall, or up to the lowest top of another item that fits into the
//! valley. Empty space reduces the section's *slack*, its ceiling minus its load. A section without
//! slack must continue with an item. The search decides the section with the fewest continuations first,
//! weighted by the failures that it caused before (after Boussemart, Hemery, Lecoutre and Sais,
//! *Boosting Systematic Search by Weighting Constraints*, ECAI 2004).

mod stack;

use super::instance::Instance;
use super::ranking::Order;
use super::search::Verdict;
use crate::basics::no_goods::{MAX_STATES, NoGoods, mix};

/// A change of the skyline, or a placed item.
#[derive(Clone, Copy, Debug)]
enum Change {
    Sky { section: u32, before: u32 },
    Item(u32),
}

/// A flat stretch of the skyline between higher walls.
#[derive(Clone, Copy, Debug)]
struct Valley {
    first: u32,
    last: u32,
    ground: u32,
    /// Top of the lower wall; `u32::MAX` if no free item crosses the borders.
    wall: u32,
    /// Smallest extent of an item that fits between the walls.
    least: u32,
}

/// Rule for choosing the section to decide next. The fastest rule differs between problems.
#[derive(Clone, Copy, Debug)]
pub(in crate::place) enum Choice {
    /// The number of items that may be placed there, scaled up if the section has much slack.
    Items,
    /// The number of continuations.
    Options,
    /// The product of continuations and slack.
    Slack,
}

/// The next action of the search.
enum Step {
    /// The section cannot be filled.
    Dead(u32),
    /// Sections were raised, so examine the skyline again.
    Again,
    /// Place one of the items on the ground of the section, or leave the section empty up to height
    /// `skip`.
    Branch { section: u32, skip: Option<u32> },
}

/// The search at one capacity.
pub(in crate::place) struct ValleySearch<'a> {
    instance: &'a Instance,
    choice: Choice,
    rank: Vec<u32>,
    highest: Vec<u32>,
    ceiling: Vec<u32>,
    sky: Vec<u32>,
    /// Granules of the free items of each section.
    open: Vec<u32>,
    /// Number of free items that live both in this section and in the one before it.
    crossing: Vec<u32>,
    placed: Vec<bool>,
    /// Each section's part of the state's hash: its height times a random factor, plus the codes of the
    /// free items that start in it.
    key: Vec<u128>,
    factor: Vec<u128>,
    code: Vec<u128>,
    trail: Vec<Change>,
    valleys: Vec<Valley>,
    /// Valley of each section, or `u32::MAX`.
    valley_of: Vec<u32>,
    covering: Vec<u32>,
    resting: Vec<u64>,
    /// Ceiling of each section as a signed number.
    height: Vec<i32>,
    /// Room of each section under the ceiling. It is signed because that compares faster.
    room: Vec<i32>,
    /// Index of each section's flat stretch, and the height of each stretch.
    stretch_of: Vec<u32>,
    grounds: Vec<u32>,
    /// Failures of each section, plus 1.
    pub weight: Vec<u32>,
    pub offsets: Vec<u32>,
    pub nodes: u64,
    limit: u64,
}

const NONE: u32 = u32::MAX;

impl<'a> ValleySearch<'a> {
    /// Creates a search for height `capacity` in bytes. Returns `None` if an item is aligned, fixed or
    /// has gaps, or does not fit.
    pub fn new(instance: &'a Instance, capacity: u64, order: &Order, choice: Choice) -> Option<Self> {
        let count = instance.items();
        // Reject problems that the search cannot handle.
        let plain = |item: u32| {
            let index = item as usize;
            let whole = instance.item_sections.of(item).len()
                == (instance.last[index] - instance.first[index]) as usize;
            whole && instance.alignment[index] == 1 && instance.fixed[index].is_none()
        };
        let sections = instance.padding.len();
        let (highest, ceiling) = instance.limits(capacity);
        if !(0..count as u32).all(plain) || highest.contains(&NONE) {
            return None;
        }
        let mut rank = vec![0; count];
        for (place, item) in order.items.iter().enumerate() {
            rank[*item as usize] = place as u32;
        }
        let mut search = Self {
            instance,
            choice,
            rank,
            highest,
            height: ceiling.iter().map(|top| *top as i32).collect(),
            ceiling,
            sky: vec![0; sections],
            open: vec![0; sections],
            crossing: vec![0; sections + 1],
            placed: vec![true; count],
            key: vec![0; sections],
            factor: (0..sections as u32).map(|section| mix(section, 0)).collect(),
            code: (0..count as u32).map(|item| mix(item, NONE)).collect(),
            trail: Vec::new(),
            valleys: Vec::new(),
            valley_of: vec![NONE; sections],
            covering: vec![0; sections + 1],
            resting: Vec::new(),
            room: vec![0; sections],
            stretch_of: vec![0; sections],
            grounds: Vec::new(),
            weight: vec![1; sections],
            offsets: vec![0; count],
            nodes: 0,
            limit: 0,
        };
        // All items start as placed; removing them fills the loads and the hash.
        (0..count as u32).for_each(|item| search.take_out(item));
        Some(search)
    }

    /// Searches from the empty placement for at most `limit` nodes.
    pub fn run(&mut self, limit: u64, no_goods: &mut NoGoods) -> Verdict {
        self.limit = self.nodes + limit;
        let sections = self.sky.len() as u32;
        if (0..sections as usize).any(|section| self.open[section] > self.ceiling[section]) {
            return Verdict::Impossible;
        }
        self.split(0, sections, no_goods)
    }

    /// Solves sections `first..last`. Each stretch whose borders no free item crosses is solved by
    /// itself.
    fn split(&mut self, first: u32, last: u32, no_goods: &mut NoGoods) -> Verdict {
        let undo = self.trail.len();
        let mut from = first;
        while from < last {
            let end = (from + 1..last).find(|section| self.crossing[*section as usize] == 0).unwrap_or(last);
            let verdict =
                if self.open[from as usize] == 0 { Verdict::Found } else { self.node(from, end, no_goods) };
            if verdict != Verdict::Found {
                self.undo(undo);
                return verdict;
            }
            from = end;
        }
        Verdict::Found
    }

    /// Solves connected sections.
    fn node(&mut self, first: u32, last: u32, no_goods: &mut NoGoods) -> Verdict {
        self.nodes += 1;
        if self.nodes > self.limit {
            return Verdict::Limit;
        }
        let state =
            self.key[first as usize..last as usize].iter().fold(0_u128, |sum, key| sum.wrapping_add(*key));
        if no_goods.contains(&state) {
            return Verdict::Impossible;
        }
        let undo = self.trail.len();
        let dead = loop {
            match self.step(first, last) {
                Step::Dead(section) => break section,
                Step::Again => {}
                Step::Branch { section, skip } => {
                    for item in self.candidates(section) {
                        let before = self.trail.len();
                        self.place(item, self.sky[section as usize]);
                        let verdict = self.split(first, last, no_goods);
                        if verdict != Verdict::Impossible {
                            return verdict;
                        }
                        self.undo(before);
                    }
                    match skip {
                        Some(height) => self.raise(section, height),
                        None => break section,
                    }
                }
            }
        };
        self.weight[dead as usize] += 1;
        self.undo(undo);
        if no_goods.len() < MAX_STATES {
            no_goods.insert(state);
        }
        Verdict::Impossible
    }

    /// Finds the section to decide next.
    fn step(&mut self, first: u32, last: u32) -> Step {
        if let Some(section) = self.overfull(first, last) {
            return Step::Dead(section);
        }
        self.find_valleys(first, last);
        self.count_candidates(first, last);
        let mut raised = false;
        let mut best: Option<(u64, u32, u32)> = None;
        for index in 0..self.valleys.len() {
            let valley = self.valleys[index];
            let gap = valley.wall.min(valley.ground.saturating_add(valley.least)) - valley.ground;
            let mut covering = 0_u32;
            for section in valley.first..valley.last {
                let at = section as usize;
                covering = covering.wrapping_add(self.covering[at]);
                let slack = self.ceiling[at] - self.sky[at] - self.open[at];
                let options = covering + u32::from(slack >= gap);
                if options == 0 {
                    return Step::Dead(section);
                }
                if covering == 0 {
                    self.raise(section, valley.ground + gap);
                    raised = true;
                    continue;
                }
                let entry = (self.score(at, covering, slack, gap), valley.ground, section);
                if best.is_none_or(|best| entry < best) {
                    best = Some(entry);
                }
            }
        }
        match best {
            Some((_, _, section)) if !raised => Step::Branch { section, skip: self.skip(section) },
            _ => Step::Again,
        }
    }

    /// Returns the priority of deciding a section now, smallest first: its continuations divided by its
    /// failures.
    fn score(&self, at: usize, covering: u32, slack: u32, gap: u32) -> u64 {
        let (slack, gap) = (u64::from(slack), u64::from(gap));
        let continuations = match self.choice {
            Choice::Items => u64::from(covering) * (slack / 16 + gap) / gap,
            Choice::Options => u64::from(covering) + u64::from(slack >= gap),
            Choice::Slack => {
                (u64::from(covering) + u64::from(slack >= gap)) * (slack + u64::from(self.ceiling[at]) / 16)
            }
        };
        // Slack is below 2^30, so the product is below 2^64 for up to 1024 items.
        continuations.min(1 << 40) * (1 << 20) / u64::from(self.weight[at])
    }

    /// Returns the height up to which a section of a valley is empty if none of its candidates is placed
    /// there; `None` if its slack is too small.
    fn skip(&self, section: u32) -> Option<u32> {
        let at = section as usize;
        let valley = self.valleys[self.valley_of[at] as usize];
        let others = self.free_items(valley.first, valley.last).filter(|item| {
            let index = *item as usize;
            self.fits(index, &valley)
                && !(self.instance.first[index] <= section && section < self.instance.last[index])
        });
        let least = others.map(|item| self.instance.extent[item as usize]).min().unwrap_or(NONE);
        let height = valley.wall.min(valley.ground.saturating_add(least));
        (height <= self.ceiling[at] - self.open[at]).then_some(height)
    }

    fn fits(&self, index: usize, valley: &Valley) -> bool {
        valley.first <= self.instance.first[index] && self.instance.last[index] <= valley.last
    }

    /// Returns the free items that start in sections `first..last`.
    fn free_items(&self, first: u32, last: u32) -> impl Iterator<Item = u32> + '_ {
        let from = self.instance.first.partition_point(|start| *start < first);
        let to = from + self.instance.first[from..].partition_point(|start| *start < last);
        (from as u32..to as u32).filter(|item| !self.placed[*item as usize])
    }

    fn find_valleys(&mut self, first: u32, last: u32) {
        self.valleys.clear();
        let mut from = first;
        let mut left = NONE;
        while from < last {
            let ground = self.sky[from as usize];
            let mut end = from + 1;
            while end < last && self.sky[end as usize] == ground {
                end += 1;
            }
            let right = if end < last { self.sky[end as usize] } else { NONE };
            let is_valley = left > ground && right > ground;
            let number = if is_valley { self.valleys.len() as u32 } else { NONE };
            self.valley_of[from as usize..end as usize].fill(number);
            if is_valley {
                self.covering[from as usize..end as usize].fill(0);
                self.valleys.push(Valley {
                    first: from,
                    last: end,
                    ground,
                    wall: left.min(right),
                    least: NONE,
                });
            }
            (from, left) = (end, ground);
        }
    }

    /// Counts the candidates of each section as differences, and finds the smallest item of each valley.
    fn count_candidates(&mut self, first: u32, last: u32) {
        let from = self.instance.first.partition_point(|start| *start < first);
        for index in from..self.placed.len() {
            let start = self.instance.first[index];
            if start >= last {
                break;
            }
            let number = self.valley_of[start as usize];
            if self.placed[index] || number == NONE {
                continue;
            }
            let end = self.instance.last[index];
            let valley = &mut self.valleys[number as usize];
            if end > valley.last {
                continue;
            }
            valley.least = valley.least.min(self.instance.extent[index]);
            let is_first = self.instance.twin[index].is_none_or(|twin| self.placed[twin as usize]);
            if is_first && valley.ground <= self.highest[index] {
                self.covering[start as usize] = self.covering[start as usize].wrapping_add(1);
                if end < valley.last {
                    self.covering[end as usize] = self.covering[end as usize].wrapping_sub(1);
                }
            }
        }
    }

    /// Returns the items that may be placed on the ground of a section in a valley, preferred items
    /// first.
    fn candidates(&self, section: u32) -> Vec<u32> {
        let valley = self.valleys[self.valley_of[section as usize] as usize];
        let may_lie = |item: &u32| {
            let index = *item as usize;
            self.fits(index, &valley)
                && section < self.instance.last[index]
                && valley.ground <= self.highest[index]
                && self.instance.twin[index].is_none_or(|twin| self.placed[twin as usize])
        };
        let mut items: Vec<u32> = self.free_items(valley.first, section + 1).filter(may_lie).collect();
        items.sort_unstable_by_key(|item| self.rank[*item as usize]);
        items
    }

    fn place(&mut self, item: u32, offset: u32) {
        let index = item as usize;
        let top = offset + self.instance.extent[index];
        let (first, last) = (self.instance.first[index], self.instance.last[index]);
        for section in first..last {
            self.raise(section, top);
            self.open[section as usize] -= self.instance.extent[index];
            self.crossing[section as usize] -= u32::from(section > first);
        }
        self.key[first as usize] = self.key[first as usize].wrapping_sub(self.code[index]);
        self.placed[index] = true;
        self.offsets[index] = offset;
        self.trail.push(Change::Item(item));
    }

    fn take_out(&mut self, item: u32) {
        let index = item as usize;
        let (first, last) = (self.instance.first[index], self.instance.last[index]);
        for section in first..last {
            self.open[section as usize] =
                self.open[section as usize].saturating_add(self.instance.extent[index]);
            self.crossing[section as usize] += u32::from(section > first);
        }
        self.key[first as usize] = self.key[first as usize].wrapping_add(self.code[index]);
        self.placed[index] = false;
    }

    fn raise(&mut self, section: u32, height: u32) {
        let before = self.sky[section as usize];
        self.trail.push(Change::Sky { section, before });
        self.set_sky(section, height);
    }

    fn set_sky(&mut self, section: u32, height: u32) {
        let at = section as usize;
        let rise = self.factor[at]
            .wrapping_mul(u128::from(height))
            .wrapping_sub(self.factor[at].wrapping_mul(u128::from(self.sky[at])));
        self.key[at] = self.key[at].wrapping_add(rise);
        self.sky[at] = height;
    }

    fn undo(&mut self, to: usize) {
        while self.trail.len() > to {
            match self.trail.pop() {
                Some(Change::Sky { section, before }) => self.set_sky(section, before),
                Some(Change::Item(item)) => self.take_out(item),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
