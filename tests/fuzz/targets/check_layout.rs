//! Damaged layouts under the checker and the reports.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::layout::check_layout(bytes));
