//! Compares models that memc wrote with their originals, by a decoder that shares no code with memc:
//! `memc-decoder ORIGINAL.onnx WRITTEN.onnx ...`, any number of pairs.
//!
//! Prints each field of an original that its written model lost, and fails if there is one. Fields that
//! memc may change are listed in `claims.rs`; unknown fields count as fields.

mod claims;
mod kept;
#[cfg(test)]
mod tests;

use std::fs;
use std::process::ExitCode;

use kept::Losses;
use onnx_protobuf::{Message as _, ModelProto};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, []) = paths.as_chunks::<2>() else {
        eprintln!("usage: memc-decoder ORIGINAL.onnx WRITTEN.onnx [ORIGINAL.onnx WRITTEN.onnx ...]");
        return ExitCode::from(2);
    };
    let (mut nodes, mut losses) = (0, 0);
    for [original, written] in pairs {
        match compare(original, written) {
            Ok(found) => {
                nodes += found.nodes;
                let found = found.into_found();
                losses += found.len();
                found.iter().for_each(|loss| println!("{written}: {loss}"));
            }
            Err(error) => {
                losses += 1;
                println!("{error}");
            }
        }
    }
    println!("{} pairs, {nodes} nodes compared, {losses} losses", pairs.len());
    if losses == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the losses of one pair of files.
fn compare(original: &str, written: &str) -> Result<Losses, String> {
    Ok(claims::losses(&read(original)?, &read(written)?))
}

fn read(path: &str) -> Result<ModelProto, String> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    ModelProto::parse_from_bytes(&bytes).map_err(|error| format!("{path}: {error}"))
}
