//! Plans for a machine of your own: a small fast memory and a link to a large slow one: `cargo run
//! --example target`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::memc_cost::Target;
use memc::{Model, Request, Size};

/// The machine. `targets/README.md` lists all keys.
const BOARD: &str = r#"
name = "board"
summary = "512 KiB of fast memory and 8 MiB behind a bus"

[machine]
bytes_per_second = 1e9
overhead_ns = 500

[machine.flops_per_second]
float = 2e9

[[spaces]]
name = "sram"
capacity = "512KiB"
alignment = 16

[[spaces]]
name = "psram"
capacity = "8MiB"
alignment = 16

[[links]]
from = "sram"
to = "psram"
bytes_per_second = 80e6
latency_ns = 1000

[[links]]
from = "psram"
to = "sram"
bytes_per_second = 80e6
latency_ns = 1000
"#;

/// Plans a training step for the board; tensors without room in fast memory move away and back.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let request = Request::new().target(Target::parse(BOARD)?).exact(true).budget(Size::Percent(60.0));
    let planned = memc::plan(&model, &request)?;
    for arena in &planned.layout.arenas {
        println!("{}: {} B", arena.space, arena.size);
    }
    println!("{} transfers", planned.layout.transfers.len());
    assert_eq!(planned.layout.arenas.first().map(|arena| arena.space.as_str()), Some("sram"));
    Ok(())
}
