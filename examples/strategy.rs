//! Lets plans of your own compete with memc's: a strategy is a list of pipelines: `cargo run --example
//! strategy`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::{Model, Request};

/// Preparation that helps every plan, and the passes that finish one.
const PREPARED: &str = "fold,canonicalize,dce,cse,dce";
const FINISHED: &str = "view,schedule,in-place,place";

/// Offers plans with the batch in 2, 4 and 8 parts, and prints how the planner judged each of them.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let mut request = Request::new();
    for parts in [2, 4, 8] {
        request = request.pipeline(format!("micro-batch[parts={parts}],{PREPARED},{FINISHED}"));
    }
    let planned = memc::plan(&model, &request)?;
    let own: Vec<_> = planned.log.iter().filter(|entry| entry.strategy == "own-pipelines").collect();
    for entry in &own {
        println!("{:?} bytes, {:?} ns: {}", entry.bytes, entry.nanos, entry.verdict.words());
    }
    println!("chosen: `{}`, {} B", planned.strategy, planned.arena());
    // More candidates never make the answer worse.
    assert!(own.len() == 3 && planned.arena() <= memc::plan(&model, &Request::new())?.arena());
    Ok(())
}
