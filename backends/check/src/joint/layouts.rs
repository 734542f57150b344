//! Rule 3, layouts: each member alone passes the check of any plan at its new offsets.

use memc_layout::Layout;

use super::{Ctx, MemberWeights};
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::{Options, check_with};

/// Returns the outputs of members that are not proven equal.
pub(super) fn check(ctx: &Ctx<'_>, weights: &MemberWeights<'_>, findings: &mut Findings) -> Vec<String> {
    let mut unproven = Vec::new();
    for (number, files) in ctx.members.iter().enumerate() {
        let name = ctx.name(number);
        let layout = moved(ctx, number);
        // The hashes of the joint file stand for the files.
        let options = Options { hashes: false, one_folder: files.one_folder, ..Options::default() };
        let own = |which, location: &str, offset, length| weights(number, which, location, offset, length);
        let report = check_with(&files.given, &files.model, &layout, options, &own);
        if let Some(first) = report.violations.first() {
            let (count, code, text) = (report.violations.len(), first.kind.code(), &first.diagnostic.message);
            let message = format!("{name}: {count} violations of its layout, first {code}: {text}");
            findings.add(Kind::JointLayout, At::default(), message);
        }
        if !report.summary.unproven_outputs.is_empty() {
            let names = report.summary.unproven_outputs.join("`, `");
            findings.remark(format!("{name}: rewritten, and not proven equal: `{names}`"));
        }
        unproven.extend(report.summary.unproven_outputs.into_iter().map(|output| format!("{name}.{output}")));
    }
    unproven
}

/// The layout of a member at offsets of its own: an arena ends with its last tensor. A member that moves as a
/// whole keeps its layout.
fn moved(ctx: &Ctx<'_>, number: usize) -> Layout {
    let spots = &ctx.spots[number];
    let mut layout = spots.layout.clone();
    if ctx.joint.members[number].offsets.is_empty() {
        return layout;
    }
    for (tensor, spot) in layout.tensors.iter_mut().zip(&spots.spot) {
        if tensor.offset.is_some() {
            tensor.offset = spot.map(|spot| spot.low);
        }
    }
    for arena in &mut layout.arenas {
        let ends = spots.spot.iter().flatten().filter(|spot| spot.space == arena.space).map(|spot| spot.high);
        arena.size = ends.max().unwrap_or(0);
        if let Some(bound) = layout.lower_bound.get_mut(&arena.space) {
            bound.placement_proved = bound.placement == arena.size;
        }
    }
    // The limit of the member was that of its own arena; the joint arena has a size of its own.
    let sizes: Vec<(String, u64)> =
        layout.arenas.iter().map(|arena| (arena.space.clone(), arena.size)).collect();
    layout.budget.retain(|space, limit| !sizes.iter().any(|(name, size)| name == space && size > limit));
    layout
}
