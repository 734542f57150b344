//! Plans a model and writes it with its layout: `cargo run --example plan`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::{Model, Request};

/// Plans the training step of a small network and writes both files to the folder for temporary files.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let planned = memc::plan(&model, &Request::new())?;
    let folder = std::env::temp_dir();
    planned.write_model(folder.join("memc_example.onnx"))?;
    planned.write_layout(folder.join("memc_example.layout.json"))?;
    println!("{}", planned.report());
    // A plan never needs more than the order of the file.
    assert!(planned.layout.peak["device"].bytes <= planned.layout.baseline.file_order_peak["device"]);
    Ok(())
}
