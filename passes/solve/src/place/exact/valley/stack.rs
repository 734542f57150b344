//! The stack bound of the valley search: items that rest high in a section are stacked from there on.

use super::ValleySearch;

impl ValleySearch<'_> {
    /// Returns a section whose free items do not fit between their resting heights and the ceiling. For
    /// any height, the items that rest at or above it are stacked on it.
    pub(in crate::place) fn overfull(&mut self, first: u32, last: u32) -> Option<u32> {
        self.find_stretches(first, last);
        let mut resting = std::mem::take(&mut self.resting);
        resting.clear();
        for item in self.free_items(first, last) {
            let index = item as usize;
            let (low, high) = (self.instance.first[index] as usize, self.instance.last[index] as usize - 1);
            let grounds = &self.grounds[self.stretch_of[low] as usize..=self.stretch_of[high] as usize];
            let rest = grounds.iter().copied().max().unwrap_or(0);
            resting.push(u64::from(rest) << 32 | u64::from(item));
        }
        resting.sort_unstable_by(|a, b| b.cmp(a));
        self.room[first as usize..last as usize].copy_from_slice(&self.height[first as usize..last as usize]);
        let mut dead = None;
        for &entry in &resting {
            let (rest, index) = ((entry >> 32) as i32, (entry as u32) as usize);
            let (first, last) = (self.instance.first[index] as usize, self.instance.last[index] as usize);
            let extent = self.instance.extent[index] as i32;
            let mut over = false;
            for room in &mut self.room[first..last] {
                *room -= extent;
                over |= *room < rest;
            }
            if over {
                dead = (first..last).find(|section| self.room[*section] < rest);
                break;
            }
        }
        self.resting = resting;
        dead.map(|section| section as u32)
    }

    fn find_stretches(&mut self, first: u32, last: u32) {
        self.grounds.clear();
        for section in first as usize..last as usize {
            if self.grounds.last() != Some(&self.sky[section]) {
                self.grounds.push(self.sky[section]);
            }
            self.stretch_of[section] = self.grounds.len() as u32 - 1;
        }
    }
}
