//! Equal forms of models built from bytes. The verifier checks every intermediate module.
#![no_main]

use memc_fuzz::planning::Searching;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::model::search(bytes, Searching::Rewrite));
