//! `memc report`.

use std::path::Path;
use std::process::ExitCode;

use memc::Error;
use memc_ir::{Diagnostic, Severity};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_report::HtmlOptions;

use super::args::Report;
use super::{Failure, Outcome, Voice, print, usage};
use memc::{Outputs, read};

/// Reports the memory of a model, under a layout or in its own order.
pub fn run(arguments: &Report, voice: &Voice) -> Outcome {
    let layout = layout(arguments, voice)?;
    let title = arguments.input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(output) = &arguments.output else {
        return print(&if arguments.json { memc_report::json(&layout) } else { memc_report::text(&layout) });
    };
    let name = output.to_string_lossy();
    let text = match () {
        () if name.ends_with(".html") => memc_report::html(&layout, &HtmlOptions { title: &title, before: None }),
        () if name.ends_with(".trace.json") => memc_report::trace(&layout),
        () if name.ends_with(".json") => memc_report::json(&layout),
        () if name.ends_with(".txt") => memc_report::text(&layout),
        () => return Err(usage(format!("{name}: the extension must name a format"), "use .html, .txt, .json or .trace.json")),
    };
    let mut outputs = Outputs::default();
    outputs.add(output, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a layout belongs to a model: the planned one, or the one that was written.
fn is_of(layout: &Layout, file: &ModelFile) -> bool {
    let found = memc::sha256(file.bytes());
    [&layout.model.input_sha256, &layout.model.output_sha256].contains(&&found)
}

/// Rejects the layout of another model.
fn other(path: &Path) -> Failure {
    let text = format!("{} is the layout of another model: neither hash in it is the hash of this file", path.display());
    let help = "name the model that was planned or the model that was written with this layout, or plan again";
    Failure { diagnostics: vec![Diagnostic::new("E0125", Severity::Error, text).with_help(help)], code: 1 }
}

/// Reads the given layout, or plans the model in its own order.
fn layout(arguments: &Report, voice: &Voice) -> Result<Layout, Failure> {
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    if let Some(path) = &arguments.layout {
        let text = read(path)?;
        let layout = memc_layout::read(&text).map_err(|source| Error::Layout { path: path.clone(), source })?;
        return if is_of(&layout, &file) { Ok(layout) } else { Err(other(path)) };
    }
    let passes = arguments.planning.machine.passes.clone().unwrap_or_else(|| memc_plan::FILE_ORDER.to_owned());
    let request = arguments.planning.request()?.passes(passes);
    let optimized = memc::plan(&file, &request)?;
    voice.diagnostics(&optimized.diagnostics);
    Ok(optimized.layout)
}
