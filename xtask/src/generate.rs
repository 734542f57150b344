//! Generates the Rust protobuf messages of `memc-onnx-proto` from the vendored `onnx.proto`.
use std::error::Error;
use std::path::Path;

/// Head of the generated file: its purpose, its license, and the lints that it allows.
const HEADER: &str = "\
//! ONNX messages, generated from `proto/onnx.proto` by `cargo run -p xtask --features generate --
//! generate`. Do not edit.
//!
//! The meaning of every field stands in `proto/onnx.proto`, which is part of ONNX and under its licence.
// SPDX-License-Identifier: Apache-2.0
#![allow(missing_docs, clippy::all, unused_qualifications)]
";

/// Writes `frontends/onnx-proto/src/gen/onnx.rs`. Needs no `protoc`, because protox parses the proto
/// file.
///
/// # Errors
///
/// The proto file does not parse, or the output cannot be written.
pub fn generate() -> Result<(), Box<dyn Error>> {
    let root = root()?;
    let home = root.join("frontends/onnx-proto");
    let descriptors = protox::compile(["onnx.proto"], [home.join("proto")])?;
    let output = home.join("src/gen");
    let mut config = prost_build::Config::new();
    config.out_dir(&output);
    // Weights as `Bytes` are slices of the mapped file, not copies.
    config.bytes([".onnx.TensorProto.raw_data"]);
    // The comments of the proto file contain markup that rustdoc would compile as code.
    config.disable_comments(["."]);
    config.compile_fds(descriptors)?;
    let file = output.join("onnx.rs");
    let messages = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{HEADER}{messages}"))?;
    Ok(())
}
