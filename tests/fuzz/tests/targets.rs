//! Runs each fuzz target on its seeds, on damages of them, and on random bytes: the same cases in every run.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use memc_fuzz::targets::TARGETS;

/// Number of cases of a target; `MEMC_FUZZ_CASES` sets another.
const CASES: u64 = 400;
/// Largest number of bytes of a random case.
const MAX_BYTES: u64 = 4096;
/// Largest number of damages of a seed.
const MAX_DAMAGES: u64 = 8;

/// Random numbers of SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns some bytes; small values are frequent, because most decisions have few outcomes.
    fn bytes(&mut self) -> Vec<u8> {
        let count = 1 << self.below(u64::from(MAX_BYTES.ilog2()) + 1);
        (0..count).map(|_| if self.below(2) == 0 { self.below(8) as u8 } else { self.next() as u8 }).collect()
    }

    /// Returns a damaged copy: bytes replaced, repeated, dropped or taken from another seed.
    fn damaged(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(MAX_DAMAGES) {
            let from = self.below(bytes.len() as u64) as usize;
            let to = (from + 1 + self.below(16) as usize).min(bytes.len());
            if bytes.is_empty() {
                return self.bytes();
            }
            match self.below(4) {
                0 => bytes[from] = self.next() as u8,
                1 => drop(bytes.drain(from..to)),
                2 => {
                    let again = bytes[from..to].to_vec();
                    bytes.splice(from..from, again);
                }
                _ => {
                    let start = self.below(other.len() as u64) as usize;
                    let end = (start + (to - from)).min(other.len());
                    bytes.splice(from..to, other[start..end].iter().copied());
                }
            }
        }
        bytes
    }
}

/// Returns the contents of all files of a folder and its folders, in the order of their paths.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| if path.is_dir() { files(path) } else { vec![std::fs::read(path).unwrap()] })
        .collect()
}

fn run(name: &str) {
    let (_, target) = TARGETS.iter().find(|(other, _)| *other == name).unwrap();
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = match name {
        "parse_text" => files(&home.join("../../passes/plan/tests/filetests/fold")),
        "read_target" => files(&home.join("../../targets")),
        _ => files(&home.join("seeds").join(name)),
    };
    seeds.iter().for_each(|seed| target(seed));
    let cases = std::env::var("MEMC_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut random = Random(name.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte)));
    for case in 0..cases {
        let pick = |number: u64| seeds.get((number % seeds.len().max(1) as u64) as usize);
        let bytes = match (pick(case), pick(random.next())) {
            (Some(seed), Some(other)) if case % 4 > 0 => random.damaged(seed, other),
            _ => random.bytes(),
        };
        target(&bytes);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn each_target_is_a_test() {
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets! {
    parse_text import_onnx make_onnx verify_any check_layout rewrite split budget place order read_problem read_npz
    read_target
}
