//! Ordering problems built from bytes, against the checker and all orders.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::order::order(bytes));
