//! The merged problem: one group for all nodes that must share a section, in a topological order.

use std::collections::BTreeSet;

use super::problem::{Arrangement, Device, Problem};
use crate::basics::lists::Lists;
use crate::basics::topological::topological;

/// Groups of nodes without cycles between them.
#[derive(Debug)]
pub(super) struct Merged<'a> {
    pub problem: &'a Problem,
    /// Groups in a topological order that follows the given order of nodes.
    pub groups: Vec<Group>,
    /// Groups that must be in an equal or earlier section.
    pub predecessors: Lists,
    /// The reverse of `predecessors`.
    pub successors: Lists,
    /// Number of groups other than the maker's that read each value.
    pub reader_counts: Vec<u32>,
    /// Group of each node.
    group_of: Vec<u32>,
    /// Different devices.
    pub sorts: Vec<Device>,
    /// Index into `sorts` of each device.
    pub sort_of: Vec<usize>,
}

/// Nodes that must share a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Nodes in increasing order.
    pub nodes: Vec<u32>,
    /// Time on each kind of device; `None` if the kind cannot run one of the nodes.
    pub times: Vec<Option<u64>>,
    pub held_bytes: u64,
    pub copy_bytes: u64,
    pub working_bytes: u64,
    /// Values that other groups read, made here.
    pub makes: Vec<u32>,
    /// Values of other groups, read here.
    pub reads: Vec<u32>,
    /// Replicas read here.
    pub replicas: Vec<u32>,
}

impl<'a> Merged<'a> {
    /// Merges sets and cycles of a valid problem, and further sets. O((nodes + readers) log nodes).
    pub fn new(problem: &'a Problem, further: &[Vec<u32>]) -> Self {
        let count = problem.nodes.len();
        let is_forward = |node: u32| !problem.nodes[node as usize].is_backward;
        let mut arcs: Vec<(u32, u32)> = Vec::new();
        for value in problem.values.iter().filter(|value| is_forward(value.maker)) {
            arcs.extend(
                value
                    .readers
                    .iter()
                    .filter(|reader| is_forward(**reader))
                    .map(|reader| (value.maker, *reader)),
            );
        }
        // A set becomes a cycle, and cycles become groups.
        let mut closed = arcs.clone();
        for set in problem.together.iter().chain(further).filter(|set| !set.is_empty()) {
            closed.extend(set.windows(2).map(|pair| (pair[0], pair[1])));
            closed.push((set[set.len() - 1], set[0]));
        }
        let (component, components) = components(count, &closed);
        let between: Vec<(u32, u32)> = arcs
            .iter()
            .map(|(from, to)| (component[*from as usize], component[*to as usize]))
            .filter(|(from, to)| from != to)
            .collect();
        let mut first = vec![u32::MAX; components];
        component.iter().enumerate().rev().for_each(|(node, group)| first[*group as usize] = node as u32);
        let before = Lists::group(components, between.iter().map(|(from, to)| (*to, *from)).collect());
        // Components have no cycles, so the order is complete.
        let order = topological(components, |group| before.of(group), |group| first[group as usize])
            .unwrap_or_default();
        let mut position = vec![0_u32; components];
        order.iter().zip(0_u32..).for_each(|(group, place)| position[*group as usize] = place);
        let group_of: Vec<u32> = component.iter().map(|group| position[*group as usize]).collect();
        let arcs: Vec<(u32, u32)> =
            between.iter().map(|(from, to)| (position[*from as usize], position[*to as usize])).collect();
        let mut merged = Self {
            problem,
            groups: vec![Group::default(); components],
            predecessors: Lists::group(components, arcs.iter().map(|(from, to)| (*to, *from)).collect()),
            successors: Lists::group(components, arcs),
            reader_counts: Vec::new(),
            group_of: Vec::new(),
            sorts: Vec::new(),
            sort_of: Vec::new(),
        };
        merged.sum_nodes(&group_of);
        merged.list_values(&group_of);
        merged.sort_devices();
        merged.group_of = group_of;
        merged
    }

    fn sum_nodes(&mut self, group_of: &[u32]) {
        let kinds = self.problem.devices.iter().map(|device| device.kind as usize + 1).max().unwrap_or(0);
        self.groups.iter_mut().for_each(|group| group.times = vec![Some(0); kinds]);
        for (index, node) in self.problem.nodes.iter().enumerate() {
            let group = &mut self.groups[group_of[index] as usize];
            group.nodes.push(index as u32);
            for (sum, time) in group.times.iter_mut().zip(&node.times) {
                *sum = sum.zip(*time).map(|(sum, time)| sum + time);
            }
            group.held_bytes += node.held_bytes;
            group.copy_bytes += node.copy_bytes;
            group.working_bytes = group.working_bytes.max(node.working_bytes);
        }
    }

    fn list_values(&mut self, group_of: &[u32]) {
        for (index, value) in self.problem.values.iter().enumerate() {
            let maker = group_of[value.maker as usize];
            let mut readers: Vec<u32> =
                value.readers.iter().map(|reader| group_of[*reader as usize]).collect();
            readers.sort_unstable();
            readers.dedup();
            readers.retain(|reader| *reader != maker);
            self.reader_counts.push(readers.len() as u32);
            if !readers.is_empty() {
                self.groups[maker as usize].makes.push(index as u32);
            }
            readers.iter().for_each(|reader| self.groups[*reader as usize].reads.push(index as u32));
        }
        for (index, replica) in self.problem.replicas.iter().enumerate() {
            let mut readers: Vec<u32> =
                replica.readers.iter().map(|reader| group_of[*reader as usize]).collect();
            readers.sort_unstable();
            readers.dedup();
            readers.iter().for_each(|reader| self.groups[*reader as usize].replicas.push(index as u32));
        }
    }

    fn sort_devices(&mut self) {
        for device in &self.problem.devices {
            let known = self.sorts.iter().position(|sort| sort == device);
            self.sort_of.push(known.unwrap_or(self.sorts.len()));
            if known.is_none() {
                self.sorts.push(device.clone());
            }
        }
    }

    /// Groups that make or read a value.
    pub fn ends(&self, value: u32) -> BTreeSet<u32> {
        let value = &self.problem.values[value as usize];
        value.readers.iter().chain([&value.maker]).map(|node| self.group_of[*node as usize]).collect()
    }

    /// Whether sections follow the list of devices.
    pub fn is_given(&self) -> bool {
        self.problem.arrangement == Arrangement::Given
    }
}

/// Returns the strongly connected component of each node and the number of components. O(nodes + arcs).
/// (Tarjan, *Depth-first search and linear graph algorithms*, 1972.)
fn components(count: usize, arcs: &[(u32, u32)]) -> (Vec<u32>, usize) {
    const UNSEEN: u32 = u32::MAX;
    let successors = Lists::with_duplicates(count, arcs);
    let (mut seen, mut low) = (vec![UNSEEN; count], vec![UNSEEN; count]);
    let mut component = vec![UNSEEN; count];
    let (mut clock, mut components) = (0_u32, 0_u32);
    let mut open: Vec<u32> = Vec::new();
    for root in 0..count as u32 {
        if seen[root as usize] != UNSEEN {
            continue;
        }
        // Node and the position of its next successor.
        let mut path: Vec<(u32, usize)> = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let at = *node as usize;
            if *next == 0 && seen[at] == UNSEEN {
                (seen[at], low[at]) = (clock, clock);
                clock += 1;
                open.push(*node);
            }
            if let Some(&successor) = successors.of(*node).get(*next) {
                *next += 1;
                let to = successor as usize;
                if seen[to] == UNSEEN {
                    path.push((successor, 0));
                } else if component[to] == UNSEEN {
                    low[at] = low[at].min(seen[to]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent as usize] = low[*parent as usize].min(low[at]);
            }
            if low[at] == seen[at] {
                while let Some(member) = open.pop() {
                    component[member as usize] = components;
                    if member as usize == at {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    (component, components as usize)
}
