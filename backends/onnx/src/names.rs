//! Gives every node of the main graph and every new value a unique name.

use std::collections::{HashMap, HashSet};

use memc_ir::{Module, Node, Origin, SecondaryMap};

/// Pool that gives each name only once.
#[derive(Debug, Default)]
pub(crate) struct NamePool {
    taken: HashSet<String>,
    /// Next number to try for a base, so that repeated requests for the base stay cheap.
    next: HashMap<String, u64>,
}

impl NamePool {
    /// Returns a pool in which these names are already taken.
    pub(crate) fn with(names: impl Iterator<Item = String>) -> Self {
        Self { taken: names.collect(), next: HashMap::new() }
    }
    /// Returns the name itself if it is free, otherwise the name with a number appended.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_owned()) { name.to_owned() } else { self.numbered(name, '.', 2) }
    }
    /// Returns the first free name made of `base`, `separator` and a number, starting with the number
    /// `first`.
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

/// Names all nodes of the main graph. The first node with a name keeps it; nodes of the file come before
/// nodes of passes, in file order, independent of the schedule. Other nodes become `OpType_<n>` or
/// `<name>.<n>`. Also returns the pool, for further names.
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
    // New names also avoid those of nodes in bodies, so that a name that a runtime reports stays
    // unambiguous.
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
