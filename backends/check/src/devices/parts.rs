//! Rule 11, parts: in a pipeline of several parts, each node that runs once a part makes, by the operator
//! table, its piece of what it makes in the given model; and the pieces are joined accordingly.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Crossing, Event, Join, Joined, Manifest, Phase, Schedule};
use memc_ops::{Piece, Pieces, Share, Typed, pieces_in_blocks};

use super::given::Given;
use crate::codes::Kind;
use crate::findings::{At, Findings};

/// The pieces of one part.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Number of parts.
    pub count: u64,
    /// The piece of each value that differs from part to part.
    pub pieces: BTreeMap<String, Piece>,
    /// Nodes that state the extents of their result: position of that operand, and the result.
    pub stated: BTreeMap<usize, (usize, String)>,
    /// Values that are made once a step and read by parts: whole, or a share each.
    pub given: BTreeSet<String>,
}

impl Parts {
    /// Extents of a value in one part.
    pub fn extents(&self, whole: &Given<'_>, name: &str) -> Option<Vec<u64>> {
        let mut dims = whole.sized.get(name)?.dims.clone();
        if let Some(axis) = self.pieces.get(name).and_then(|piece| piece.axis()) {
            *dims.get_mut(axis)? /= self.count.max(1);
        }
        Some(dims)
    }
}

/// Derives the pieces of all values, and adds what contradicts them. `None` without several parts, and if
/// something contradicts.
pub(super) fn derive(whole: &Given<'_>, manifest: &Manifest, findings: &mut Findings) -> Option<Parts> {
    let before = findings.counts();
    phases(manifest, findings);
    if manifest.pipeline.is_none() || manifest.micro_batches < 2 {
        return None;
    }
    let mut walk = Walk {
        whole,
        manifest,
        parts: Parts { count: manifest.micro_batches, ..Parts::default() },
        findings,
    };
    walk.inputs();
    walk.shares();
    walk.nodes();
    walk.values();
    let Walk { parts, findings, .. } = walk;
    (findings.counts() == before).then_some(parts)
}

fn add(findings: &mut Findings, name: &str, message: String) {
    findings.add(Kind::SectionPart, if name.is_empty() { At::default() } else { At::tensor(name) }, message);
}

/// Sections have phases in a pipeline, and only there.
fn phases(manifest: &Manifest, findings: &mut Findings) {
    for section in &manifest.sections {
        if section.phase.is_some() != manifest.pipeline.is_some() {
            add(
                findings,
                "",
                format!("{}: sections of a pipeline have a phase, and no others", section.name()),
            );
        }
    }
    for section in &manifest.sections {
        let is_pipelined = matches!(section.phase, Some(Phase::Forward | Phase::Backward));
        if section.phase == Some(Phase::Gradient) && !super::is_data(manifest)
            || is_pipelined && super::is_data(manifest)
        {
            add(findings, "", format!("{} has the phase of another schedule", section.name()));
        }
    }
    if manifest.pipeline.is_none() {
        let stated = manifest.values.iter().find(|value| value.once || value.joined.is_some());
        if let Some(value) = stated {
            add(
                findings,
                &value.name,
                format!("`{}` is stated for a step, and the manifest has no pipeline", value.name),
            );
        }
    }
}

/// Forward and backward runs follow the stated schedule.
pub(super) fn schedule(manifest: &Manifest, findings: &mut Findings) {
    let Some(pipeline) = manifest.pipeline.as_ref().filter(|_| !super::is_data(manifest)) else { return };
    let phase = |name: &Option<String>| {
        let name = name.as_ref()?;
        manifest.sections.iter().find(|section| section.name() == name)?.phase
    };
    for (rank, device) in manifest.devices.iter().enumerate() {
        let (mut ahead, mut has_turned) = (0_u64, false);
        let after = u64::try_from(manifest.devices.len() - rank).unwrap_or(u64::MAX);
        let own = manifest.sections.iter().filter(|section| section.device == device.name);
        let has_backward = own.into_iter().any(|section| section.phase == Some(Phase::Backward));
        for event in manifest.program.get(&device.name).into_iter().flatten() {
            let Event::Run { section, .. } = event else { continue };
            match phase(section) {
                Some(Phase::Forward) => {
                    ahead += 1;
                    let breaks = match pipeline.schedule {
                        Schedule::Gpipe => has_turned,
                        Schedule::OneForwardOneBackward => has_backward && ahead > after,
                        Schedule::Data => false,
                    };
                    if breaks {
                        add(
                            findings,
                            "",
                            format!("{} runs a forward section that its schedule has later", device.name),
                        );
                        break;
                    }
                }
                Some(Phase::Backward) => {
                    ahead = ahead.saturating_sub(1);
                    has_turned = true;
                }
                _ => {}
            }
        }
    }
}

struct Walk<'w> {
    whole: &'w Given<'w>,
    manifest: &'w Manifest,
    parts: Parts,
    findings: &'w mut Findings,
}

impl Walk<'_> {
    fn add(&mut self, name: &str, message: String) {
        add(self.findings, name, message);
    }

    /// Graph inputs: one for the step, or a share for each part.
    fn inputs(&mut self) {
        let manifest = self.manifest;
        for value in manifest.values.iter().filter(|value| value.from.is_none()) {
            let name = &value.name;
            match &value.joined {
                Some(Joined { by: Join::Concat, axis: Some(axis), .. }) if !value.once => {
                    self.cut(name, usize::try_from(*axis).unwrap_or(usize::MAX));
                }
                None if value.once => {}
                _ => self.add(name, format!("`{name}` is neither one value a step nor cut along an axis")),
            }
        }
    }

    /// Values of the step that parts read.
    fn shares(&mut self) {
        let manifest = self.manifest;
        let once = |name: &String| {
            manifest.sections.iter().any(|section| section.name() == name && manifest.is_once(section))
        };
        for value in manifest.values.iter().filter(|value| value.from.as_ref().is_some_and(once)) {
            if value.to.iter().all(once) {
                continue;
            }
            self.parts.given.insert(value.name.clone());
            if let Some(Joined { by: Join::Concat, axis: Some(axis), .. }) = &value.joined {
                let axis = usize::try_from(*axis).unwrap_or(usize::MAX);
                self.cut(&value.name, axis);
            }
        }
    }

    /// Notes that each part has its share of a value.
    fn cut(&mut self, name: &str, axis: usize) {
        let extent = self.whole.sized.get(name).and_then(|sized| sized.dims.get(axis)).copied().unwrap_or(0);
        let count = self.parts.count;
        if extent == 0 || !extent.is_multiple_of(count) {
            self.add(
                name,
                format!("axis {axis} of `{name}` has {extent} positions, not {count} equal parts"),
            );
            return;
        }
        self.parts.pieces.insert(name.to_owned(), Piece::Along(axis));
    }

    fn nodes(&mut self) {
        let manifest = self.manifest;
        let in_parts = manifest.sections.iter().filter(|section| !manifest.is_once(section));
        let nodes =
            in_parts.flat_map(|section| &section.nodes).filter_map(|node| usize::try_from(*node).ok());
        let nodes: BTreeSet<usize> = nodes.filter(|node| *node < self.whole.nodes.len()).collect();
        // Integers that follow from the extents are constants of sections, and may be pieces.
        let is_known = |node: &usize| {
            let makes = &self.whole.nodes[*node].makes;
            !makes.is_empty() && makes.iter().all(|name| self.whole.is_known(name))
        };
        let known: BTreeSet<usize> = (0..self.whole.nodes.len()).filter(is_known).collect();
        let repeated: BTreeMap<&str, usize> = match &manifest.pipeline {
            Some(pipeline) => {
                let all = pipeline.repeated.iter();
                all.map(|one| (one.value.as_str(), usize::try_from(one.axis).unwrap_or(usize::MAX))).collect()
            }
            None => BTreeMap::new(),
        };
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for (name, axis) in repeated.iter().filter(|(name, _)| self.whole.weights.contains(**name)) {
            used.insert(name);
            if self.whole.share_of_constant(name, *axis, self.parts.count).is_none() {
                self.add(name, format!("parts of `{name}` along axis {axis} are not known to be equal"));
                continue;
            }
            self.parts.pieces.insert((*name).to_owned(), Piece::Along(*axis));
        }
        for node in super::cut::ordered(self.whole, &nodes.union(&known).copied().collect()) {
            let given =
                self.whole.nodes[node].makes.iter().find(|name| self.parts.given.contains(*name)).cloned();
            if let Some(name) = given {
                self.add(&name, format!("`{name}` is made once a step and in each part"));
                continue;
            }
            let own =
                self.whole.nodes[node].makes.iter().find_map(|name| repeated.get_key_value(name.as_str()));
            if let Some((name, axis)) = own {
                used.insert(name);
                self.repeat(node, name, *axis);
            } else {
                self.node(node, nodes.contains(&node));
            }
        }
        let stated = repeated.keys().find(|name| !used.contains(*name)).map(|name| (*name).to_owned());
        if let Some(name) = stated {
            self.add(&name, format!("`{name}` is repeated, and no part makes it"));
        }
    }

    /// A value with equal positions along an axis, of which each part makes fewer.
    fn repeat(&mut self, node: usize, name: &str, axis: usize) {
        let item = &self.whole.nodes[node];
        let is_equal = matches!(item.inner[..], [inner] if {
            let typed = Typed::of(&self.whole.module, inner);
            let (from, to) = (typed.input_dims(0), typed.output_dims(0).unwrap_or_default());
            match &*typed.data().operator.name {
                "ConstantOfShape" => axis < to.len(),
                "Expand" => from.is_some_and(|from| axis < to.len() && (to.len() - axis > from.len() || from[axis + from.len() - to.len()] == 1)),
                _ => false,
            }
        });
        let has_piece = item.reads.iter().any(|read| self.parts.pieces.contains_key(read));
        let sized = self.whole.sized.get(name);
        let divides = sized
            .and_then(|sized| sized.dims.get(axis))
            .is_some_and(|extent| extent.is_multiple_of(self.parts.count));
        if !is_equal || has_piece || !divides || item.makes.len() != 1 {
            let message = format!(
                "`{name}` does not have equal positions along axis {axis}, of which each part makes its share"
            );
            self.add(name, message);
            return;
        }
        let operator = self.whole.file.graph().node[node].op_type();
        self.parts.stated.insert(node, (usize::from(operator == "Expand"), name.to_owned()));
        self.parts.pieces.insert(name.to_owned(), Piece::Along(axis));
    }

    /// Follows pieces through a node. A node that no part runs may be one that the table cannot follow.
    fn node(&mut self, node: usize, is_run: bool) {
        let whole = self.whole;
        let item = &whole.nodes[node];
        if !item.reads.iter().any(|name| self.parts.pieces.contains_key(name)) {
            // The same in all parts.
            if is_run && !whole.repeats(node) {
                let message = format!("each part runs {}, which may not run again", whole.title(node));
                self.findings.add(Kind::SectionRandom, At::default(), message);
            }
            return;
        }
        let [inner] = item.inner[..] else {
            if !is_run {
                return;
            }
            self.add("", format!("what {} makes of a part is unknown", whole.title(node)));
            return;
        };
        let data = whole.module.node(inner);
        let name = |value: memc_ir::Value| whole.module.value(value).name.as_str();
        let piece = |value: &Option<memc_ir::Value>| {
            value.and_then(|value| self.parts.pieces.get(name(value))).copied().unwrap_or(Piece::Whole)
        };
        let operands: Vec<Piece> = data.inputs.iter().map(piece).collect();
        let share =
            Share { node: Typed::of(&whole.module, inner), operands: &operands, parts: self.parts.count };
        let Some(found) =
            pieces_in_blocks(share).filter(|found| found.operands == operands && is_plain(data, found))
        else {
            if !is_run {
                return;
            }
            self.add(
                "",
                format!("{} makes no piece of its results from pieces of its operands", whole.title(node)),
            );
            return;
        };
        for (value, piece) in data.outputs.iter().zip(&found.results) {
            if let Some(value) = value.filter(|_| *piece != Piece::Whole) {
                self.parts.pieces.insert(name(value).to_owned(), *piece);
            }
        }
        if let (Some(position), Some(result)) = (found.extents, item.makes.first()) {
            self.parts.stated.insert(node, (position, result.clone()));
        }
    }

    /// Values between sections: what parts make is joined for the step, by its piece.
    fn values(&mut self) {
        let manifest = self.manifest;
        let once: BTreeMap<&str, bool> =
            manifest.sections.iter().map(|section| (section.name(), manifest.is_once(section))).collect();
        let is_once = |name: &String| once.get(name.as_str()).copied().unwrap_or(false);
        for value in &manifest.values {
            let name = &value.name;
            let Some(from) = &value.from else {
                let reads_parts = value.to.iter().any(|to| !is_once(to));
                if value.joined.is_some() && !reads_parts {
                    self.add(name, format!("no part reads its share of `{name}`"));
                }
                continue;
            };
            if is_once(from) {
                let is_share = self.parts.given.contains(name) && self.parts.pieces.contains_key(name);
                let is_stated = if is_share { !value.once } else { value.once && value.joined.is_none() };
                if !is_stated || value.joined.as_ref().is_some_and(|joined| joined.by != Join::Concat) {
                    self.add(name, format!("`{name}` is made once a step, and not stated so"));
                }
                continue;
            }
            let is_needed = value.output || value.to.iter().any(is_once);
            if value.once || !self.is_joined(value, is_needed) {
                let found = self.parts.pieces.get(name);
                self.add(
                    name,
                    format!("`{name}` is not joined as its parts are: {found:?}, {:?}", value.joined),
                );
            }
        }
    }

    fn is_joined(&self, value: &Crossing, is_needed: bool) -> bool {
        let Some(joined) = value.joined.as_ref().filter(|_| is_needed) else {
            return !is_needed && value.joined.is_none();
        };
        match self.parts.pieces.get(&value.name) {
            Some(Piece::Sum) => joined.by == Join::Sum && joined.axis.is_none(),
            Some(Piece::Mean) => joined.by == Join::Mean && joined.axis.is_none(),
            Some(Piece::Along(axis)) => joined.by == Join::Concat && joined.axis == u64::try_from(*axis).ok(),
            _ => false,
        }
    }
}

/// Whether the node of a part is that of the whole but for the operand that states extents.
fn is_plain(data: &memc_ir::NodeData, found: &Pieces) -> bool {
    let is_omitted = |operand: &usize| data.inputs.get(*operand).copied().flatten().is_none();
    let is_free = |name: &&str| data.attributes.iter().all(|(own, _)| own != name);
    let is_same = found.divided.is_none() && found.count.is_none() && found.operator.is_none();
    is_same && found.in_first.iter().all(is_omitted) && found.in_last.iter().all(is_free)
}
