//! Verifies a manifest of sections from the files alone: one file a rule.
//!
//! Each section is cut from the given model anew, by the nodes that the manifest lists, and its layout must
//! pass the check of any other model (`layouts`). Values keep their names in all sections, so the sections
//! together are the given model if each value that its outputs need is made by the node that makes it there
//! (`union`) and each operand comes from where it is made (`edges`). The other rules replay the program.

mod annotations;
mod copies;
mod cut;
mod deadlock;
mod edges;
mod files;
mod given;
mod layouts;
mod memory;
mod messages;
mod repeat;
mod replay;
mod union;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use memc_layout::Layout;
use memc_layout::devices::Manifest;
use memc_onnx_proto::ModelFile;

use crate::Which;
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::report::{Report, Summary};

use given::Given;

/// The files of one section.
#[derive(Debug)]
pub struct SectionFiles {
    /// Planned model.
    pub model: ModelFile,
    /// Text of its layout.
    pub text: String,
    /// The layout in this text.
    pub layout: Layout,
}

/// Verifies a manifest against the given model and the files of its sections, in the order of
/// `manifest.sections`. `weights` returns the bytes of a weight file beside the given model or beside the
/// sections, as for [`crate::check_with`].
///
/// Takes the time of the check of each section, and O(n log n) in nodes, values and events.
pub fn check(
    given: &ModelFile,
    manifest: &Manifest,
    sections: &[SectionFiles],
    weights: &dyn Fn(Which, &str, u64, u64) -> Option<Bytes>,
) -> Report {
    let mut findings = Findings::default();
    files::check(given, manifest, sections, &mut findings);
    let mut summary = Summary::default();
    match Given::new(given, &manifest.source.dims) {
        Ok(whole) if findings.is_empty() => {
            let ctx = Ctx::new(&whole, manifest, sections);
            union::check(&ctx, &mut findings);
            edges::check(&ctx, &mut findings);
            messages::check(&ctx, &mut findings);
            deadlock::check(manifest, &mut findings);
            replay::check(&ctx, &mut findings);
            memory::check(&ctx, &mut findings);
            copies::check(&ctx, &mut findings);
            repeat::check(&ctx, &mut findings);
            annotations::check(&ctx, &mut findings);
            summary.unproven_outputs = layouts::check(&ctx, weights, &mut findings);
        }
        Ok(_) => findings.remark("stopped early: the files are not those of the manifest".to_owned()),
        Err(cause) => findings.add(Kind::SectionFile, At::default(), format!("the given model cannot be read: {cause}")),
    }
    summary.violations = findings.counts();
    let (violations, remarks) = findings.finish();
    Report { violations, remarks, summary }
}

/// All files of a check, with what follows from the manifest alone.
struct Ctx<'c> {
    whole: &'c Given<'c>,
    manifest: &'c Manifest,
    sections: &'c [SectionFiles],
    /// Rank of each device.
    rank: BTreeMap<&'c str, usize>,
    /// Position of each value in `manifest.values`.
    value: BTreeMap<&'c str, usize>,
    /// Values that each section reads from outside, by position of the section.
    inputs: Vec<BTreeSet<&'c str>>,
    /// Values that each section gives to others or to the caller.
    outputs: Vec<BTreeSet<&'c str>>,
    /// Valid nodes of each section.
    nodes: Vec<BTreeSet<usize>>,
}

impl<'c> Ctx<'c> {
    fn new(whole: &'c Given<'c>, manifest: &'c Manifest, sections: &'c [SectionFiles]) -> Self {
        let values = &manifest.values;
        let of = |keep: &dyn Fn(&memc_layout::devices::Crossing, &str) -> bool| -> Vec<BTreeSet<&'c str>> {
            let names =
                |device: &str| values.iter().filter(|value| keep(value, device)).map(|value| value.name.as_str()).collect();
            manifest.sections.iter().map(|section| names(&section.device)).collect()
        };
        let nodes = |section: &memc_layout::devices::Section| {
            let valid = section.nodes.iter().filter_map(|node| usize::try_from(*node).ok());
            valid.filter(|node| *node < whole.nodes.len()).collect()
        };
        Self {
            whole,
            manifest,
            sections,
            rank: manifest.devices.iter().enumerate().map(|(rank, device)| (device.name.as_str(), rank)).collect(),
            value: values.iter().enumerate().map(|(position, value)| (value.name.as_str(), position)).collect(),
            inputs: of(&|value, device| value.to.iter().any(|to| to == device)),
            outputs: of(&|value, device| value.from.as_deref() == Some(device)),
            nodes: manifest.sections.iter().map(nodes).collect(),
        }
    }

    /// Size of a value as the manifest states it; 0 for an unknown one.
    fn bytes(&self, value: &str) -> u64 {
        self.value.get(value).and_then(|position| self.manifest.values.get(*position)).map_or(0, |value| value.bytes)
    }
}
