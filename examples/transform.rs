//! Adds a transform of your own, which changes the interface of a model: `cargo run --example transform`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::memc_edit::{Maker, int};
use memc::memc_ir::{Module, Stage, TensorType, Value, ValueType};
use memc::memc_passes::{
    Changed, Claim, LeaveOut, NewOutput, PassContext, PassError, PassInfo, Transform, Turn,
};
use memc::{Model, Request};

/// The pass. Its page would explain it in `memc passes`.
static NORMS: PassInfo = PassInfo {
    name: "norms",
    summary: "Adds the sum of squares of each output as another output.",
    page: "",
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run: add_norms,
};

/// The row that a table of transforms would have.
pub static ROW: Transform = Transform {
    pass: &NORMS,
    passes: "norms",
    turn: Turn::First,
    applies: |_, _| true,
    option: None,
    leave_out: LeaveOut::Never,
};

/// Adds the outputs, and claims what each of them is: `memc check` proves the claims from the files.
fn add_norms(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let main = module.main();
    let mut outputs = module.graph(main).outputs.clone();
    let floats: Vec<(Value, TensorType)> =
        outputs.iter().filter_map(|output| Some((*output, module.ty(*output).tensor()?.clone()))).collect();
    let mut maker = Maker::new(module, NORMS.name);
    let mut added = Vec::new();
    for (output, ty) in floats.into_iter().filter(|(_, ty)| ty.element.is_float()) {
        let name = maker.hint(output, "norm");
        let new = maker.onnx("ReduceSumSquare", [output], int("keepdims", 0));
        let number = ValueType::Tensor(TensorType::fixed(ty.element, &[]));
        added.extend(maker.compute(None, new, &name, number));
    }
    outputs.extend(&added);
    maker.set_outputs(main, outputs);
    let edits = maker.finish();
    ctx.said.claims.extend(
        added.iter().filter_map(|value| NewOutput::of(module, *value, NORMS.name)).map(Claim::Output),
    );
    Ok(Changed::edits(edits))
}

/// Plans a model with the transform.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let planned = memc::plan(&file, &Request::new().transform(&ROW))?;
    for output in &planned.layout.added_outputs {
        println!("{} is computed by {}", output.name, output.nodes[0].op);
    }
    assert!(!planned.layout.added_outputs.is_empty());
    Ok(())
}
