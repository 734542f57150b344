//! A piece: groups of one section, with time and bytes that follow each group that is added or taken
//! back.

use super::merged::Merged;

/// Groups of one section.
#[derive(Debug)]
pub(super) struct Piece<'m, 'p> {
    merged: &'m Merged<'p>,
    groups: usize,
    /// Time of groups and replicas on each kind of device.
    times: Vec<u64>,
    /// Number of groups that a kind of device cannot run.
    unsupported: Vec<u32>,
    held_bytes: u64,
    copy_bytes: u64,
    /// Working bytes after each added group.
    working_bytes: Vec<u64>,
    /// For each value, reading groups inside the piece.
    readers: Vec<u32>,
    /// For each value, whether its maker is inside.
    has_maker: Vec<bool>,
    /// For each replica, reading groups inside the piece.
    replica_readers: Vec<u32>,
    crossing_amount: u64,
    crossing_count: u64,
}

impl<'m, 'p> Piece<'m, 'p> {
    /// Creates an empty piece.
    pub fn new(merged: &'m Merged<'p>) -> Self {
        let kinds = merged.groups.first().map_or(0, |group| group.times.len());
        Self {
            merged,
            groups: 0,
            times: vec![0; kinds],
            unsupported: vec![0; kinds],
            held_bytes: 0,
            copy_bytes: 0,
            working_bytes: vec![0],
            readers: vec![0; merged.problem.values.len()],
            has_maker: vec![false; merged.problem.values.len()],
            replica_readers: vec![0; merged.problem.replicas.len()],
            crossing_amount: 0,
            crossing_count: 0,
        }
    }

    /// Adds a group. O(kinds + values of the group).
    pub fn add(&mut self, index: u32) {
        let group = &self.merged.groups[index as usize];
        for ((sum, unsupported), time) in self.times.iter_mut().zip(&mut self.unsupported).zip(&group.times) {
            *sum += time.unwrap_or(0);
            *unsupported += u32::from(time.is_none());
        }
        self.held_bytes += group.held_bytes;
        self.copy_bytes += group.copy_bytes;
        self.working_bytes.push(self.working().max(group.working_bytes));
        for &value in &group.makes {
            self.recount(value, |piece| piece.has_maker[value as usize] = true);
        }
        for &value in &group.reads {
            self.recount(value, |piece| piece.readers[value as usize] += 1);
        }
        for &replica in &group.replicas {
            let at = replica as usize;
            self.replica_readers[at] += 1;
            if self.replica_readers[at] == 1 {
                let item = &self.merged.problem.replicas[at];
                self.held_bytes += item.bytes;
                self.times.iter_mut().zip(&item.times).for_each(|(sum, time)| *sum += time);
            }
        }
        self.groups += 1;
    }

    /// Takes back the group that was added last. O(kinds + values of the group).
    pub fn take_back(&mut self, index: u32) {
        let group = &self.merged.groups[index as usize];
        for ((sum, unsupported), time) in self.times.iter_mut().zip(&mut self.unsupported).zip(&group.times) {
            *sum -= time.unwrap_or(0);
            *unsupported -= u32::from(time.is_none());
        }
        self.held_bytes -= group.held_bytes;
        self.copy_bytes -= group.copy_bytes;
        self.working_bytes.pop();
        for &value in &group.makes {
            self.recount(value, |piece| piece.has_maker[value as usize] = false);
        }
        for &value in &group.reads {
            self.recount(value, |piece| piece.readers[value as usize] -= 1);
        }
        for &replica in &group.replicas {
            let at = replica as usize;
            self.replica_readers[at] -= 1;
            if self.replica_readers[at] == 0 {
                let item = &self.merged.problem.replicas[at];
                self.held_bytes -= item.bytes;
                self.times.iter_mut().zip(&item.times).for_each(|(sum, time)| *sum -= time);
            }
        }
        self.groups -= 1;
    }

    /// Changes one value's ends and updates what crosses.
    fn recount(&mut self, value: u32, change: impl FnOnce(&mut Self)) {
        let crossed = self.crosses(value);
        change(self);
        let amount = self.merged.problem.values[value as usize].amount;
        match (crossed, self.crosses(value)) {
            (false, true) => {
                (self.crossing_amount, self.crossing_count) =
                    (self.crossing_amount + amount, self.crossing_count + 1)
            }
            (true, false) => {
                (self.crossing_amount, self.crossing_count) =
                    (self.crossing_amount - amount, self.crossing_count - 1)
            }
            _ => {}
        }
    }

    fn crosses(&self, value: u32) -> bool {
        let readers = self.readers[value as usize];
        if self.has_maker[value as usize] {
            readers < self.merged.reader_counts[value as usize]
        } else {
            readers > 0
        }
    }

    fn working(&self) -> u64 {
        self.working_bytes.last().copied().unwrap_or(0)
    }

    /// Time on a sort of device, transfers included; `None` if the sort cannot run the piece.
    pub fn time(&self, sort: usize) -> Option<u64> {
        let device = &self.merged.sorts[sort];
        let kind = device.kind as usize;
        if self.unsupported.get(kind).is_some_and(|count| *count > 0) {
            return None;
        }
        let own = self.times.get(kind).copied().unwrap_or(0);
        let Some(link) = device.link else { return Some(own) };
        let moved = if link.time == link.amount {
            self.crossing_amount
        } else {
            (u128::from(self.crossing_amount) * u128::from(link.time)).div_ceil(u128::from(link.amount))
                as u64
        };
        Some(own + self.crossing_count * link.latency + moved)
    }

    /// Bytes with a number of copies in flight.
    pub fn bytes(&self, copies: u64) -> u64 {
        self.held_bytes + self.copy_bytes * copies + self.working()
    }

    /// Least time of the piece and of each piece that contains it, on the fastest sort of device. Time of
    /// transfers does not count: it falls when their other ends are added.
    pub fn least_time(&self) -> u64 {
        let own = |sort: &super::problem::Device| {
            let kind = sort.kind as usize;
            self.times.get(kind).copied().filter(|_| self.unsupported[kind] == 0)
        };
        if self.groups == 0 { 0 } else { self.merged.sorts.iter().filter_map(own).min().unwrap_or(u64::MAX) }
    }
}
