//! Arbitrary text as a module.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::text::parse_text(bytes));
