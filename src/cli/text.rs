//! `memc print` and `memc opt`: the text form.

use std::path::Path;

use memc::Error;
use memc_ir::{Stage, text, verify};
use memc_onnx_import::ImportOptions;
use memc_onnx_proto::ModelFile;
use memc_passes::{PassContext, Pipeline, Silent};
use memc_plan::registry::REGISTRY;

use super::args::{Opt, Print};
use super::{ExitCode, Failure, Outcome, Voice};
use memc::{Outputs, read};

/// Prints a model as text.
pub fn print(arguments: &Print, voice: &Voice) -> Outcome {
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let options = ImportOptions { allow_unbound: true, ..super::dims(&arguments.dims)?.import };
    let imported = memc_onnx_import::import(&file, &options).map_err(Error::from)?;
    voice.diagnostics(&imported.diagnostics);
    give(&text::print(&imported.module), arguments.output.as_deref())
}

/// Runs passes on a module that is given as text.
pub fn opt(arguments: &Opt, voice: &Voice) -> Outcome {
    let refused = |diagnostics| Failure { diagnostics, code: 1 };
    let mut module = text::parse(&read(&arguments.input)?).map_err(refused)?;
    // Passes rely on the places and aliases of the text, at every stage: verifies all of them.
    verify(&module, Stage::Planned).map_err(refused)?;
    let inference = memc_ops::infer(&mut module);
    // Inferred types may be too large for values that share their bytes.
    verify(&module, Stage::Planned).map_err(refused)?;
    voice.diagnostics(&inference.diagnostics);
    module.stage = module.stage.max(Stage::Typed);
    let options = arguments.planning.request()?.options()?;
    let mut ctx = PassContext::new(&options, inference.data);
    let passes = arguments.planning.machine.passes.as_deref().unwrap_or_default();
    let pipeline = Pipeline::parse(passes, module.stage, REGISTRY).map_err(Error::from)?;
    pipeline.run(&mut module, &mut ctx, true, &mut Silent).map_err(Error::from)?;
    voice.diagnostics(&ctx.said.remarks);
    give(&text::print(&module), arguments.output.as_deref())
}

fn give(text: &str, output: Option<&Path>) -> Outcome {
    let Some(path) = output else { return super::print(text) };
    let mut outputs = Outputs::default();
    outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()?;
    Ok(ExitCode::SUCCESS)
}
