//! Models built from bytes, message by message: most of them decode, and many are planned.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memc_fuzz::model::make_onnx(bytes));
