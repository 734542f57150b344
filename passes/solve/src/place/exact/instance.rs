//! The flat form of a placement problem for the exact search: heights in granules, overlaps as lists.

use crate::place::bound::{gcd, granule};
use crate::place::heuristics::orders::loads_met;
use crate::place::normal::Normal;

/// Most items of the exact search, which recurses once for each item. Larger problems are left to the
/// heuristics.
pub(in crate::place) const MAX_ITEMS: usize = 1024;

/// Most overlapping pairs of the exact search. Larger problems are left to the heuristics.
const MAX_OVERLAPS: usize = 1 << 21;

/// Lists of indices, stored one after the other.
#[derive(Debug, Default)]
pub(in crate::place) struct Lists {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Lists {
    fn push(&mut self, list: impl IntoIterator<Item = u32>) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.entries.extend(list);
        self.starts.push(self.entries.len() as u32);
    }

    pub fn of(&self, index: u32) -> &[u32] {
        &self.entries[self.starts[index as usize] as usize..self.starts[index as usize + 1] as usize]
    }
}

/// A placement problem in granules. Items are sorted by their first section, so one sweep splits a list
/// of items in this order into groups that share no section.
#[derive(Debug)]
pub(in crate::place) struct Instance {
    /// Bytes of a granule; all offsets are multiples of it.
    pub granule: u64,
    /// For each item, its index in the normal form.
    pub source: Vec<u32>,
    /// Size in granules, rounded up.
    pub extent: Vec<u32>,
    /// Size in bytes.
    pub bytes: Vec<u64>,
    /// Alignment in granules.
    pub alignment: Vec<u32>,
    /// Fixed offset in granules.
    pub fixed: Vec<Option<u32>>,
    /// First section, and the section after the last.
    pub first: Vec<u32>,
    pub last: Vec<u32>,
    /// For each item, the items that share a section with it.
    pub overlaps: Lists,
    /// Items of each section.
    pub section_items: Lists,
    /// Sections of each item.
    pub item_sections: Lists,
    /// For each section, the largest number of bytes that the topmost item may lack to whole granules.
    pub padding: Vec<u64>,
    /// For each item, an equal item that may always be placed below it.
    pub twin: Vec<Option<u32>>,
    /// Load, duration and size, used by orders.
    pub load: Vec<u64>,
    pub duration: Vec<u32>,
}

impl Instance {
    /// Returns `None` if some buffer lives partly or the problem is too large for the search.
    pub fn new(normal: &Normal) -> Option<Self> {
        let count = normal.items.len();
        if normal.windowed || count > MAX_ITEMS || count == 0 {
            return None;
        }
        let granule = common_granule(normal);
        // Sort the items by their first section and list the items of each section.
        let mut source: Vec<u32> = (0..count as u32).collect();
        source.sort_by_key(|index| (normal.items[*index as usize].first, *index));
        let item = |index: u32| &normal.items[index as usize];
        let parts = |index: u32| normal.parts_of(index as usize);
        let sections_of = |index: u32| parts(index).iter().flat_map(|part| part.first..part.last);
        let mut in_section = vec![Vec::new(); normal.sections];
        let mut item_sections = Lists::default();
        for (place, &index) in source.iter().enumerate() {
            item_sections.push(sections_of(index));
            sections_of(index).for_each(|section| in_section[section as usize].push(place as u32));
        }
        // List the items that overlap each item.
        let mut overlaps = Lists::default();
        let mut pairs = 0;
        for (place, &index) in source.iter().enumerate() {
            let mut seen = vec![false; count];
            seen[place] = true;
            for section in sections_of(index) {
                in_section[section as usize].iter().for_each(|other| seen[*other as usize] = true);
            }
            seen[place] = false;
            let others: Vec<u32> = (0..count as u32).filter(|other| seen[*other as usize]).collect();
            pairs += others.len();
            if pairs > MAX_OVERLAPS {
                return None;
            }
            overlaps.push(others);
        }
        // Convert sizes, alignments and fixed offsets to granules.
        let extent: Option<Vec<u32>> =
            source.iter().map(|index| scaled(item(*index).size.div_ceil(granule))).collect();
        let alignment: Option<Vec<u32>> = source
            .iter()
            .map(|index| scaled(item(*index).alignment / gcd(granule, item(*index).alignment)))
            .collect();
        let fixed: Option<Vec<Option<u32>>> = source
            .iter()
            .map(|index| item(*index).fixed.map_or(Some(None), |offset| scaled(offset / granule).map(Some)))
            .collect();
        let loads = loads_met(normal);
        let (extent, alignment, fixed) = (extent?, alignment?, fixed?);
        let bytes: Vec<u64> = source.iter().map(|index| item(*index).size).collect();
        let missing = |place: &u32| u64::from(extent[*place as usize]) * granule - bytes[*place as usize];
        let padding = in_section.iter().map(|items| items.iter().map(missing).max().unwrap_or(0)).collect();
        let mut section_items = Lists::default();
        in_section.into_iter().for_each(|items| section_items.push(items));
        let mut instance = Self {
            granule,
            extent,
            bytes,
            alignment,
            fixed,
            first: source.iter().map(|index| item(*index).first).collect(),
            last: source.iter().map(|index| item(*index).last).collect(),
            overlaps,
            section_items,
            item_sections,
            padding,
            twin: Vec::new(),
            load: source.iter().map(|index| loads[*index as usize]).collect(),
            duration: source.iter().map(|index| item(*index).duration).collect(),
            source,
        };
        instance.twin = (0..count).map(|place| instance.find_twin(place)).collect();
        Some(instance)
    }

    pub fn items(&self) -> usize {
        self.source.len()
    }

    /// Returns the highest offset of each item and the highest top of each section in granules, if
    /// nothing may end above `capacity` bytes. An offset of `u32::MAX` says that the item does not fit
    /// at all.
    pub fn limits(&self, capacity: u64) -> (Vec<u32>, Vec<u32>) {
        let granules = |bytes: u64| (bytes / self.granule).min(1 << 30) as u32;
        let highest =
            self.bytes.iter().map(|bytes| capacity.checked_sub(*bytes).map_or(u32::MAX, granules)).collect();
        (highest, self.padding.iter().map(|padding| granules(capacity + padding)).collect())
    }

    /// Whether less than a hundredth of the room below `capacity` bytes stays free, if all sections
    /// count equally.
    pub fn is_tight(&self, capacity: u64) -> bool {
        let sections = self.padding.len() as u128;
        let used: u128 = (0..self.items())
            .map(|item| u128::from(self.bytes[item]) * self.item_sections.of(item as u32).len() as u128)
            .sum();
        used * 100 > u128::from(capacity) * sections * 99
    }

    fn find_twin(&self, place: usize) -> Option<u32> {
        let look =
            |index: usize| (self.item_sections.of(index as u32), self.bytes[index], self.alignment[index]);
        let free = |index: usize| self.fixed[index].is_none();
        (0..place)
            .rev()
            .take_while(|other| self.first[*other] == self.first[place])
            .find(|other| free(*other) && free(place) && look(*other) == look(place))
            .map(|other| other as u32)
    }
}

/// Returns the granule of offsets. If no alignment matters, offsets are sums of sizes, so the sizes'
/// common divisor counts too.
fn common_granule(normal: &Normal) -> u64 {
    let offsets = granule(normal);
    let sizes = normal.items.iter().fold(0, |divisor, item| gcd(divisor, item.size));
    let alignments_divide =
        normal.items.iter().all(|item| item.fixed.is_none() && sizes % item.alignment == 0);
    if alignments_divide && sizes > offsets { sizes } else { offsets }
}

/// Converts a value to granules below 2^30, so that the sum of two fits into 32 bits; `None` if it is
/// larger.
fn scaled(value: u64) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| *value < 1 << 30)
}
