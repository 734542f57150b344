//! The normal form that all placement solvers use: live ranges in sections instead of steps.
//!
//! Time is cut into *sections*: maximal runs of steps in which buffers first only start and then only
//! end. Between these two halves, all buffers of the section live together, and the live set of any
//! other moment is a subset of that set. So two ranges overlap in time exactly if they share a section,
//! and only the loads of sections matter.

use super::problem::{Buffer, Problem};

/// A rectangle of an item: sections `first..last`, bytes `low..high` relative to the item's offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub first: u32,
    pub last: u32,
    pub low: u64,
    pub high: u64,
}

/// A buffer that needs a place: it has bytes, and they live at some step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Index in [`Problem::buffers`].
    pub buffer: u32,
    /// The item's parts are `parts[part_from..part_to]`, sorted by section.
    pub part_from: u32,
    pub part_to: u32,
    pub size: u64,
    pub alignment: u64,
    pub fixed: Option<u64>,
    /// First section, and the section after the last.
    pub first: u32,
    pub last: u32,
    /// Number of live steps.
    pub duration: u32,
}

/// A problem in sections.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    pub items: Vec<Item>,
    pub parts: Vec<Part>,
    pub sections: usize,
    /// Live bytes of each section.
    pub load: Vec<u64>,
    /// Whether some item lives only partly at some step.
    pub windowed: bool,
    /// Whether some item has a fixed offset.
    pub has_fixed: bool,
}

impl Normal {
    /// Converts a valid problem. O(n log n).
    pub fn new(problem: &Problem) -> Self {
        let mut normal = Self {
            items: Vec::with_capacity(problem.buffers.len()),
            parts: Vec::new(),
            sections: 0,
            load: Vec::new(),
            windowed: false,
            has_fixed: false,
        };
        for (index, buffer) in problem.buffers.iter().enumerate() {
            normal.push(index, buffer);
        }
        normal.cut_into_sections();
        for index in 0..normal.items.len() {
            let parts = normal.parts_of(index);
            let (first, last) =
                (parts.iter().map(|part| part.first).min(), parts.iter().map(|part| part.last).max());
            let item = &mut normal.items[index];
            (item.first, item.last) = (first.unwrap_or(0), last.unwrap_or(0));
        }
        normal.load = normal.loads(|part| part.high - part.low);
        normal
    }

    /// Returns the parts of item `index`.
    pub fn parts_of(&self, index: usize) -> &[Part] {
        let item = &self.items[index];
        &self.parts[item.part_from as usize..item.part_to as usize]
    }

    /// Whether every item is one complete part: no buffer has gaps.
    pub fn is_whole(&self) -> bool {
        !self.windowed && self.parts.len() == self.items.len()
    }

    /// Whether every item is one complete part and no offset is fixed.
    pub fn is_plain(&self) -> bool {
        !self.has_fixed && self.is_whole()
    }

    /// Whether two items live together in some section. O(parts of both).
    pub fn meet(&self, one: u32, other: u32) -> bool {
        let (a, b) = (&self.items[one as usize], &self.items[other as usize]);
        let are_near = a.first < b.last && b.first < a.last;
        let are_whole = a.part_to - a.part_from == 1 && b.part_to - b.part_from == 1;
        are_near && (are_whole || self.together(one, other).next().is_some())
    }

    /// Returns each two parts of two items that live together, in order of time. O(parts of both).
    pub fn together(&self, one: u32, other: u32) -> impl Iterator<Item = (&Part, &Part)> {
        let (mut ones, mut others) = (self.parts_of(one as usize), self.parts_of(other as usize));
        std::iter::from_fn(move || {
            while let (Some(a), Some(b)) = (ones.first(), others.first()) {
                // The part that ends first meets no later part of the other item.
                if a.last <= b.last {
                    ones = &ones[1..];
                } else {
                    others = &others[1..];
                }
                if a.first < b.last && b.first < a.last {
                    return Some((a, b));
                }
            }
            None
        })
    }

    /// Returns the highest end of an item at these offsets, in bytes.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        offsets.iter().zip(&self.items).map(|(offset, item)| offset + item.size).max().unwrap_or(0)
    }

    /// Sums a weight of the parts over each section. O(parts + sections).
    pub fn loads(&self, weight: impl Fn(&Part) -> u64) -> Vec<u64> {
        let mut change = vec![0_u64; self.sections + 1];
        for part in &self.parts {
            let bytes = weight(part);
            change[part.first as usize] = change[part.first as usize].wrapping_add(bytes);
            change[part.last as usize] = change[part.last as usize].wrapping_sub(bytes);
        }
        change.pop();
        let mut running = 0_u64;
        for value in &mut change {
            running = running.wrapping_add(*value);
            *value = running;
        }
        change
    }

    /// Adds a buffer. Its parts hold steps until `cut_into_sections` replaces them by sections.
    fn push(&mut self, index: usize, buffer: &Buffer) {
        let part_from = self.parts.len() as u32;
        let mut from = buffer.start;
        for gap in &buffer.gaps {
            self.push_part(from, gap.start, (0, buffer.size));
            if let Some(window) = gap.window {
                self.push_part(gap.start, gap.end, window);
                self.windowed |= window != (0, buffer.size);
            }
            from = gap.end;
        }
        self.push_part(from, buffer.end, (0, buffer.size));
        let part_to = self.parts.len() as u32;
        if part_from == part_to {
            return;
        }
        let duration = self.parts[part_from as usize..].iter().map(|part| part.last - part.first).sum();
        self.has_fixed |= buffer.fixed_offset.is_some();
        self.items.push(Item {
            buffer: index as u32,
            part_from,
            part_to,
            size: buffer.size,
            alignment: buffer.alignment,
            fixed: buffer.fixed_offset,
            first: 0,
            last: 0,
            duration,
        });
    }

    fn push_part(&mut self, start: u32, end: u32, (low, high): (u64, u64)) {
        if start < end && low < high {
            self.parts.push(Part { first: start, last: end, low, high });
        }
    }

    fn cut_into_sections(&mut self) {
        // A key holds the time and whether it is a start; ends sort before starts. One sort of plain
        // integers is the fastest way to sweep.
        let mut events: Vec<(u64, u32)> = Vec::with_capacity(self.parts.len() * 2);
        for (number, part) in self.parts.iter().enumerate() {
            events.push((u64::from(part.first) * 2 + 1, number as u32));
            events.push((u64::from(part.last) * 2, number as u32));
        }
        events.sort_unstable();
        let mut section = 0_u32;
        let mut ended = false;
        for (key, number) in events {
            let part = &mut self.parts[number as usize];
            if key % 2 == 1 {
                section += u32::from(ended);
                ended = false;
                part.first = section;
            } else {
                ended = true;
                part.last = section + 1;
            }
        }
        self.sections = if self.parts.is_empty() { 0 } else { section as usize + 1 };
    }
}

/// Returns the smallest multiple of `alignment` that is at least `offset`.
pub(super) fn align_up(offset: u64, alignment: u64) -> u64 {
    if alignment.is_power_of_two() {
        (offset + (alignment - 1)) & !(alignment - 1)
    } else {
        offset.div_ceil(alignment) * alignment
    }
}
