//! Arbitrary bytes as an archive of arrays.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::arrays::read_npz(bytes));
