//! The occupied rectangles of a growing placement, indexed by time and sorted by offset, for first fit.
//!
//! The index has levels of time buckets. The buckets of a level are four times as wide as those of the
//! previous level. A rectangle is stored at the finest level whose buckets are at least as long as the
//! rectangle, so in at most two buckets. A query reads the buckets that it touches on each level. Within
//! a bucket, rectangles are sorted by offset in chunks that know their highest top. Memory is linear in
//! the rectangles; conflicts are never stored.

use crate::place::normal::Part;

/// Most entries of a chunk; a larger chunk is split.
const CHUNK: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Rectangle {
    bottom: u64,
    top: u64,
    first: u32,
    last: u32,
}

#[derive(Debug, Default)]
struct Chunk {
    highest_top: u64,
    rectangles: Vec<Rectangle>,
}

/// Rectangles of one time bucket, sorted by bottom.
#[derive(Debug, Default)]
struct Bucket {
    chunks: Vec<Chunk>,
}

impl Bucket {
    fn insert(&mut self, rectangle: Rectangle) {
        let after = self.chunks.partition_point(|chunk| {
            chunk.rectangles.first().is_some_and(|first| first.bottom <= rectangle.bottom)
        });
        let index = after.saturating_sub(1);
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::default());
        }
        let chunk = &mut self.chunks[index];
        let at = chunk.rectangles.partition_point(|other| other.bottom <= rectangle.bottom);
        chunk.rectangles.insert(at, rectangle);
        chunk.highest_top = chunk.highest_top.max(rectangle.top);
        if chunk.rectangles.len() > CHUNK {
            let upper = chunk.rectangles.split_off(CHUNK / 2);
            let highest = |list: &[Rectangle]| list.iter().map(|r| r.top).max().unwrap_or(0);
            chunk.highest_top = highest(&chunk.rectangles);
            let highest_top = highest(&upper);
            self.chunks.insert(index + 1, Chunk { highest_top, rectangles: upper });
        }
    }
}

/// Position of a query in one bucket.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    level: u32,
    bucket: u32,
    chunk: u32,
    entry: u32,
    part: Part,
}

/// All occupied rectangles.
#[derive(Debug)]
pub(in crate::place) struct Occupied {
    /// Buckets of each level. The buckets of level `l` are `1 << shifts[l]` sections wide.
    levels: Vec<Vec<Bucket>>,
    shifts: Vec<u32>,
    cursors: Vec<Cursor>,
    /// Rectangles and buckets examined by queries: the cost of first fit.
    pub effort: u64,
}

impl Occupied {
    /// Creates an empty index over `sections` sections, for parts that are typically `typical` sections
    /// long.
    pub fn new(sections: usize, typical: u32) -> Self {
        let mut shift = typical.max(1).ilog2().min(31);
        let (mut levels, mut shifts) = (Vec::new(), Vec::new());
        loop {
            let buckets = (sections >> shift) + 1;
            levels.push(std::iter::repeat_with(Bucket::default).take(buckets).collect());
            shifts.push(shift);
            if buckets == 1 || shift + 2 > 31 {
                break;
            }
            shift += 2;
        }
        Self { levels, shifts, cursors: Vec::new(), effort: 0 }
    }

    /// Occupies the bytes of a part, for an item at `offset`.
    pub fn insert(&mut self, part: &Part, offset: u64) {
        let rectangle = Rectangle {
            bottom: offset + part.low,
            top: offset + part.high,
            first: part.first,
            last: part.last,
        };
        let length = part.last - part.first;
        let fits = self.shifts.iter().position(|shift| length <= 1 << shift);
        let level = fits.unwrap_or(self.levels.len() - 1);
        let shift = self.shifts[level];
        for bucket in part.first >> shift..=(part.last - 1) >> shift {
            self.levels[level][bucket as usize].insert(rectangle);
        }
    }

    /// Returns the lowest offset, a multiple of `alignment` and at least `from`, at which no part meets
    /// an occupied rectangle.
    pub fn lowest_fit(&mut self, parts: &[Part], alignment: u64, from: u64) -> u64 {
        let mut cursors = std::mem::take(&mut self.cursors);
        cursors.clear();
        for part in parts {
            for (level, shift) in self.shifts.iter().enumerate() {
                for bucket in part.first >> shift..=(part.last - 1) >> shift {
                    self.effort += 1;
                    if !self.levels[level][bucket as usize].chunks.is_empty() {
                        cursors.push(Cursor { level: level as u32, bucket, chunk: 0, entry: 0, part: *part });
                    }
                }
            }
        }
        let mut offset = crate::place::normal::align_up(from, alignment);
        // A passed rectangle ends below the offset, either at once or after it raised the offset to its
        // top. The offset only rises, so a bucket is read once.
        loop {
            let before = offset;
            for cursor in &mut cursors {
                let bucket = &self.levels[cursor.level as usize][cursor.bucket as usize];
                offset = cursor.advance(bucket, offset, alignment, &mut self.effort);
            }
            if offset == before {
                break;
            }
        }
        self.cursors = cursors;
        offset
    }
}

impl Cursor {
    /// Reads on while rectangles start below the top of the part; returns the raised offset.
    fn advance(&mut self, bucket: &Bucket, mut offset: u64, alignment: u64, effort: &mut u64) -> u64 {
        let Part { first, last, low, high } = self.part;
        while let Some(chunk) = bucket.chunks.get(self.chunk as usize) {
            *effort += 1;
            if chunk.highest_top <= offset + low {
                (self.chunk, self.entry) = (self.chunk + 1, 0);
                continue;
            }
            let rest = &chunk.rectangles[self.entry as usize..];
            for (passed, rectangle) in rest.iter().enumerate() {
                if rectangle.bottom >= offset + high {
                    self.entry += passed as u32;
                    *effort += passed as u64;
                    return offset;
                }
                if rectangle.top > offset + low && rectangle.first < last && first < rectangle.last {
                    offset = crate::place::normal::align_up(rectangle.top - low, alignment);
                }
            }
            *effort += rest.len() as u64;
            (self.chunk, self.entry) = (self.chunk + 1, 0);
        }
        offset
    }
}
