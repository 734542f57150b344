//! Reads a layout as a runtime does: an address for each tensor, from the JSON text alone: `cargo run
//! --example layout`.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

use memc::memc_layout::{self, Layout};
use memc::{Model, Request};

/// Bytes of the arena that a tensor uses, by name. A view or in-place result uses bytes of its owner.
fn places(layout: &Layout) -> BTreeMap<&str, Range<u64>> {
    let placed = layout.tensors.iter().filter_map(|tensor| {
        let offset = tensor.offset?;
        Some((tensor.name.as_str(), offset..offset + tensor.bytes))
    });
    placed.collect()
}

/// Plans a model, reads the layout back from JSON and prints where the largest tensors are.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let json = memc_layout::to_json(&memc::plan(&model, &Request::new())?.layout)?;
    let layout = memc_layout::read(&json)?;
    let arena = layout.arenas.first().ok_or("the layout has an arena")?;
    let mut largest: Vec<_> = places(&layout).into_iter().collect();
    largest.sort_by_key(|(name, bytes)| (std::cmp::Reverse(bytes.end - bytes.start), *name));
    for (name, bytes) in largest.iter().take(5) {
        println!("{name}: bytes {} to {} of {}", bytes.start, bytes.end, arena.size);
    }
    assert!(!largest.is_empty() && largest.iter().all(|(_, bytes)| bytes.end <= arena.size));
    Ok(())
}
