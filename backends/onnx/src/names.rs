//! Names: every node of the main graph gets one of its own, and so do new values.

use std::collections::{HashMap, HashSet};

use memc_ir::{Module, Node, Origin, SecondaryMap};

/// Gives names out, each once.
#[derive(Debug, Default)]
pub(crate) struct NamePool {
    taken: HashSet<String>,
    /// The next number to try for a base, so that many requests for one base stay cheap.
    next: HashMap<String, u64>,
}

impl NamePool {
    /// A pool in which these names are given out already.
    pub(crate) fn with(names: impl Iterator<Item = String>) -> Self {
        Self { taken: names.collect(), next: HashMap::new() }
    }
    /// The name itself if it is free, else with a number behind it.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_owned()) { name.to_owned() } else { self.numbered(name, '.', 2) }
    }
    /// The first free name among `base`, `separator` and a number from `first` on.
    pub(crate) fn numbered(&mut self, base: &str, separator: char, first: u64) -> String {
        let next = self.next.entry(format!("{base}{separator}")).or_insert(first);
        loop {
            let name = format!("{base}{separator}{next}");
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Names for all nodes of the main graph: the first node with a name keeps it, those of the file before those of passes and in the file's
/// order, whatever the schedule; others become `OpType_<n>` or `<name>.<n>`. Also the pool, for further names.
pub(crate) fn name_nodes(module: &Module) -> (SecondaryMap<Node, String>, NamePool) {
    let mut nodes: Vec<Node> = module.graph(module.main()).nodes.clone();
    nodes.sort_by_key(|node| match module.node(*node).origin {
        Origin::File { index } => (0, index, *node),
        _ => (1, 0, *node),
    });
    let mut holder: HashMap<&str, Node> = HashMap::new();
    for node in &nodes {
        holder.entry(&module.node(*node).name).or_insert(*node);
    }
    // A new name is also none of a node in a body, so that what a runtime reports by name is not ambiguous on our account.
    let mut pool = NamePool::with(module.nodes().iter().map(|(_, data)| data.name.clone()));
    let mut names: SecondaryMap<Node, String> = SecondaryMap::default();
    for node in nodes {
        let data = module.node(node);
        let name = match data.name.as_str() {
            "" if data.operator.name.is_empty() => pool.numbered("node", '_', 0),
            "" => pool.numbered(&data.operator.name, '_', 0),
            name if holder.get(name) == Some(&node) => name.to_owned(),
            name => pool.numbered(name, '.', 2),
        };
        names.set(node, name);
    }
    (names, pool)
}
