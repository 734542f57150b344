//! Places: the device and the phase of each node of a step, given those of its forward nodes.
//!
//! A backward node runs where the forward values that it reads are held, and no earlier than the backward
//! values that it reads: these go from the last device to the first. Nodes behind the last backward node
//! belong to the device of the parameter, or of the larger operand.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::Phase;

use super::super::cut::Portion;
use super::super::divide::Cones;
use super::super::graph::Graph;
use super::super::options::Devices;
use super::parts::Parts;
use crate::split_error::SplitError;

/// A node behind the backward pass that reads at most so many times the bytes that it makes, such as the sum
/// of a gradient and a decayed parameter, runs on the device of its parameter.
const MORE: u64 = 3;

/// The roles of all nodes of a step.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    pub cones: Cones,
    /// Nodes from inputs to the loss, which the solver divides.
    pub forward: BTreeSet<usize>,
    /// Nodes behind the backward pass.
    pub tail: BTreeSet<usize>,
    /// Nodes that run once a step, before all parts.
    pub early: BTreeSet<usize>,
    /// Nodes in an order of makers and readers, without cones.
    pub order: Vec<usize>,
}

impl Roles {
    /// Tells the nodes of a step apart.
    ///
    /// # Errors
    /// The step has no loss, or nothing but a loss.
    pub fn of(graph: &Graph<'_>, cones: Cones, parts: Option<&Parts>) -> Result<Self, SplitError> {
        let loss = loss(graph).ok_or(SplitError::NoLoss)?;
        let is_own = |unit: &usize| graph.needed.contains(unit) && !cones.contains_key(unit);
        let order: Vec<usize> = graph.order.iter().copied().filter(is_own).collect();
        let in_parts = |unit: &usize| parts.is_none_or(|parts| parts.nodes.contains(unit));
        let forward: BTreeSet<usize> =
            graph.ancestors(loss).into_iter().filter(|unit| is_own(unit) && in_parts(unit)).collect();
        if order.len() == forward.len() {
            return Err(SplitError::NoBackward { loss: loss.to_owned() });
        }
        let mut roles = Self { forward, tail: BTreeSet::new(), early: BTreeSet::new(), order, cones };
        match parts {
            Some(parts) => {
                roles.tail = roles.order.iter().copied().filter(|unit| parts.late.contains(unit)).collect();
                let is_early = |unit: &usize| !parts.late.contains(unit) && !parts.nodes.contains(unit);
                roles.early = roles.order.iter().copied().filter(is_early).collect();
            }
            None => roles.find_tail(graph),
        }
        Ok(roles)
    }

    /// Backward nodes behind which no node reads a forward value.
    fn find_tail(&mut self, graph: &Graph<'_>) {
        let mut body: BTreeSet<usize> = BTreeSet::new();
        for &unit in self.order.iter().rev().filter(|unit| !self.forward.contains(unit)) {
            if body.contains(&unit) || makers(graph, unit).any(|maker| self.forward.contains(&maker)) {
                body.insert(unit);
                body.extend(makers(graph, unit).filter(|maker| !self.forward.contains(maker)));
            }
        }
        let is_tail = |unit: &usize| !self.forward.contains(unit) && !body.contains(unit);
        self.tail = self.order.iter().copied().filter(is_tail).collect();
    }

    /// Whether a node is in the backward pass.
    pub fn is_backward(&self, unit: usize) -> bool {
        !self.forward.contains(&unit) && !self.tail.contains(&unit) && !self.early.contains(&unit)
    }

    /// The forward node that each other node follows: the last one whose value it reads, or the first one
    /// that its operands follow.
    pub fn anchors(&self, graph: &Graph<'_>) -> BTreeMap<usize, usize> {
        let place: BTreeMap<usize, usize> =
            graph.order.iter().enumerate().map(|(at, unit)| (*unit, at)).collect();
        let mut found: BTreeMap<usize, usize> = BTreeMap::new();
        for &unit in self.order.iter().filter(|unit| !self.forward.contains(unit)) {
            let read = makers(graph, unit).filter(|maker| self.forward.contains(maker));
            let last = read.max_by_key(|maker| place[maker]);
            let first = makers(graph, unit)
                .filter_map(|maker| found.get(&maker).copied())
                .min_by_key(|anchor| place[anchor]);
            let both = [last, first].into_iter().flatten().min_by_key(|anchor| place[anchor]);
            if let Some(anchor) = both {
                found.insert(unit, anchor);
            }
        }
        found
    }
}

/// The loss: the output of this name, or the first one of a single number.
pub(in crate::sections) fn loss<'g>(graph: &'g Graph<'_>) -> Option<&'g str> {
    let is_number = |name: &&String| {
        graph
            .tensors
            .get(*name)
            .is_some_and(|tensor| tensor.element.is_float() && tensor.shape.iter().product::<u64>() == 1)
    };
    let named = graph.outputs.iter().find(|name| *name == "loss");
    named.or_else(|| graph.outputs.iter().find(is_number)).map(String::as_str)
}

fn makers<'g>(graph: &'g Graph<'_>, unit: usize) -> impl Iterator<Item = usize> + 'g {
    graph.units[unit].reads.iter().filter_map(|name| graph.maker.get(name)).copied()
}

/// Place of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: usize,
    phase: Phase,
    /// Number of the section among those of the phase: values of other devices that come later need a
    /// further one.
    level: usize,
}

/// Returns the sections of a step. `owned` has the forward nodes of each rank.
///
/// # Errors
/// A value would go from an earlier phase or device to a later one and back.
pub(super) fn portions(
    graph: &Graph<'_>,
    roles: &Roles,
    owned: &[Vec<usize>],
    parts: Option<&Parts>,
) -> Result<Vec<Portion>, SplitError> {
    let mut placing = Placing {
        graph,
        roles,
        is_divided: parts.is_some(),
        ranks: BTreeMap::new(),
        levels: BTreeMap::new(),
    };
    for (rank, units) in owned.iter().enumerate() {
        placing.ranks.extend(units.iter().map(|unit| (*unit, rank)));
    }
    placing.place_backward();
    placing.place_tail();
    placing.place_early();
    let mut groups: BTreeMap<Place, BTreeSet<usize>> = BTreeMap::new();
    for &unit in &roles.order {
        groups.entry(placing.place(unit)).or_default().insert(unit);
    }
    let portion = |(place, owned): (Place, BTreeSet<usize>)| {
        let mut units = owned.clone();
        for unit in &owned {
            units.extend(makers(graph, *unit).filter_map(|maker| roles.cones.get(&maker)).flatten());
        }
        let mut owned = owned;
        if place.phase == Phase::Prepare {
            // Parts make most of these values by themselves, each its share.
            let names: Vec<&String> = owned.iter().flat_map(|unit| &graph.units[*unit].makes).collect();
            units.extend(
                names
                    .iter()
                    .flat_map(|name| graph.ancestors(name))
                    .filter(|unit| !roles.early.contains(unit)),
            );
            let in_parts = |unit: &usize| parts.is_some_and(|parts| parts.nodes.contains(unit));
            owned.retain(|unit| !in_parts(unit));
        }
        let number = if place.level > 1 { place.level.to_string() } else { String::new() };
        let phase = match place.phase {
            Phase::Prepare => "prepare",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Gradient => "gradient",
            Phase::Update => "update",
        };
        let name = format!("{}.{phase}{number}", Devices::name(place.rank));
        Portion { name, rank: place.rank, more: Vec::new(), phase: Some(place.phase), units, owned }
    };
    Ok(groups.into_iter().map(portion).collect())
}

struct Placing<'p> {
    graph: &'p Graph<'p>,
    roles: &'p Roles,
    is_divided: bool,
    ranks: BTreeMap<usize, usize>,
    /// Levels of nodes behind the backward pass; 0 is the backward section itself.
    levels: BTreeMap<usize, usize>,
}

impl Placing<'_> {
    fn place(&self, unit: usize) -> Place {
        let rank = self.ranks.get(&unit).copied().unwrap_or(0);
        let level = self.levels.get(&unit).copied().unwrap_or(0);
        let phase = if self.roles.forward.contains(&unit) {
            Phase::Forward
        } else if self.roles.early.contains(&unit) {
            Phase::Prepare
        } else if level > 0 {
            Phase::Update
        } else {
            Phase::Backward
        };
        Place { rank, phase, level }
    }

    fn rank(&self, unit: usize) -> usize {
        self.ranks.get(&unit).copied().unwrap_or(0)
    }

    /// Largest rank that holds each forward node's values: of its maker and its forward readers.
    fn homes(&self) -> BTreeMap<usize, usize> {
        let mut homes: BTreeMap<usize, usize> = BTreeMap::new();
        for &unit in &self.roles.forward {
            let rank = self.rank(unit);
            for holder in
                makers(self.graph, unit).filter(|maker| self.roles.forward.contains(maker)).chain([unit])
            {
                let home = homes.entry(holder).or_default();
                *home = rank.max(*home);
            }
        }
        homes
    }

    /// Graph inputs that a node reads, by itself or through cones.
    fn fed(&self, unit: usize) -> BTreeSet<&str> {
        let cones = makers(self.graph, unit).filter_map(|maker| self.roles.cones.get(&maker)).flatten();
        let read = cones.chain([&unit]).flat_map(|unit| &self.graph.units[*unit].reads);
        read.filter(|name| !self.graph.maker.contains_key(*name)).map(String::as_str).collect()
    }

    /// Largest rank whose forward nodes read each graph input.
    fn input_homes(&self) -> BTreeMap<String, usize> {
        let mut homes: BTreeMap<String, usize> = BTreeMap::new();
        for &unit in &self.roles.forward {
            let rank = self.rank(unit);
            for name in self.fed(unit) {
                let home = homes.entry(name.to_owned()).or_default();
                *home = rank.max(*home);
            }
        }
        homes
    }

    fn place_backward(&mut self) {
        let (graph, roles) = (self.graph, self.roles);
        let (homes, input_homes) = (self.homes(), self.input_homes());
        let last = roles.forward.iter().map(|unit| self.rank(*unit)).max().unwrap_or(0);
        let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut from_forward: BTreeSet<usize> = BTreeSet::new();
        for &unit in roles.order.iter().filter(|unit| roles.is_backward(**unit)) {
            let own = makers(graph, unit)
                .filter(|maker| !roles.cones.contains_key(maker) && !roles.early.contains(maker));
            let mut rank: Option<usize> = None;
            let mut is_forward = true;
            for maker in own {
                readers.entry(maker).or_default().push(unit);
                let at = match homes.get(&maker) {
                    Some(home) => *home,
                    None => {
                        is_forward &= from_forward.contains(&maker);
                        self.rank(maker)
                    }
                };
                rank = Some(rank.map_or(at, |rank| rank.min(at)));
            }
            if is_forward {
                from_forward.insert(unit);
            }
            let fed = self.fed(unit).into_iter().filter_map(|name| input_homes.get(name)).min().copied();
            let rank = rank.into_iter().chain(fed).min();
            self.ranks.insert(unit, rank.unwrap_or(last));
        }
        // What follows from forward values alone goes to its readers.
        for &unit in roles.order.iter().rev().filter(|unit| from_forward.contains(unit)) {
            let ranks = readers.get(&unit).into_iter().flatten().map(|reader| self.rank(*reader));
            if let Some(rank) = ranks.max() {
                self.ranks.insert(unit, rank);
            }
        }
    }

    /// Smallest rank whose forward nodes read each weight, by themselves or through cones.
    fn holders(&self) -> BTreeMap<&str, usize> {
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for &unit in &self.roles.forward {
            let rank = self.rank(unit);
            let cones = makers(self.graph, unit).filter_map(|maker| self.roles.cones.get(&maker)).flatten();
            for weight in cones.chain([&unit]).flat_map(|unit| &self.graph.units[*unit].weights) {
                let holder = holders.entry(weight).or_insert(rank);
                *holder = rank.min(*holder);
            }
        }
        holders
    }

    /// The device of the parameter to which each node behind the backward pass leads, if there is one.
    fn preferred(&self, holders: &BTreeMap<String, usize>) -> BTreeMap<usize, usize> {
        let mut found: BTreeMap<usize, usize> = BTreeMap::new();
        let mut of_readers: BTreeMap<usize, BTreeSet<Option<usize>>> = BTreeMap::new();
        for &unit in self.roles.order.iter().rev().filter(|unit| self.roles.tail.contains(unit)) {
            let read = self.graph.units[unit].weights.iter().filter_map(|name| holders.get(name)).min();
            let readers = of_readers
                .get(&unit)
                .filter(|readers| readers.len() == 1)
                .and_then(|readers| *readers.first()?);
            let own = read.copied().or(readers);
            own.into_iter().for_each(|rank| _ = found.insert(unit, rank));
            for maker in makers(self.graph, unit) {
                of_readers.entry(maker).or_default().insert(own);
            }
        }
        found
    }

    fn place_tail(&mut self) {
        let (graph, roles) = (self.graph, self.roles);
        let bytes = |name: &String| graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
        let holders: BTreeMap<String, usize> =
            self.holders().into_iter().map(|(name, rank)| (name.to_owned(), rank)).collect();
        let preferred = self.preferred(&holders);
        for &unit in roles.order.iter().filter(|unit| roles.tail.contains(unit)) {
            let item = &graph.units[unit];
            let mut votes: BTreeMap<usize, u64> = BTreeMap::new();
            let own = item.reads.iter().filter_map(|name| Some((name, *graph.maker.get(name)?)));
            let own: Vec<(&String, usize)> = own
                .filter(|(_, maker)| !roles.cones.contains_key(maker) && !roles.early.contains(maker))
                .collect();
            for (name, maker) in &own {
                *votes.entry(self.rank(*maker)).or_default() += bytes(name);
            }
            // A node that reads no more than it makes goes to its parameter.
            let (read, made) = (votes.values().sum::<u64>(), item.makes.iter().map(bytes).sum::<u64>());
            let most = votes
                .iter()
                .max_by_key(|(rank, bytes)| (**bytes, std::cmp::Reverse(**rank)))
                .map(|(rank, _)| *rank);
            let to_parameter = preferred.get(&unit).copied().filter(|_| read <= made.saturating_mul(MORE));
            let rank = to_parameter.or(most).or(preferred.get(&unit).copied()).unwrap_or(0);
            let level = own.iter().map(|(_, maker)| self.level(*maker, rank));
            let level = level.fold(usize::from(self.is_divided), usize::max);
            self.ranks.insert(unit, rank);
            self.levels.insert(unit, level);
        }
    }

    /// Level that a reader on a rank has because of one operand. Backward sections run from the last rank to
    /// the first, so values of a later rank are there in time.
    fn level(&self, maker: usize, rank: usize) -> usize {
        if self.roles.forward.contains(&maker) {
            return 0;
        }
        let (from, level) = (self.rank(maker), self.levels.get(&maker).copied().unwrap_or(0));
        let is_in_time = from == rank || level == 0 && (self.is_divided || from > rank);
        if is_in_time { level } else { level + 1 }
    }

    /// What runs before all parts is on the last device that reads it.
    fn place_early(&mut self) {
        let (graph, roles) = (self.graph, self.roles);
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for &unit in roles.order.iter().rev() {
            if roles.early.contains(&unit) {
                let rank = last.get(&unit).copied().unwrap_or(0);
                self.ranks.insert(unit, rank);
            }
            let rank = self.rank(unit);
            let cones = makers(graph, unit).filter_map(|maker| roles.cones.get(&maker)).flatten();
            let read = cones.chain([&unit]).flat_map(|unit| makers(graph, *unit));
            for maker in read.filter(|maker| roles.early.contains(maker)) {
                let held = last.entry(maker).or_default();
                *held = rank.max(*held);
            }
        }
    }
}
