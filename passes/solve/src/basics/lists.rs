//! Many short lists of numbers, stored in one array.

/// Lists of numbers, stored back to back; list `key` is `entries[starts[key]..starts[key + 1]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Lists {
    /// Groups pairs by their first number; sorts each list and removes duplicates. Linear if the lists
    /// are already sorted.
    pub fn group(keys: usize, pairs: Vec<(u32, u32)>) -> Self {
        let all = Self::with_duplicates(keys, &pairs);
        let (mut starts, mut entries) = (Vec::with_capacity(keys + 1), Vec::with_capacity(pairs.len()));
        starts.push(0);
        for key in 0..keys as u32 {
            let from = entries.len();
            entries.extend_from_slice(all.of(key));
            if !entries[from..].is_sorted() {
                entries[from..].sort_unstable();
            }
            let mut kept = from;
            for index in from..entries.len() {
                if index == from || entries[index] != entries[kept - 1] {
                    entries[kept] = entries[index];
                    kept += 1;
                }
            }
            entries.truncate(kept);
            starts.push(kept as u32);
        }
        Self { starts, entries }
    }

    /// Groups pairs by their first number, and keeps their order and duplicates. Linear.
    pub fn with_duplicates(keys: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; keys + 1];
        for (key, _) in pairs {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut entries = vec![0; pairs.len()];
        for (key, entry) in pairs {
            let place = &mut next[*key as usize];
            entries[*place as usize] = *entry;
            *place += 1;
        }
        Self { starts, entries }
    }

    pub fn of(&self, key: u32) -> &[u32] {
        &self.entries[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order_and_name_nothing_twice() {
        let pairs = [(2, 5), (0, 3), (2, 1), (2, 5), (0, 3), (0, 4), (2, 3)];
        let lists = Lists::group(4, pairs.to_vec());
        assert_eq!([0, 1, 2, 3].map(|key| lists.of(key)), [&[3, 4][..], &[], &[1, 3, 5], &[]]);
        let lists = Lists::with_duplicates(4, &pairs);
        assert_eq!([0, 1, 2, 3].map(|key| lists.of(key)), [&[3, 3, 4][..], &[], &[5, 1, 5, 3], &[]]);
    }
}
