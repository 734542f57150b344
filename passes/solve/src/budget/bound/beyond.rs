//! The surplus of each row: covered bytes beyond its need, in a tree of minima from which ranges can be
//! reduced.

/// Surplus bytes of each row.
pub struct Beyond {
    rows: usize,
    /// Minimum of each subtree, without the bytes taken from whole subtrees above it.
    least: Vec<u64>,
    /// Bytes taken from all rows of a subtree.
    taken: Vec<u64>,
}

impl Beyond {
    /// Creates a tree over the surplus of each row. O(rows).
    pub fn new(bytes: Vec<u64>) -> Self {
        let rows = bytes.len();
        let leaves = rows.next_power_of_two();
        let mut least = vec![u64::MAX; 2 * leaves];
        least[leaves..leaves + rows].copy_from_slice(&bytes);
        for node in (1..leaves).rev() {
            least[node] = least[2 * node].min(least[2 * node + 1]);
        }
        Self { rows, taken: vec![0; 2 * leaves], least }
    }

    /// Takes bytes from every row of a range; does nothing and returns `false` if a row has less. O(log
    /// rows).
    pub fn take(&mut self, first: usize, last: usize, bytes: u64) -> bool {
        let leaves = self.least.len() / 2;
        let enough = self.least_of(1, (0, leaves), (first, last)) >= bytes;
        if enough {
            self.subtract(1, (0, leaves), (first, last), bytes);
        }
        enough
    }

    fn least_of(&self, node: usize, (low, high): (usize, usize), range: (usize, usize)) -> u64 {
        if range.1 < low || high <= range.0 {
            return u64::MAX;
        }
        if range.0 <= low && high - 1 <= range.1 {
            return self.least[node];
        }
        let middle = low.midpoint(high);
        let below = self.least_of(2 * node, (low, middle), range).min(self.least_of(2 * node + 1, (middle, high), range));
        below.saturating_sub(self.taken[node])
    }

    fn subtract(&mut self, node: usize, (low, high): (usize, usize), range: (usize, usize), bytes: u64) {
        if range.1 < low || high <= range.0 {
            return;
        }
        if range.0 <= low && high - 1 <= range.1 {
            self.least[node] -= bytes;
            self.taken[node] += bytes;
            return;
        }
        let middle = low.midpoint(high);
        self.subtract(2 * node, (low, middle), range, bytes);
        self.subtract(2 * node + 1, (middle, high), range, bytes);
        self.least[node] = self.least[2 * node].min(self.least[2 * node + 1]).saturating_sub(self.taken[node]);
    }

    /// Returns the remaining surplus of each row. O(rows log rows).
    pub fn into_rows(self) -> Vec<u64> {
        let leaves = self.least.len() / 2;
        let row = |row: usize| {
            let above = std::iter::successors(Some((leaves + row) / 2), |node| Some(node / 2)).take_while(|node| *node > 0);
            self.least[leaves + row] - above.map(|node| self.taken[node]).sum::<u64>()
        };
        (0..self.rows).map(row).collect()
    }
}
