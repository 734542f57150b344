//! Placement problems built from bytes, against the checker and an exhaustive search.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::place::place(bytes));
