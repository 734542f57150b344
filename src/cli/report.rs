//! `memc report`.

use std::path::Path;
use std::process::ExitCode;

use memc::ir::{Diagnostic, Severity};
use memc::layout_file::Layout;
use memc::passes::Silent;
use memc::proto::ModelFile;
use memc::report::HtmlOptions;
use memc::{Error, OptimizeOptions};

use super::args::Report;
use super::files::{Outputs, read};
use super::{Failure, Outcome, Voice, print, usage};

/// Reports what a model needs, under a layout or in its own order.
pub fn run(arguments: &Report, voice: &Voice) -> Outcome {
    let layout = layout(arguments, voice)?;
    let title = arguments.input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(output) = &arguments.output else {
        return print(&if arguments.json { memc::report::json(&layout) } else { memc::report::text(&layout) });
    };
    let name = output.to_string_lossy();
    let text = match () {
        () if name.ends_with(".html") => memc::report::html(&layout, &HtmlOptions { title: &title, before: None }),
        () if name.ends_with(".trace.json") => memc::report::trace(&layout),
        () if name.ends_with(".json") => memc::report::json(&layout),
        () if name.ends_with(".txt") => memc::report::text(&layout),
        () => return Err(usage(format!("{name}: the extension says no format"), "use .html, .txt, .json or .trace.json")),
    };
    let mut outputs = Outputs::default();
    outputs.add(output, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a layout is of a model: of the one that was given to be planned, or of the one that was written.
fn is_of(layout: &Layout, file: &ModelFile) -> bool {
    let found = memc::sha256(file.bytes());
    [&layout.model.input_sha256, &layout.model.output_sha256].contains(&&found)
}

/// The layout belongs to another file.
fn other(path: &Path) -> Failure {
    let text = format!("{} is the layout of another model: neither hash in it is that of this file", path.display());
    let help = "name the model that was planned, or the one that was written with this layout; or plan again";
    Failure { diagnostics: vec![Diagnostic::new("E0125", Severity::Error, text).with_help(help)], code: 1 }
}

/// The layout that is given, or that of the model's own order.
fn layout(arguments: &Report, voice: &Voice) -> Result<Layout, Failure> {
    let file = ModelFile::open(&arguments.input).map_err(Error::from)?;
    if let Some(path) = &arguments.layout {
        let text = read(path)?;
        let layout = memc::layout_file::read(&text).map_err(|source| Error::Layout { path: path.clone(), source })?;
        return if is_of(&layout, &file) { Ok(layout) } else { Err(other(path)) };
    }
    let passes = arguments.planning.passes.clone().unwrap_or_else(|| memc::plan::FILE_ORDER.to_owned());
    let options = OptimizeOptions {
        import: arguments.planning.import()?,
        plan: arguments.planning.options()?,
        passes: Some(passes),
        ..OptimizeOptions::default()
    };
    let optimized = memc::optimize(&file, &options, &mut Silent)?;
    voice.diagnostics(&optimized.diagnostics);
    Ok(optimized.layout)
}
