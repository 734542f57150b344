//! `memc report`.

use std::path::{Path, PathBuf};

use memc::{Error, Model, Outputs, Size, read};
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_layout::Layout;
use memc_report::{HtmlOptions, Limits, Row};

use super::args::{FormatArg, Report};
use super::{ExitCode, Failure, Outcome, Voice, depfile, is_stream, open, print, usage};

/// Reports the memory of a model, under a layout or in its own order, and compares it with limits.
pub fn run(arguments: &Report, voice: &Voice) -> Outcome {
    if let Some(path) = &arguments.joint {
        return joint(arguments, path);
    }
    let format = format(arguments)?;
    let file = open(input(arguments))?;
    let layout = layout(arguments, &file, voice)?;
    let baseline = arguments.baseline.as_deref().map(read_layout).transpose()?;
    let rows = memc_report::compare(&layout, &limits(arguments, &layout, baseline.as_ref()));
    let text = rendered(arguments, format, &layout, &rows);
    let output = arguments.output.as_deref().filter(|output| !is_stream(output));
    let Some(output) = output else {
        print(&text)?;
        return refuse_exceeded(&rows);
    };
    let mut outputs = Outputs::default();
    outputs.add(output, |out| out.write_all(text.as_bytes()))?;
    if let Some(path) = &arguments.depfile {
        let mut sources = depfile::sources(input(arguments), &file, &arguments.planning.machine);
        sources.extend([&arguments.layout, &arguments.baseline].into_iter().flatten().cloned());
        let rule = depfile::rule([output], &sources);
        outputs.add(path, |out| out.write_all(rule.as_bytes()))?;
    }
    outputs.commit()?;
    refuse_exceeded(&rows)
}

/// The model of the arguments; clap demands one unless there is a joint file.
fn input(arguments: &Report) -> &Path {
    arguments.input.as_deref().unwrap_or(Path::new(""))
}

/// Reports on a joint file as text.
fn joint(arguments: &Report, path: &Path) -> Outcome {
    if arguments.format.is_some_and(|format| format != FormatArg::Text) || arguments.json {
        return Err(usage(
            "a joint file is reported as text".to_owned(),
            "leave out `--format` and `--json`: the file is JSON itself",
        ));
    }
    let joint = memc::read_joint(path)?;
    let files = memc::joint_files(path, &joint)?;
    let layouts: Vec<Layout> = files.into_iter().map(|files| files.layout).collect();
    let text = memc_report::joint(&joint, &layouts);
    let Some(output) = arguments.output.as_deref().filter(|output| !is_stream(output)) else {
        return print(&text);
    };
    let mut outputs = Outputs::default();
    outputs.add(output, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// The form of the report: the requested one, or that of the extension.
fn format(arguments: &Report) -> Result<FormatArg, Failure> {
    let Some(output) = arguments.output.as_deref().filter(|output| !is_stream(output)) else {
        return Ok(arguments.format.unwrap_or(if arguments.json {
            FormatArg::Json
        } else {
            FormatArg::Text
        }));
    };
    if let Some(format) = arguments.format {
        return Ok(format);
    }
    let name = output.to_string_lossy();
    let endings = [
        (".html", FormatArg::Html),
        (".trace.json", FormatArg::Trace),
        (".json", FormatArg::Json),
        (".txt", FormatArg::Text),
        (".md", FormatArg::Markdown),
        (".sarif", FormatArg::Sarif),
    ];
    let known = endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format);
    known.ok_or_else(|| {
        usage(
            format!("{name}: the extension must name a format"),
            "use .html, .txt, .md, .json, .trace.json or .sarif, or --format",
        )
    })
}

/// The report in a form.
fn rendered(arguments: &Report, format: FormatArg, layout: &Layout, rows: &[Row]) -> String {
    let name =
        input(arguments).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match format {
        FormatArg::Text => memc_report::text(layout),
        FormatArg::Markdown => memc_report::markdown(layout, &name, rows),
        FormatArg::Json if rows.iter().all(|row| row.limit.is_none()) => memc_report::json(layout),
        FormatArg::Json => memc_report::json_with_limits(layout, rows),
        FormatArg::Github => memc_report::github(layout, &input(arguments).to_string_lossy(), rows),
        FormatArg::Sarif => memc_report::sarif(&input(arguments).to_string_lossy(), rows),
        FormatArg::Html => memc_report::html(layout, &HtmlOptions { title: &name, before: None }),
        FormatArg::Trace => memc_report::trace(layout),
    }
}

/// The limits that the arguments state.
fn limits<'l>(arguments: &Report, layout: &Layout, baseline: Option<&'l Layout>) -> Limits<'l> {
    let own_peak = || {
        let first = layout.target.spaces.first().and_then(|space| layout.baseline.own_peak.get(&space.name));
        Bytes(first.copied().unwrap_or_default())
    };
    let weights =
        || Bytes(if layout.baseline.weights == 0 { layout.weights } else { layout.baseline.weights });
    let bytes = |size: Option<Size>, whole: Bytes| size.map(|size| size.resolve(whole));
    Limits {
        max_arena: bytes(arguments.max_arena, own_peak()),
        max_weights: bytes(arguments.max_weights, weights()),
        baseline,
        allowed: arguments.allow.unwrap_or_default(),
    }
}

/// Fails if a size exceeds its limit.
fn refuse_exceeded(rows: &[Row]) -> Outcome {
    let sentences: Vec<String> = rows.iter().filter(|row| row.exceeds()).map(memc_report::sentence).collect();
    let Some((first, others)) = sentences.split_first() else { return Ok(ExitCode::SUCCESS) };
    let help = "`memc optimize` plans with less memory; else raise the limit, or name the layout of this plan as the baseline";
    let mut diagnostic = Diagnostic::new("E0317", Severity::Error, first.clone()).with_help(help);
    diagnostic.notes.extend(others.iter().cloned());
    Err(Failure { diagnostics: vec![diagnostic], code: 3 })
}

/// Whether a layout belongs to a model: the planned one, or the one that was written.
fn is_of(layout: &Layout, file: &Model) -> bool {
    let found = memc::sha256(file.bytes());
    [&layout.model.input_sha256, &layout.model.output_sha256].contains(&&found)
}

/// Rejects the layout of another model.
fn other(path: &Path) -> Failure {
    let text = format!(
        "{} is the layout of another model: neither hash in it is the hash of this file",
        path.display()
    );
    let help =
        "name the model that was planned or the model that was written with this layout, or plan again";
    Failure { diagnostics: vec![Diagnostic::new("E0125", Severity::Error, text).with_help(help)], code: 1 }
}

/// Reads a layout file.
pub(super) fn read_layout(path: &Path) -> Result<Layout, Failure> {
    let told = |source| Error::Layout { path: PathBuf::from(path), source };
    Ok(memc_layout::read(&read(path)?).map_err(told)?)
}

/// Reads the given layout, or plans the model: in its own order, or as `memc optimize` does.
fn layout(arguments: &Report, file: &Model, voice: &Voice) -> Result<Layout, Failure> {
    if let Some(path) = &arguments.layout {
        let layout = read_layout(path)?;
        return if is_of(&layout, file) { Ok(layout) } else { Err(other(path)) };
    }
    let mut request = arguments.planning.request()?;
    if !arguments.planned && request.passes.is_none() {
        request.passes = Some(memc_plan::FILE_ORDER.to_owned());
    }
    let optimized = memc::plan(file, &request)?;
    voice.diagnostics(&optimized.diagnostics);
    Ok(optimized.layout)
}
