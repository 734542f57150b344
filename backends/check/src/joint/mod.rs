//! Verifies a joint file from the files alone: one file a rule.
//!
//! Each member must pass the check of any plan at its new offsets (`layouts`). The other rules compare the
//! bytes of members with each other: values that are handed over (`handoffs`, `met`), guests and the bytes of
//! their host (`admissions`), members that run at once (`order`), and constants (`constants`). Nothing rests
//! on time, only on the order of steps.

mod admissions;
mod constants;
mod files;
mod handoffs;
mod layouts;
mod met;
mod numbers;
mod order;
mod places;
mod spots;

use std::collections::BTreeMap;

use bytes::Bytes;
use memc_layout::Layout;
use memc_layout::joint::Joint;
use memc_onnx_proto::ModelFile;

use crate::Which;
use crate::findings::Findings;
use crate::report::{Report, Summary};

use spots::Spots;

/// The files of one member.
#[derive(Debug)]
pub struct MemberFiles {
    /// Model that was planned.
    pub given: ModelFile,
    /// Planned model.
    pub model: ModelFile,
    /// Text of its layout.
    pub text: String,
    /// The layout in this text.
    pub layout: Layout,
    /// Whether both models lie in one folder.
    pub one_folder: bool,
}

/// Bytes of a file beside a model of a member: member, model, location, offset and length.
pub type MemberWeights<'w> = dyn Fn(usize, Which, &str, u64, u64) -> Option<Bytes> + 'w;

/// Verifies a joint file against the files of its members, in the order of `joint.members`.
///
/// Takes the time of the check of each member, and O(steps · tensors live at once) for bytes that meet.
pub fn check(joint: &Joint, members: &[MemberFiles], weights: &MemberWeights<'_>) -> Report {
    let mut findings = Findings::default();
    let mut summary = Summary::default();
    files::check(joint, members, &mut findings);
    if findings.is_empty() {
        let ctx = Ctx::new(joint, members);
        places::check(&ctx, &mut findings);
        handoffs::check(&ctx, &mut findings);
        admissions::check(&ctx, &mut findings);
        // Bytes are compared only if each has a place.
        if findings.is_empty() {
            met::check(&ctx, &mut findings);
            order::check(&ctx, &mut findings);
            numbers::check(&ctx, &mut findings);
        }
        constants::check(&ctx, weights, &mut findings);
        summary.unproven_outputs = layouts::check(&ctx, weights, &mut findings);
    } else {
        findings.remark("stopped early: the files are not those of the joint file".to_owned());
    }
    summary.violations = findings.counts();
    let (violations, remarks) = findings.finish();
    Report { violations, remarks, summary }
}

/// All files of a check, with the places of all tensors.
struct Ctx<'c> {
    joint: &'c Joint,
    members: &'c [MemberFiles],
    /// Position of each member, by name.
    member: BTreeMap<&'c str, usize>,
    /// Places of the tensors of each member; those of a guest are in its own arena.
    spots: Vec<Spots<'c>>,
}

impl<'c> Ctx<'c> {
    fn new(joint: &'c Joint, members: &'c [MemberFiles]) -> Self {
        let rows = joint.members.iter().enumerate();
        Self {
            joint,
            members,
            member: rows.map(|(at, member)| (member.name.as_str(), at)).collect(),
            spots: joint
                .members
                .iter()
                .zip(members)
                .map(|(member, files)| Spots::of(member, &files.layout))
                .collect(),
        }
    }

    /// Name of a member by its position.
    fn name(&self, member: usize) -> &'c str {
        self.joint.members.get(member).map_or("", |member| member.name.as_str())
    }

    /// Position of a member and of its tensor; `None` for unknown names.
    fn item(&self, item: &memc_layout::joint::Item) -> Option<(usize, usize)> {
        let member = *self.member.get(item.member.as_str())?;
        Some((member, *self.spots.get(member)?.named.get(item.tensor.as_str())?))
    }
}
