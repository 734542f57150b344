//! Lists of numbers in one array.

/// Lists of numbers, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Lists {
    /// Groups pairs by their first number, duplicates removed.
    pub fn group(keys: usize, mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; keys + 1];
        for (key, _) in &pairs {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        Self { starts, entries: pairs.into_iter().map(|(_, entry)| entry).collect() }
    }

    pub fn of(&self, key: u32) -> &[u32] {
        &self.entries[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }
}
