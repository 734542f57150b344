//! Rule 7, layouts: each section, cut from the given model anew, is what its planned model computes, and its
//! layout holds.

use bytes::Bytes;
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;

use super::cut::section;
use super::{Ctx, SectionFiles};
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::{Options, Which, check_with};

/// Checks the plan of the model that was divided in place of the given one. Returns its outputs that are not
/// proven equal.
pub(super) fn prepared(
    given: &ModelFile,
    files: &SectionFiles,
    weights: &dyn Fn(Which, &str, u64, u64) -> Option<Bytes>,
    findings: &mut Findings,
) -> Vec<String> {
    let options = Options { one_folder: false, ..Options::default() };
    let report = check_with(given, &files.model, &files.layout, options, weights);
    if let Some(first) = report.violations.first() {
        let (count, code, text) = (report.violations.len(), first.kind.code(), &first.diagnostic.message);
        let message =
            format!("the model that was divided: {count} violations of its layout, first {code}: {text}");
        findings.add(Kind::SectionLayout, At::default(), message);
    }
    report.summary.unproven_outputs
}

/// Returns the outputs of sections that are not proven equal.
pub(super) fn check(
    ctx: &Ctx<'_>,
    weights: &dyn Fn(Which, &str, u64, u64) -> Option<Bytes>,
    findings: &mut Findings,
) -> Vec<String> {
    let mut unproven = Vec::new();
    for (position, (stated, files)) in ctx.manifest.sections.iter().zip(ctx.sections).enumerate() {
        let cut = match section(ctx, position) {
            Ok(cut) => cut,
            Err(cause) => {
                let message =
                    format!("{}: the section cannot be cut from the given model: {cause}", stated.name());
                findings.add(Kind::SectionLayout, At::default(), message);
                continue;
            }
        };
        if let Some(message) = narrower(ctx, &cut, &files.layout) {
            findings.add(Kind::SectionLayout, At::default(), format!("{}: {message}", stated.name()));
            continue;
        }
        // The manifest's hashes stand for the files; the cut has no file.
        let options = Options { hashes: false, one_folder: false, ..Options::default() };
        let report = check_with(&cut, &files.model, &files.layout, options, weights);
        if let Some(first) = report.violations.first() {
            let (count, code, text) = (report.violations.len(), first.kind.code(), &first.diagnostic.message);
            let message =
                format!("{}: {count} violations of its layout, first {code}: {text}", stated.name());
            findings.add(Kind::SectionLayout, At::default(), message);
        }
        if !report.summary.unproven_outputs.is_empty() {
            let names = report.summary.unproven_outputs.join("`, `");
            findings.remark(format!("{}: rewritten, and not proven equal: `{names}`", stated.name()));
        }
        unproven.extend(report.summary.unproven_outputs);
    }
    unproven
}

/// Why the plan of a section does not hold for all extents of the manifest; `None` if it does.
fn narrower(ctx: &Ctx<'_>, cut: &ModelFile, layout: &Layout) -> Option<String> {
    let (source, model) = (&ctx.manifest.source, &layout.model);
    let open = memc_onnx_import::open_dimensions(cut).unwrap_or_default();
    if let Some(name) = open.iter().find(|name| source.ranges.get(*name) != model.ranges.get(*name)) {
        let (stated, found) = (source.ranges.get(name), model.ranges.get(name));
        return Some(format!("its plan is for {found:?} of `{name}`, not for {stated:?}"));
    }
    let limit = model.limits.iter().find(|limit| !source.limits.contains(limit));
    limit.map(|limit| format!("its plan is for `{}` up to {} alone", limit.of, limit.most))
}
