//! Modules and plans built from bytes, valid or not, under the verifier.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::module::verify_any(bytes));
