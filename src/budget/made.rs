//! Models that tests of budgets make.
#![allow(clippy::unwrap_used)]

use memc_ir::Module;
use memc_passes::answers::Answers;
use memc_passes::{ExternalData, Seeks};

use super::{Budgets, Free};
use crate::options::OptimizeOptions;

#[derive(Debug)]
struct NoWeights;

impl ExternalData for NoWeights {
    fn bytes(&self, _: &str, _: u64, _: u64) -> Option<bytes::Bytes> {
        None
    }
}

/// Layers whose gradients read what they made: each of these is as large as all weights.
pub(super) fn step(batch: u64) -> Module {
    const LAYERS: usize = 6;
    let mut text = format!(
        "mem 1\nir_version 8\nopset \"\" 13\nstage typed\ngraph @g {{\n  input %a0 : f32[{batch},32]\n  input %w : f32[32,32]\n"
    );
    for k in 0..LAYERS {
        text += &format!("  %h{k} = MatMul(%a{k}, %w) : f32[?,?]\n  %a{} = Tanh(%h{k}) : f32[?,?]\n", k + 1);
    }
    for k in (0..LAYERS).rev() {
        let from = if k + 1 == LAYERS { format!("a{LAYERS}") } else { format!("d{}", k + 1) };
        text += &format!("  %e{k} = Mul(%{from}, %a{}) : f32[?,?]\n  %t{k} = Transpose(%a{k}) : f32[?,?]\n", k + 1);
        text += &format!("  %g{k} = MatMul(%t{k}, %e{k}) : f32[?,?]\n  %d{k} = MatMul(%e{k}, %w) : f32[?,?]\n");
    }
    let gradients: Vec<String> = (0..LAYERS).map(|k| format!("%g{k}")).collect();
    memc_ir::text::parse(&format!("{text}  return {}\n}}\n", gradients.join(", "))).unwrap()
}

/// Wide values between products, one after the other: all that is large can be computed in parts of its rows.
pub(super) fn wide() -> Module {
    const LAYERS: usize = 4;
    let mut text = "mem 1\nir_version 8\nopset \"\" 13\nstage typed\ngraph @g {\n  input %a0 : f32[256,32]\n".to_owned();
    text += "  input %u : f32[32,2048]\n  input %v : f32[2048,32]\n";
    for k in 0..LAYERS {
        text += &format!("  %h{k} = MatMul(%a{k}, %u) : f32[?,?]\n  %t{k} = Tanh(%h{k}) : f32[?,?]\n");
        text += &format!("  %p{k} = MatMul(%t{k}, %v) : f32[?,?]\n  %a{} = Add(%p{k}, %a{k}) : f32[?,?]\n", k + 1);
    }
    memc_ir::text::parse(&format!("{text}  return %a{LAYERS}\n}}\n")).unwrap()
}

/// What a test finds of a model and its plan without a limit.
pub(super) fn with_free<T>(mut given: Module, options: &OptimizeOptions, test: impl FnOnce(&Budgets<'_>, &Free) -> T) -> T {
    let data = memc_ops::infer(&mut given).data;
    let budgets = Budgets { given: &given, options, data: &data, external: &NoWeights, answers: Answers::default() };
    let planned = budgets.planned(&options.plan, Seeks::Longest).unwrap();
    test(&budgets, &Free::new(&budgets, planned))
}
