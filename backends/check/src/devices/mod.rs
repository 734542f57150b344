//! Verifies a manifest of sections from the files alone: one file a rule.
//!
//! Each section is cut from the given model anew, by the nodes that the manifest lists, and its layout must
//! pass the check of any other model (`layouts`). Values keep their names in all sections, so the sections
//! together are the given model if each value that its outputs need is made by the node that makes it there
//! (`union`) and each operand comes from where it is made (`edges`). The other rules replay the program.

mod annotations;
mod collectives;
mod copies;
mod cut;
mod deadlock;
mod edges;
mod files;
mod given;
mod layouts;
mod memory;
mod messages;
mod part_model;
mod parts;
mod repeat;
mod replay;
mod state;
mod union;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use memc_layout::Layout;
use memc_layout::devices::{Collective, Crossing, Manifest, Schedule, Section, Updated};
use memc_onnx_proto::ModelFile;

use crate::Which;
use crate::codes::Kind;
use crate::extents::Extents;
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
    check_prepared(given, None, manifest, sections, weights)
}

/// Verifies a manifest as [`check`] does. `prepared` are the files of the model that was divided in place of
/// the given one, if the manifest names one: its layout must pass the check of any other plan.
pub fn check_prepared(
    given: &ModelFile,
    prepared: Option<&SectionFiles>,
    manifest: &Manifest,
    sections: &[SectionFiles],
    weights: &dyn Fn(Which, &str, u64, u64) -> Option<Bytes>,
) -> Report {
    let mut findings = Findings::default();
    let mut summary = Summary::default();
    files::check(given, manifest, sections, &mut findings);
    files::prepared(prepared, manifest, &mut findings);
    if let Some(files) = prepared.filter(|_| findings.is_empty()) {
        summary.unproven_outputs = layouts::prepared(given, files, weights, &mut findings);
    }
    let given = prepared.map_or(given, |files| &files.model);
    let source = &manifest.source;
    let extents = Extents::read(
        &source.ranges,
        &source.limits,
        &source.equal,
        &source.dims,
        "the manifest",
        &mut findings,
    );
    let extents = extents.unwrap_or_default();
    let fixed = Extents::default();
    match Given::new(given, &source.dims, &extents) {
        Ok(whole) if findings.is_empty() => {
            let before = findings.counts();
            let parts = parts::derive(&whole, manifest, &mut findings);
            let part_file = parts.as_ref().map(|parts| part_model::part_model(&whole, parts));
            let part = part_file.as_ref().map(|file| file.as_ref().map_err(Clone::clone));
            let part =
                part.map(|file| file.and_then(|file| Given::new(file, &BTreeMap::new(), &fixed))).transpose();
            let mut part = part.unwrap_or_else(|cause| {
                findings.add(
                    Kind::SectionPart,
                    At::default(),
                    format!("the model of a part cannot be made: {cause}"),
                );
                None
            });
            if let Some((part, parts)) = part.as_mut().zip(parts.as_ref()) {
                part_model::settle_integers(&whole, part, parts);
            }
            if let Some(cause) = part
                .as_ref()
                .zip(parts.as_ref())
                .and_then(|(part, parts)| part_model::contradiction(&whole, part, parts, manifest))
            {
                findings.add(Kind::SectionPart, At::default(), cause);
            }
            if findings.counts() != before {
                findings
                    .remark("stopped early: the parts of the batch are not those of the manifest".to_owned());
                return finished(findings, summary);
            }
            let ctx = Ctx::new((&whole, part.as_ref().unwrap_or(&whole)), &extents, manifest, sections);
            union::check(&ctx, &mut findings);
            edges::check(&ctx, &mut findings);
            messages::check(&ctx, &mut findings);
            collectives::check(&ctx, &mut findings);
            deadlock::check(manifest, &mut findings);
            replay::check(&ctx, &mut findings);
            parts::schedule(manifest, &mut findings);
            memory::check(&ctx, &mut findings);
            copies::check(&ctx, &mut findings);
            repeat::check(&ctx, &mut findings);
            state::check(&ctx, &mut findings);
            annotations::check(&ctx, &mut findings);
            summary.unproven_outputs.extend(layouts::check(&ctx, weights, &mut findings));
        }
        Ok(_) => findings.remark("stopped early: the files are not those of the manifest".to_owned()),
        Err(cause) => {
            findings.add(Kind::SectionFile, At::default(), format!("the given model cannot be read: {cause}"))
        }
    }
    finished(findings, summary)
}

fn finished(findings: Findings, mut summary: Summary) -> Report {
    summary.violations = findings.counts();
    let (violations, remarks) = findings.finish();
    Report { violations, remarks, summary }
}

/// Whether each device computes a part of the batch.
fn is_data(manifest: &Manifest) -> bool {
    manifest.pipeline.as_ref().is_some_and(|pipeline| pipeline.schedule == Schedule::Data)
}

/// A value of a run.
type Key<'c> = (&'c str, u64);

/// All files of a check, with what follows from the manifest alone.
struct Ctx<'c> {
    whole: &'c Given<'c>,
    /// The model of one part; the given one without several parts.
    part: &'c Given<'c>,
    /// Extents of the free dimensions.
    extents: &'c Extents,
    manifest: &'c Manifest,
    sections: &'c [SectionFiles],
    /// Rank of each device.
    rank: BTreeMap<&'c str, usize>,
    /// Position of each section, by its name.
    position: BTreeMap<&'c str, usize>,
    /// Position of each value in `manifest.values`.
    value: BTreeMap<&'c str, usize>,
    /// Values that each section reads from outside, by position of the section.
    inputs: Vec<BTreeSet<&'c str>>,
    /// Values that each section gives to others or to the caller.
    outputs: Vec<BTreeSet<&'c str>>,
    /// Valid nodes of each section.
    nodes: Vec<BTreeSet<usize>>,
    /// Number of the run of the step, with several parts.
    step: Option<u64>,
    /// The collective of each value.
    collective: BTreeMap<&'c str, &'c Collective>,
}

impl<'c> Ctx<'c> {
    fn new(
        (whole, part): (&'c Given<'c>, &'c Given<'c>),
        extents: &'c Extents,
        manifest: &'c Manifest,
        sections: &'c [SectionFiles],
    ) -> Self {
        let values = &manifest.values;
        let of = |keep: &dyn Fn(&Crossing, &str) -> bool| -> Vec<BTreeSet<&'c str>> {
            let names = |section: &str| {
                values.iter().filter(|value| keep(value, section)).map(|value| value.name.as_str()).collect()
            };
            manifest.sections.iter().map(|section| names(section.name())).collect()
        };
        let nodes = |section: &Section| {
            let valid = section.nodes.iter().filter_map(|node| usize::try_from(*node).ok());
            valid.filter(|node| *node < whole.nodes.len()).collect()
        };
        Self {
            whole,
            part,
            extents,
            manifest,
            sections,
            rank: manifest
                .devices
                .iter()
                .enumerate()
                .map(|(rank, device)| (device.name.as_str(), rank))
                .collect(),
            position: manifest
                .sections
                .iter()
                .enumerate()
                .map(|(position, section)| (section.name(), position))
                .collect(),
            value: values
                .iter()
                .enumerate()
                .map(|(position, value)| (value.name.as_str(), position))
                .collect(),
            inputs: of(&|value, section| value.to.iter().any(|to| to == section)),
            outputs: of(&|value, section| value.from.as_deref() == Some(section)),
            nodes: manifest.sections.iter().map(nodes).collect(),
            step: (manifest.pipeline.is_some() && manifest.micro_batches > 1)
                .then_some(manifest.micro_batches),
            collective: manifest.collectives.iter().map(|row| (row.value.as_str(), row)).collect(),
        }
    }

    /// Whether each device computes a part of the batch.
    fn is_data(&self) -> bool {
        is_data(self.manifest)
    }

    /// Whether a device gets the value of a collective from others.
    fn gets(&self, device: &str, value: &str) -> bool {
        let Some(row) = self.collective.get(value) else { return false };
        row.devices.iter().any(|own| own == device) && collectives::is_for(row, device)
    }

    fn crossing(&self, value: &str) -> Option<&'c Crossing> {
        self.manifest.values.get(*self.value.get(value)?)
    }

    /// Size of a value in a run as the manifest states it; 0 for an unknown one.
    fn bytes(&self, value: &str, run: u64) -> u64 {
        let Some(value) = self.crossing(value) else { return 0 };
        match &value.joined {
            Some(joined) if Some(run) == self.step => joined.bytes,
            _ => value.bytes,
        }
    }

    /// Whether a section runs once a step.
    fn is_once(&self, position: usize) -> bool {
        self.manifest.sections.get(position).is_some_and(|section| self.manifest.is_once(section))
    }

    /// The model from which a section is cut.
    fn given(&self, position: usize) -> &'c Given<'c> {
        if self.is_once(position) { self.whole } else { self.part }
    }

    /// Positions of the sections of a device.
    fn sections_of(&self, device: &str) -> Vec<usize> {
        let all = self.manifest.sections.iter().enumerate();
        all.filter(|(_, section)| section.runs_on(device)).map(|(position, _)| position).collect()
    }

    /// The section of a run event on a device: by its name, or the only one.
    fn section_of(&self, device: &str, name: Option<&String>) -> Option<usize> {
        let own = self.sections_of(device);
        match name {
            Some(name) => self.position.get(name.as_str()).copied().filter(|position| own.contains(position)),
            None => own.first().copied().filter(|_| own.len() == 1),
        }
    }

    /// Runs of a section. More runs than events need not be followed: some run then lacks its events.
    fn runs(&self, position: usize) -> Vec<u64> {
        let events = self.manifest.program.values().map(|events| events.len() as u64).max().unwrap_or(0);
        match self.step.filter(|_| self.is_once(position)) {
            Some(step) => vec![step],
            None => (0..self.manifest.micro_batches.min(events.saturating_add(1))).collect(),
        }
    }

    /// Runs of a section on a device: of several devices, each has the part of its rank.
    fn runs_on(&self, position: usize, device: &str) -> Vec<u64> {
        let section = &self.manifest.sections[position];
        if section.devices.is_empty() || self.is_once(position) {
            return self.runs(position);
        }
        section.devices.iter().zip(0..).filter(|(own, _)| *own == device).map(|(_, run)| run).collect()
    }

    /// The value that a run of a section reads or makes under a name.
    fn key(&self, value: &'c str, position: usize, run: u64) -> Key<'c> {
        let is_whole = self.is_once(position) || self.crossing(value).is_some_and(|value| value.once);
        (value, self.step.filter(|_| is_whole).unwrap_or(run))
    }

    /// New values that lie in the storage of old ones on a device.
    fn updated<'d>(&'d self, device: &'d str) -> impl Iterator<Item = &'c Updated> + 'd {
        self.manifest
            .state
            .iter()
            .filter(move |row| self.devices(&row.section).iter().any(|own| own == device))
    }

    /// Devices of a section.
    fn devices(&self, section: &str) -> &'c [String] {
        let section = self.position.get(section).and_then(|position| self.manifest.sections.get(*position));
        section.map_or(&[], Section::devices)
    }
}
