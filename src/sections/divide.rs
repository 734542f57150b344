//! The division: a partition problem over the nodes of the file, and what planned sections teach it.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{DeviceMemory, Manifest};
use memc_solve::partition::{self, Arrangement, Device, Link, Node, Objective, Problem, Replica, Value};
use memc_solve::{Limit, Outcome};

use super::exact;
use super::graph::Graph;
use super::options::Devices;
use crate::request::Request;
use crate::split_error::SplitError;

/// Most nodes of a cone that depends on graph inputs and is run in each section that reads it.
const MAX_CONE: usize = 64;

/// Bytes of weights that a repeated cone may read, if its results are smaller.
const FEW_WEIGHTS: u64 = 4 << 10;

/// Bytes that a section may have beyond the smallest largest one, in percent, to be faster.
const SLACK: u64 = 1;

/// Bytes of a budget that the next round leaves free if a section could not be planned, in percent.
const MORE_ROOM: u64 = 3;

/// Nodes that each section with a reader runs by itself, with all nodes that they need.
pub(super) type Cones = BTreeMap<usize, BTreeSet<usize>>;

/// What a division divides.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// Nodes that each section with a reader runs by itself, with all nodes that they need.
    pub cones: Cones,
    /// Nodes to divide; all that the outputs need if absent.
    pub units: Option<BTreeSet<usize>>,
    /// Times of nodes that follow a node to its device, in nanoseconds.
    pub nanos: BTreeMap<usize, u64>,
    /// Weights that these nodes read.
    pub weights: BTreeMap<usize, BTreeSet<String>>,
    /// Bytes that the device of a node holds beside its arena.
    pub held: Vec<(usize, u64)>,
}

/// The division of one graph.
#[derive(Debug)]
pub(super) struct Division<'g> {
    graph: &'g Graph<'g>,
    devices: &'g Devices,
    limit: Limit,
    problem: Problem,
    /// Node of the file of each node of the problem.
    units: Vec<usize>,
    /// Nodes that each section with a reader runs by itself, with all nodes that they need.
    cones: Cones,
    /// Bytes of each budget that sections must leave free.
    reserve: Vec<u64>,
    /// Time of the slowest section by the last solution.
    expected: u64,
    /// Number of pieces that can be apart.
    pieces: usize,
}

impl<'g> Division<'g> {
    /// Poses the problem. O(nodes · 64 + readers).
    ///
    /// # Errors
    /// The problem is out of range.
    pub fn new(
        graph: &'g Graph<'g>,
        devices: &'g Devices,
        request: &Request,
        work: Work,
    ) -> Result<Self, SplitError> {
        let cones = work.cones;
        let is_divided = |unit: &usize| match &work.units {
            Some(units) => units.contains(unit),
            None => graph.needed.contains(unit) && !cones.contains_key(unit),
        };
        let units: Vec<usize> = graph.order.iter().copied().filter(is_divided).collect();
        let place: BTreeMap<usize, u32> = units.iter().zip(0..).map(|(unit, node)| (*unit, node)).collect();
        let mut problem = Problem { arrangement: Arrangement::Given, ..Problem::default() };
        for slowest in devices.slowest_paths() {
            let link = slowest.map(|path| Link {
                latency: path.latency.0.ceil() as u64,
                amount: (path.bytes_per_second / 1e3).max(1.0) as u64,
                time: 1_000_000,
            });
            problem.devices.push(Device { kind: 0, capacity: None, link });
        }
        for &unit in &units {
            let item = &graph.units[unit];
            let nanos = item.nanos.saturating_add(work.nanos.get(&unit).copied().unwrap_or(0));
            problem.nodes.push(Node {
                times: vec![Some(nanos)],
                working_bytes: item.live_bytes,
                ..Node::default()
            });
        }
        let mut readers: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut weights: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut repeated: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        let none = BTreeSet::new();
        for (&unit, &node) in &place {
            weights.extend_with(&graph.units[unit].weights, node);
            weights.extend_with(work.weights.get(&unit).unwrap_or(&none), node);
            for name in &graph.units[unit].reads {
                let Some(maker) = graph.maker.get(name) else { continue };
                match cones.get(maker) {
                    Some(cone) => {
                        cone.iter().for_each(|member| repeated.entry(*member).or_default().extend([node]))
                    }
                    None => readers.entry(name).or_default().push(node),
                }
            }
        }
        for (&unit, nodes) in &repeated {
            nodes.iter().for_each(|node| weights.extend_with(&graph.units[unit].weights, *node));
            let bytes = graph.units[unit]
                .makes
                .iter()
                .filter_map(|name| graph.tensors.get(name))
                .map(|tensor| tensor.bytes)
                .sum();
            let times = vec![graph.units[unit].nanos];
            problem.replicas.push(Replica { bytes, times, readers: nodes.iter().copied().collect() });
        }
        for (name, nodes) in weights {
            let bytes = graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
            problem.replicas.push(Replica { bytes, times: Vec::new(), readers: nodes.into_iter().collect() });
        }
        for (unit, bytes) in work.held {
            if let Some(node) = place.get(&unit).filter(|_| bytes > 0) {
                problem.replicas.push(Replica { bytes, times: vec![0], readers: vec![*node] });
            }
        }
        for (name, nodes) in readers {
            let Some(&maker) = graph.maker.get(name).and_then(|maker| place.get(maker)) else { continue };
            if !graph.crosses(name) {
                problem.together.push([maker].into_iter().chain(nodes.iter().copied()).collect());
            }
            let fused =
                nodes.iter().filter(|node| graph.fuses(units[maker as usize], units[**node as usize]));
            problem.together.extend(fused.map(|node| vec![maker, *node]));
            let amount = graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
            problem.values.push(Value { maker, readers: nodes, amount });
        }
        for units in super::kept::together(graph) {
            let nodes: Vec<u32> = units.iter().filter_map(|unit| place.get(unit)).copied().collect();
            problem.together.extend((nodes.len() > 1).then_some(nodes));
        }
        let pieces = partition::pieces(&problem).map_err(unsolved)?.len();
        let reserve = vec![0; devices.count];
        Ok(Self {
            graph,
            devices,
            limit: Limit::nodes(request.effort),
            problem,
            units,
            cones,
            reserve,
            expected: 0,
            pieces,
        })
    }

    /// Rejects more devices than pieces that can be apart.
    ///
    /// # Errors
    /// There are fewer pieces than devices.
    pub fn has_pieces(self) -> Result<Self, SplitError> {
        let (devices, pieces) = (self.devices.count, self.pieces);
        if pieces < devices { Err(SplitError::TooManyDevices { devices, pieces }) } else { Ok(self) }
    }

    /// Returns the nodes of the file that each rank owns, in order: the fastest division within the budgets
    /// if it `is_limited`, else the fastest one whose largest section is nearly as small as possible.
    ///
    /// # Errors
    /// No division keeps the budgets.
    pub fn solve(&mut self, is_limited: bool) -> Result<Vec<Vec<usize>>, SplitError> {
        if is_limited {
            self.set_capacities(|division, rank| {
                division.devices.budget(rank).map(|budget| budget.saturating_sub(division.reserve[rank]))
            });
        } else {
            let smallest = self.solve_smallest()?.value.unwrap_or(u64::MAX / 200);
            let most = smallest.saturating_mul(100 + SLACK) / 100;
            self.set_capacities(|_, _| Some(most));
        }
        self.problem.objective = Objective::Time;
        let outcome = partition::solve(&self.problem, &self.limit).map_err(unsolved)?;
        self.expected = outcome.value.unwrap_or(0);
        outcome.solution.map(|solution| self.owned(&solution)).ok_or_else(|| self.refused())
    }

    /// Time of the slowest section that the last solution expects, in nanoseconds.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Estimated time of the slowest section within the budgets, in nanoseconds; none if no division keeps
    /// them.
    pub fn slowest(&mut self) -> Option<u64> {
        self.set_capacities(|division, rank| division.devices.budget(rank));
        self.problem.objective = Objective::Time;
        partition::solve(&self.problem, &self.limit).ok()?.solution.map(|solution| solution.value)
    }

    /// Returns the nodes of the file that each rank owns if the largest section is as small as possible,
    /// whatever the budgets.
    ///
    /// # Errors
    /// The problem is out of range.
    pub fn smallest(&mut self) -> Result<Vec<Vec<usize>>, SplitError> {
        let outcome = self.solve_smallest()?;
        outcome.solution.map(|solution| self.owned(&solution)).ok_or_else(|| self.refused())
    }

    fn owned(&self, solution: &partition::Solution) -> Vec<Vec<usize>> {
        let mut owned = vec![Vec::new(); self.devices.count];
        for section in &solution.sections {
            owned[section.device as usize] =
                section.nodes.iter().map(|node| self.units[*node as usize]).collect();
        }
        // Neighbors have links: no device in between stays without a section, if all have one budget.
        if self.devices.budgets.len() < 2 {
            owned.sort_by_key(Vec::is_empty);
        }
        owned
    }

    /// Rejects budgets below what weights alone need.
    ///
    /// # Errors
    /// A piece has more weights than every device has bytes, or all weights exceed all budgets.
    pub fn keeps_weights(&mut self) -> Result<(), SplitError> {
        if !self.devices.has_budgets() {
            return Ok(());
        }
        let budgets: Vec<u64> =
            (0..self.devices.count).filter_map(|rank| self.devices.budget(rank)).collect();
        let all: u64 = self
            .problem
            .replicas
            .iter()
            .filter(|replica| replica.times.is_empty())
            .map(|replica| replica.bytes)
            .sum();
        let mut weights = self.problem.clone();
        weights.nodes.iter_mut().for_each(|node| node.working_bytes = 0);
        let largest = budgets.iter().copied().max().unwrap_or(0);
        let pieces = partition::pieces(&weights).map_err(unsolved)?;
        let is_lacking = all > budgets.iter().sum() || pieces.iter().any(|piece| piece.bytes > largest);
        if is_lacking { Err(self.refused()) } else { Ok(()) }
    }

    fn set_capacities(&mut self, capacity: impl Fn(&Self, usize) -> Option<u64>) {
        for rank in 0..self.devices.count {
            self.problem.devices[rank].capacity = capacity(self, rank);
        }
    }

    /// Makes the largest section as small as possible, without capacities.
    fn solve_smallest(&mut self) -> Result<Outcome<partition::Solution>, SplitError> {
        self.set_capacities(|_, _| None);
        self.problem.objective = Objective::Bytes;
        partition::solve(&self.problem, &self.limit).map_err(unsolved)
    }

    /// Says why no division keeps the budgets: a piece is too large for each device, or all are together.
    pub fn refused(&mut self) -> SplitError {
        let largest = (0..self.devices.count).filter_map(|rank| self.devices.budget(rank)).max().unwrap_or(0);
        let pieces = partition::pieces(&self.problem).unwrap_or_default();
        if let Some(piece) =
            pieces.into_iter().filter(|piece| piece.bytes > largest).max_by_key(|piece| piece.bytes)
        {
            let title = |node: &u32| self.graph.title(self.units[*node as usize]);
            let heaviest =
                piece.nodes.iter().max_by_key(|node| self.heaviness(**node)).map(title).unwrap_or_default();
            let more = piece.nodes.len() - 1;
            let piece_title =
                if more == 0 { heaviest } else { format!("{heaviest} with {more} nodes that stay with it") };
            return SplitError::Piece {
                piece: piece_title,
                needs: exact(piece.bytes),
                budget: exact(largest),
            };
        }
        let needs = self.solve_smallest().ok().and_then(|outcome| outcome.value);
        SplitError::Budget { devices: self.devices.count, needs: needs.map_or_else(String::new, exact) }
    }

    fn heaviness(&self, node: u32) -> u64 {
        let unit = &self.graph.units[self.units[node as usize]];
        let weights =
            unit.weights.iter().filter_map(|name| self.graph.tensors.get(name)).map(|tensor| tensor.bytes);
        weights.sum::<u64>().saturating_add(unit.live_bytes)
    }

    /// Adds the nodes that each section runs by itself.
    pub fn whole(&self, owned: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
        let makers =
            |unit: &usize| self.graph.units[*unit].reads.iter().filter_map(|name| self.graph.maker.get(name));
        let with_cones = |units: &Vec<usize>| {
            let cones = units.iter().flat_map(makers).filter_map(|maker| self.cones.get(maker)).flatten();
            units.iter().chain(cones).copied().collect()
        };
        owned.iter().map(with_cones).collect()
    }

    /// Bytes of the weights that a section reads.
    pub fn weights(&self, cut: &super::cut::Cut) -> u64 {
        let read: BTreeSet<&String> =
            cut.portion.units.iter().flat_map(|unit| &self.graph.units[*unit].weights).collect();
        read.into_iter().filter_map(|name| self.graph.tensors.get(name)).map(|tensor| tensor.bytes).sum()
    }

    /// Replaces estimated arenas by planned ones, `planned` of each device, and leaves room for what exceeded
    /// a budget.
    pub fn learn(
        &mut self,
        owned: &[Vec<usize>],
        manifest: &Manifest,
        planned: impl Fn(&DeviceMemory) -> u64,
    ) {
        let place: BTreeMap<usize, usize> =
            self.units.iter().enumerate().map(|(node, unit)| (*unit, node)).collect();
        for (rank, units) in owned.iter().enumerate() {
            let Some(device) = manifest.devices.get(rank) else { continue };
            let estimated =
                units.iter().map(|unit| self.graph.units[*unit].live_bytes).max().unwrap_or(0).max(1);
            let planned = u128::from(planned(device));
            for unit in units {
                let live = u128::from(self.graph.units[*unit].live_bytes);
                let bytes = u64::try_from(live * planned / u128::from(estimated)).unwrap_or(u64::MAX);
                self.problem.nodes[place[unit]].working_bytes = bytes.min(u64::from(u32::MAX) << 16);
            }
            if let Some(over) = device.budget.and_then(|budget| device.peak.checked_sub(budget)) {
                self.reserve[rank] = self.reserve[rank].saturating_add(over);
            }
        }
    }

    /// Leaves more room in each budget.
    pub fn shrink(&mut self) {
        for rank in 0..self.devices.count {
            let more = self.devices.budget(rank).unwrap_or(0) / 100 * MORE_ROOM;
            self.reserve[rank] = self.reserve[rank].saturating_add(more);
        }
    }
}

/// Adds one reader to several weights.
trait ExtendWith<'n> {
    fn extend_with(&mut self, names: &'n BTreeSet<String>, node: u32);
}

impl<'n> ExtendWith<'n> for BTreeMap<&'n str, BTreeSet<u32>> {
    fn extend_with(&mut self, names: &'n BTreeSet<String>, node: u32) {
        names.iter().for_each(|name| self.entry(name).or_default().extend([node]));
    }
}

fn unsolved(error: partition::ProblemError) -> SplitError {
    SplitError::Solver { cause: error.to_string() }
}

/// Returns, for each node that every section with a reader runs by itself, the nodes that it needs and
/// itself: nodes of weights alone, and small cones over graph inputs that are faster to run than their
/// results are to send and read few weights. Nodes that only such nodes read belong to them. `may` excludes
/// nodes.
pub(super) fn cones(graph: &Graph<'_>, devices: &Devices, may: &dyn Fn(usize) -> bool) -> Cones {
    cones_at(graph, devices, fastest(devices), may)
}

/// Rate of the fastest link, in bytes per second.
fn fastest(devices: &Devices) -> f64 {
    devices.paths().iter().map(|path| path.bytes_per_second).fold(1.0, f64::max)
}

/// Returns what several rates of links give for [`cones`], each once: powers of ten, from the first one that
/// is no less than the fastest link down to 1 MB/s. What is faster to run than to send need not be better to
/// run: the section that reads it may be the slowest one. A faster link has all choices of a slower one.
pub(super) fn all_cones(graph: &Graph<'_>, devices: &Devices, may: &dyn Fn(usize) -> bool) -> Vec<Cones> {
    let mut all: Vec<Cones> = Vec::new();
    let mut rate = 1e6;
    loop {
        let found = cones_at(graph, devices, rate, may);
        if all.last() != Some(&found) {
            all.push(found);
        }
        if rate >= fastest(devices) {
            break;
        }
        rate *= 10.0;
    }
    all.reverse();
    all
}

fn cones_at(graph: &Graph<'_>, devices: &Devices, fastest: f64, may: &dyn Fn(usize) -> bool) -> Cones {
    let outputs: BTreeSet<&String> = graph.outputs.iter().collect();
    let latency = devices.paths().iter().map(|path| path.latency.0).fold(f64::INFINITY, f64::min);
    let mut possible: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut reads_inputs: BTreeSet<usize> = BTreeSet::new();
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &unit in graph.order.iter().filter(|unit| graph.needed.contains(unit)) {
        let item = &graph.units[unit];
        let makers: Vec<usize> =
            item.reads.iter().filter_map(|name| graph.maker.get(name)).copied().collect();
        makers.iter().for_each(|maker| readers.entry(*maker).or_default().push(unit));
        let gives = item.makes.iter().any(|name| outputs.contains(name));
        let crosses = item.makes.iter().all(|name| graph.crosses(name));
        if !item.repeats
            || gives
            || !crosses
            || !may(unit)
            || !makers.iter().all(|maker| possible.contains_key(maker))
        {
            continue;
        }
        let cone: BTreeSet<usize> =
            makers.iter().flat_map(|maker| possible[maker].clone()).chain([unit]).collect();
        let from_inputs = item.reads.iter().any(|name| !graph.maker.contains_key(name))
            || makers.iter().any(|maker| reads_inputs.contains(maker));
        if from_inputs && cone.len() > MAX_CONE {
            continue;
        }
        if from_inputs {
            reads_inputs.insert(unit);
        }
        if !from_inputs || is_cheap(graph, unit, &cone, |bytes| latency + bytes as f64 / fastest * 1e9) {
            chosen.insert(unit);
        }
        possible.insert(unit, cone);
    }
    for &unit in graph.order.iter().rev().filter(|unit| possible.contains_key(unit)) {
        if readers.get(&unit).is_some_and(|readers| readers.iter().all(|reader| chosen.contains(reader))) {
            chosen.insert(unit);
        }
    }
    possible.retain(|unit, _| chosen.contains(unit));
    possible
}

/// Whether a cone takes less time than sending the results of its last node, and reads few weights.
fn is_cheap(graph: &Graph<'_>, unit: usize, cone: &BTreeSet<usize>, sending: impl Fn(u64) -> f64) -> bool {
    let bytes = |name: &String| graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
    let made: u64 = graph.units[unit].makes.iter().map(bytes).sum();
    let nanos: u64 = cone.iter().map(|member| graph.units[*member].nanos).sum();
    let weights: BTreeSet<&String> = cone.iter().flat_map(|member| &graph.units[*member].weights).collect();
    let weights: u64 = weights.into_iter().map(bytes).sum();
    nanos as f64 <= sending(made) && weights <= made.max(FEW_WEIGHTS)
}
