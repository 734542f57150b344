//! Rule 10, annotations: where planned models state a pipeline stage (ONNX IR version 11), it is the rank of
//! their section.

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    for (section, files) in ctx.manifest.sections.iter().zip(ctx.sections) {
        let Some(rank) = ctx.rank.get(section.device.as_str()).filter(|_| section.devices.is_empty()) else {
            continue;
        };
        for node in &files.model.graph().node {
            let stages =
                node.device_configurations.iter().filter_map(|configuration| configuration.pipeline_stage);
            for stage in stages.filter(|stage| usize::try_from(*stage) != Ok(*rank)) {
                let message = format!(
                    "{}: node \"{}\" states pipeline stage {stage}, not rank {rank}",
                    section.model,
                    node.name()
                );
                findings.add(Kind::SectionAnnotation, At::default(), message);
            }
        }
    }
}
