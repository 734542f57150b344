//! Arbitrary text as problem files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::problem_file::read_problem(bytes));
