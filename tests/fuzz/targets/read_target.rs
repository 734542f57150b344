//! Arbitrary text as a target file, a profile, and values of options.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::described::read_target(bytes));
