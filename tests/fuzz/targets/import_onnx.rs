//! Arbitrary bytes as a model file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::model::import_onnx(bytes));
