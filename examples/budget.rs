//! Keeps a budget, and reads the smallest arena from the error if it is too small: `cargo run --example
//! budget`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::{Model, Request, Size};

/// Plans a training step within 60 % of its peak, then asks for one byte.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let request = Request::new().exact(true);
    let free = memc::plan(&model, &request)?.arena();
    let planned = memc::plan(&model, &request.clone().budget(Size::Percent(60.0)))?;
    println!("{free} B without a budget, {} B within 60 %", planned.arena());
    assert!(planned.arena() * 10 <= planned.layout.baseline.own_peak["device"] * 6);

    let refused = memc::plan(&model, &request.budget(Size::Bytes(1))).err().ok_or("one byte is no budget")?;
    println!("{}", refused.diagnostic());
    let smallest = refused.smallest().ok_or("the error names the smallest arena")?;
    let kept = memc::plan(&model, &Request::new().exact(true).budget(Size::Bytes(smallest)))?;
    assert!(kept.arena() <= smallest);
    Ok(())
}
