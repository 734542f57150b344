//! Model files: imported modules are valid and can be planned, and written models open again.

use memc::memc_ir::{Stage, text};
use memc::memc_onnx_import::{ImportOptions, import};
use memc::memc_onnx_proto::ModelFile;
use memc::memc_ops::Inference;
use memc::{Error, Request, Runtime, plan};
use memc_onnx_export::{ExportOptions, export};
use prost::Message as _;

use crate::generator::Generator;
use crate::planning::{EFFORT, Searching, VARIANTS, holds, options, planned, searched};
use crate::text::round_trip;
use crate::{Choices, planning};

/// Maximum number of nodes of a module that is also planned. Larger modules are only imported.
const MAX_PLANNED: usize = 200;

/// Reads bytes as a model file, then imports, plans and exports it.
pub fn import_onnx(bytes: &[u8]) {
    carry(bytes, bytes.len());
}

/// Builds a model from the bytes, then imports, plans and exports it. Every second model runs through
/// the whole command with its checker instead.
pub fn make_onnx(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let variant = choices.below(VARIANTS);
    let whole = choices.once_in(2);
    let model = Generator::new(choices).model().encode_to_vec();
    if whole {
        optimize_and_check(&model, variant);
    } else {
        carry(&model, variant);
    }
}

/// Builds a model from the bytes, and runs a searching pass on it.
pub fn search(bytes: &[u8], pass: Searching) {
    let mut choices = Choices::new(bytes);
    // Read the settings first, so that short inputs have settings too.
    let settings: [u8; 24] = choices.any();
    let model = Generator::new(choices).model().encode_to_vec();
    let Ok(file) = ModelFile::from_bytes(model) else { return };
    let Ok(imported) = import(&file, &import_options()) else { return };
    if imported.module.nodes().len() <= MAX_PLANNED {
        let inference = Inference { data: imported.data, ..Inference::default() };
        searched(imported.module, inference, pass, &mut Choices::new(&settings));
    }
}

fn import_options() -> ImportOptions {
    ImportOptions { allow_unbound: true, ..ImportOptions::default() }
}

fn carry(bytes: &[u8], variant: usize) {
    let file = match ModelFile::from_bytes(bytes.to_vec()) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let imported = match import(&file, &import_options()) {
        Ok(imported) => imported,
        Err(error) => return assert!(!error.diagnostic().message.is_empty()),
    };
    holds(&imported.module, Stage::Typed);
    round_trip(&imported.module);
    if imported.module.nodes().len() > MAX_PLANNED {
        return;
    }
    let inference = Inference { data: imported.data, ..Inference::default() };
    let Some(module) = planned(&imported.module, inference, &options(variant)) else { return };
    let written = export(&file, &module, &ExportOptions::default());
    let written = written.unwrap_or_else(|error| panic!("{error:?}\n{}", text::print(&module))).to_vec();
    let reopened = ModelFile::from_bytes(written)
        .unwrap_or_else(|error| panic!("what was written does not open: {error}"));
    let again = import(&reopened, &import_options());
    let again = again
        .unwrap_or_else(|error| panic!("what was written is refused: {error}\n{}", text::print(&module)));
    holds(&again.module, Stage::Typed);
}

/// Runs the whole command. The checker, which shares no code with the planner, must accept every plan.
fn optimize_and_check(bytes: &[u8], variant: usize) {
    let Ok(file) = ModelFile::from_bytes(bytes.to_vec()) else { return };
    let request = Request {
        import: import_options(),
        runtime: [Runtime::Arena, Runtime::Ort, Runtime::Player][variant % 3],
        io: Some(options(variant).io),
        effort: EFFORT,
        anchors: variant % 2 == 1,
        compare: true,
        verify: true,
        ..Request::default()
    };
    let optimized = match plan(&file, &request) {
        Ok(optimized) => optimized,
        Err(error @ Error::Import(_)) => return assert!(!error.diagnostic().message.is_empty()),
        Err(error) if error.exit_code() == 1 => return,
        Err(error) => panic!("{}", error.diagnostic()),
    };
    let json = memc::memc_layout::to_json(&optimized.layout).unwrap_or_else(|error| panic!("{error}"));
    let layout = memc::memc_layout::read(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap_or_else(|error| panic!("{error}"));
    let report = memc::memc_check::check(&file, &out, &layout, Default::default());
    let wrong: Vec<_> = report.violations.into_iter().map(|violation| violation.diagnostic).collect();
    assert!(wrong.is_empty(), "{}{}", planning::show(&wrong), text::print(&optimized.module));
}
