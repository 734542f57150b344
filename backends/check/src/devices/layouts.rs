//! Rule 7, layouts: each section, cut from the given model anew, is what its planned model computes, and its
//! layout holds.

use bytes::Bytes;

use super::Ctx;
use super::cut::section;
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::{Options, Which, check_with};

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
                let message = format!("{}: the section cannot be cut from the given model: {cause}", stated.name());
                findings.add(Kind::SectionLayout, At::default(), message);
                continue;
            }
        };
        // The manifest's hashes stand for the files; the cut has no file.
        let options = Options { hashes: false, one_folder: false, ..Options::default() };
        let report = check_with(&cut, &files.model, &files.layout, options, weights);
        if let Some(first) = report.violations.first() {
            let (count, code, text) = (report.violations.len(), first.kind.code(), &first.diagnostic.message);
            let message = format!("{}: {count} violations of its layout, first {code}: {text}", stated.name());
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
