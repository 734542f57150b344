//! Maximum flow through a network with one source and one sink (Dinic, *Algorithm for solution of a
//! problem of maximum flow*, 1970).

use std::rc::Rc;

/// Capacity of an arc without limit: larger than any sum of sizes, and small enough that the sum of two
/// does not overflow.
const UNLIMITED: u64 = 1 << 62;

/// Node number of the source. The sink follows, then the nodes of the network.
const SOURCE: u32 = 0;
const SINK: u32 = 1;
const FIRST: u32 = 2;

/// Arcs and reverse arcs reserved for each node.
const ARCS_PER_NODE: usize = 10;

/// A network under construction. Nodes have numbers from 0; source and sink have none.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    nodes: u32,
    /// Heads of all arcs. Each arc is followed by its reverse.
    heads: Vec<u32>,
    tails: Vec<u32>,
    capacities: Vec<u64>,
    /// Flow that was sent before the network grew.
    value: u64,
}

impl Network {
    /// Creates a network of `nodes` nodes without arcs.
    pub fn new(nodes: usize) -> Self {
        let arcs = || Vec::with_capacity(ARCS_PER_NODE * nodes);
        let capacities = Vec::with_capacity(ARCS_PER_NODE * nodes);
        Self { nodes: nodes as u32, heads: arcs(), tails: arcs(), capacities, value: 0 }
    }

    /// Adds a node and returns its number.
    pub fn node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    /// Adds an arc between two nodes.
    pub fn arc(&mut self, from: u32, to: u32, capacity: u64) {
        self.add(from + FIRST, to + FIRST, capacity);
    }

    /// Puts `other` on the source's side if `node` is there.
    pub fn follow(&mut self, node: u32, other: u32) {
        self.add(node + FIRST, other + FIRST, UNLIMITED);
    }

    /// Adds an arc from the source; returns its number.
    pub fn source_arc(&mut self, to: u32, capacity: u64) -> u32 {
        self.add(SOURCE, to + FIRST, capacity)
    }

    /// Adds an arc to the sink; returns its number.
    pub fn sink_arc(&mut self, from: u32, capacity: u64) -> u32 {
        self.add(from + FIRST, SINK, capacity)
    }

    fn add(&mut self, from: u32, to: u32, capacity: u64) -> u32 {
        self.tails.extend([from, to]);
        self.heads.extend([to, from]);
        self.capacities.extend([capacity, 0]);
        self.tails.len() as u32 - 2
    }

    /// Finishes the network, ready for flows. A network from [`Flow::grow`] keeps its flow. O(nodes +
    /// arcs).
    pub fn build(self) -> Flow {
        let count = (self.nodes + FIRST) as usize;
        let mut starts = vec![0_u32; count + 1];
        for tail in &self.tails {
            starts[*tail as usize + 1] += 1;
        }
        for node in 0..count {
            starts[node + 1] += starts[node];
        }
        let mut fill = starts.clone();
        let mut arcs = vec![0_u32; self.tails.len()];
        for (arc, tail) in self.tails.iter().enumerate() {
            arcs[fill[*tail as usize] as usize] = arc as u32;
            fill[*tail as usize] += 1;
        }
        let shape = Shape { heads: self.heads, tails: self.tails, starts, arcs };
        let mut role = vec![Role::Inner; count];
        (role[SOURCE as usize], role[SINK as usize]) = (Role::Source, Role::Sink);
        let (sources, sinks) = (vec![SOURCE], vec![SINK]);
        Flow { shape: Rc::new(shape), capacities: self.capacities, role, sources, sinks, value: self.value }
    }
}

/// Role of a node in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Source,
    Sink,
    Inner,
}

/// Distances of the nodes to a sink.
enum Levels {
    /// Distance of each node; at least one source reaches a sink.
    Open(Vec<u32>),
    /// No source reaches a sink: the flow is maximal.
    Closed,
    /// The looks ran out.
    Unknown,
}

/// Arcs of a network, shared by all its flows.
#[derive(Debug)]
struct Shape {
    heads: Vec<u32>,
    tails: Vec<u32>,
    starts: Vec<u32>,
    /// Arcs sorted by tail; `starts` holds the first arc of each node.
    arcs: Vec<u32>,
}

/// A flow through a network.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    shape: Rc<Shape>,
    /// Remaining capacity of each arc.
    capacities: Vec<u64>,
    role: Vec<Role>,
    sources: Vec<u32>,
    sinks: Vec<u32>,
    value: u64,
}

impl Flow {
    /// Adds flow until it is maximal, so that it equals the least cut, or until it is above `enough`.
    /// Returns `None` if `looks` at arcs run out.
    ///
    /// Arcs from the source and to the sink are finite. O(nodes² · arcs), in practice close to linear.
    pub fn maximize(&mut self, enough: u64, looks: &mut u64) -> Option<u64> {
        while self.value <= enough {
            let levels = match self.levels(looks) {
                Levels::Open(levels) => levels,
                Levels::Closed => break,
                Levels::Unknown => return None,
            };
            let mut next = self.shape.starts.clone();
            for source in 0..self.sources.len() {
                self.block(self.sources[source], &levels, &mut next, enough, looks)?;
            }
        }
        (*looks > 0).then_some(self.value)
    }

    /// Returns the network with its remaining capacities, so that nodes and arcs can be added and
    /// the flow continued. Demands are dropped. O(1) if no other flow has this network.
    pub fn grow(self) -> Network {
        let shape = Rc::try_unwrap(self.shape);
        let (heads, tails) = shape
            .map_or_else(|shared| (shared.heads.clone(), shared.tails.clone()), |own| (own.heads, own.tails));
        Network {
            nodes: self.role.len() as u32 - FIRST,
            heads,
            tails,
            capacities: self.capacities,
            value: self.value,
        }
    }

    /// Returns the sum of all finite capacities.
    pub fn capacity(&self) -> u64 {
        self.capacities.iter().filter(|capacity| **capacity < UNLIMITED).sum()
    }

    /// Returns the number of arcs, reverse arcs included.
    pub fn arcs(&self) -> u64 {
        self.shape.arcs.len() as u64
    }

    /// Demands that a node is on the source's side.
    pub fn demand_source(&mut self, node: u32) {
        self.role[(node + FIRST) as usize] = Role::Source;
        self.sources.push(node + FIRST);
    }

    /// Demands that a node is on the sink's side.
    pub fn demand_sink(&mut self, node: u32) {
        self.role[(node + FIRST) as usize] = Role::Sink;
        self.sinks.push(node + FIRST);
    }

    /// Returns the nodes on the source's side of the least cut that has the fewest nodes there. Needs a
    /// maximal flow.
    pub fn source_side(&self) -> Vec<bool> {
        self.reach(&self.sources, |arc| arc)
    }

    /// Returns the nodes on the sink's side of the least cut that has the fewest nodes there. Needs a
    /// maximal flow.
    pub fn sink_side(&self) -> Vec<bool> {
        // The search walks against the flow, so the reverse of an arc must have capacity left.
        self.reach(&self.sinks, |arc| arc ^ 1)
    }

    /// Returns the nodes reachable through arcs for which `room` names an arc with remaining capacity.
    fn reach(&self, from: &[u32], room: impl Fn(usize) -> usize) -> Vec<bool> {
        let mut seen = vec![false; self.role.len()];
        let mut stack = Vec::with_capacity(self.role.len());
        stack.extend_from_slice(from);
        from.iter().for_each(|node| seen[*node as usize] = true);
        while let Some(node) = stack.pop() {
            for &arc in self.arcs_of(node) {
                let head = self.shape.heads[arc as usize];
                if self.capacities[room(arc as usize)] > 0
                    && !std::mem::replace(&mut seen[head as usize], true)
                {
                    stack.push(head);
                }
            }
        }
        seen.drain(..FIRST as usize);
        seen
    }

    fn arcs_of(&self, node: u32) -> &[u32] {
        &self.shape.arcs
            [self.shape.starts[node as usize] as usize..self.shape.starts[node as usize + 1] as usize]
    }

    /// Computes each node's distance to a sink through arcs with remaining capacity, up to the distance
    /// of the nearest source. It starts at the sinks because open arcs are near the source, so fewer
    /// paths are dead ends.
    fn levels(&self, looks: &mut u64) -> Levels {
        let mut levels = vec![u32::MAX; self.role.len()];
        let mut queue = Vec::with_capacity(self.role.len());
        queue.extend_from_slice(&self.sinks);
        queue.iter().for_each(|node| levels[*node as usize] = 0);
        let (mut place, mut last) = (0, u32::MAX);
        while let Some(&node) = queue.get(place)
            && levels[node as usize] < last
        {
            place += 1;
            let own = self.arcs_of(node);
            let Some(left) = looks.checked_sub(own.len() as u64) else { return Levels::Unknown };
            *looks = left;
            for &arc in own {
                let head = self.shape.heads[arc as usize] as usize;
                if self.capacities[arc as usize ^ 1] > 0 && levels[head] == u32::MAX {
                    levels[head] = levels[node as usize] + 1;
                    if self.role[head] == Role::Source {
                        last = levels[head];
                    } else {
                        queue.push(head as u32);
                    }
                }
            }
        }
        if last < u32::MAX { Levels::Open(levels) } else { Levels::Closed }
    }

    /// Adds a blocking flow from a source along falling levels, or stops above `enough`. `next` holds,
    /// for each node, the first arc that may still have capacity.
    fn block(
        &mut self,
        source: u32,
        levels: &[u32],
        next: &mut [u32],
        enough: u64,
        looks: &mut u64,
    ) -> Option<()> {
        if levels[source as usize] == u32::MAX {
            return Some(());
        }
        let mut path: Vec<u32> = Vec::new();
        while self.value <= enough {
            let node = path.last().map_or(source, |arc| self.shape.heads[*arc as usize]);
            if self.role[node as usize] == Role::Sink {
                self.push(&mut path);
                continue;
            }
            let last = self.shape.starts[node as usize + 1];
            let mut found = None;
            while next[node as usize] < last {
                let arc = self.shape.arcs[next[node as usize] as usize];
                *looks = looks.checked_sub(1)?;
                let head = self.shape.heads[arc as usize] as usize;
                if self.capacities[arc as usize] > 0
                    && levels[head].checked_add(1) == Some(levels[node as usize])
                {
                    found = Some(arc);
                    break;
                }
                next[node as usize] += 1;
            }
            match found {
                Some(arc) => path.push(arc),
                None => {
                    let Some(arc) = path.pop() else { return Some(()) };
                    // No path continues from the head of this arc.
                    next[self.shape.tails[arc as usize] as usize] += 1;
                }
            }
        }
        Some(())
    }

    /// Sends as much flow as a path allows, and cuts the path before its first full arc.
    fn push(&mut self, path: &mut Vec<u32>) {
        let room = path.iter().map(|arc| self.capacities[*arc as usize]).min().unwrap_or(0);
        self.value += room;
        let mut keep = path.len();
        for (place, arc) in path.iter().enumerate().rev() {
            self.capacities[*arc as usize] -= room;
            self.capacities[*arc as usize ^ 1] += room;
            if self.capacities[*arc as usize] == 0 {
                keep = place;
            }
        }
        path.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo::maximum_flow::dinics;
    use petgraph::graph::DiGraph;

    use super::*;
    use crate::basics::random::Random;

    /// Adds arcs. Tail 0 stands for the source, head 9 for the sink.
    fn add(network: &mut Network, arcs: &[(u32, u32, u64)]) {
        for &(from, to, capacity) in arcs {
            match (from, to) {
                (0, to) => _ = network.source_arc(to, capacity),
                (from, 9) => _ = network.sink_arc(from, capacity),
                (from, to) => network.arc(from, to, capacity),
            }
        }
    }

    #[test]
    fn a_network_that_grew_has_the_cuts_of_one_built_at_once() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let mut arc = |_| (random.below(9), random.below(9) + 1, u64::from(random.below(20)));
            let arcs: Vec<(u32, u32, u64)> = (0..24).map(&mut arc).collect();
            let mut whole = Network::new(10);
            add(&mut whole, &arcs);
            let mut whole = whole.build();
            let mut grown = Network::new(10);
            for part in arcs.chunks(8) {
                add(&mut grown, part);
                let mut flow = grown.build();
                flow.maximize(u64::MAX, &mut { u64::MAX });
                grown = flow.grow();
            }
            let mut grown = grown.build();
            let looks = &mut { u64::MAX };
            let flow = whole.maximize(u64::MAX, looks);
            assert_eq!(grown.maximize(u64::MAX, looks), flow);
            // Nodes of the other implementation: the source, nodes 0 to 9, and the sink.
            let inner = |node: u32| node + 1;
            let ends = arcs.iter().map(|(from, to, capacity)| match (*from, *to) {
                (0, to) => (0, inner(to), *capacity),
                (from, 9) => (inner(from), 11, *capacity),
                (from, to) => (inner(from), inner(to), *capacity),
            });
            let graph = DiGraph::<(), u64>::from_edges(ends.chain([(0, 11, 0)]));
            assert_eq!(flow, Some(dinics(&graph, 0.into(), 11.into()).0));
            assert_eq!((grown.source_side(), grown.sink_side()), (whole.source_side(), whole.sink_side()));
        }
    }
}
