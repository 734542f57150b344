//! Storage classes: who owns the bytes of a value, and for how long.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Definition, Module, SecondaryMap, Value};
use memc_ops::families::memory::fetching;

use crate::options::Io;

/// Owner of the bytes of a value of the main graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StorageClass {
    /// An initializer, or the result of a repeatable node without operands: it exists before the first
    /// step.
    Constant,
    /// A graph input without a default.
    Input,
    /// A graph input that stays with the caller under every option: no node reads it, or it is also a
    /// graph output.
    IdleInput,
    /// A graph output that a node makes.
    Output,
    /// A value made and read within a run.
    Transient,
}

impl StorageClass {
    /// Returns whether the arena holds values of this class.
    pub fn is_placed(self, io: Io) -> bool {
        match self {
            Self::Constant | Self::IdleInput => false,
            Self::Input => io == Io::Arena,
            Self::Output => io != Io::External,
            Self::Transient => true,
        }
    }
}

/// Returns the classes of all values of the main graph; `None` for values of bodies and erased values.
/// Linear in nodes and operands.
pub fn classes(module: &Module) -> SecondaryMap<Value, Option<StorageClass>> {
    let main = module.main();
    let graph = module.graph(main);
    let read: BTreeSet<Value> = graph.nodes.iter().flat_map(|node| module.reads(*node)).collect();
    let input = |value: Value| {
        let is_idle = !read.contains(&value) || graph.outputs.contains(&value);
        if is_idle { StorageClass::IdleInput } else { StorageClass::Input }
    };
    let mut classes = SecondaryMap::default();
    for (value, data) in module.values().iter() {
        let class = match data.definition {
            Definition::Constant(graph, _) if graph == main => Some(StorageClass::Constant),
            Definition::Input(graph, _) if graph == main => {
                Some(if data.default.is_some() { StorageClass::Constant } else { input(value) })
            }
            Definition::Result(node, _) if module.node(node).graph == main => {
                let is_source = module.reads(node).is_empty() && memc_ops::repeatable(module, node);
                Some(if is_source { StorageClass::Constant } else { StorageClass::Transient })
            }
            _ => None,
        };
        classes.set(value, class);
    }
    for output in &module.graph(main).outputs {
        if matches!(module.value(*output).definition, Definition::Result(..)) {
            classes.set(*output, Some(StorageClass::Output));
        }
    }
    classes
}

/// Returns the bytes of constants in the near space: all constants except those fetched from a farther
/// space.
pub fn near_constants(module: &Module) -> Bytes {
    let classes = classes(module);
    let nodes = &module.graph(module.main()).nodes;
    let fetched: BTreeSet<Value> = nodes
        .iter()
        .map(|node| module.node(*node))
        .filter(|data| fetching(&data.operator).is_some())
        .filter_map(|data| data.operands().next())
        .collect();
    let stays = |value: &Value| {
        classes[*value] == Some(StorageClass::Constant)
            && module.plan.alias[*value].is_none()
            && !fetched.contains(value)
    };
    let sizes = module.values().keys().filter(stays).filter_map(|value| module.size(value));
    sizes.fold(body_constants(module), Bytes::saturating_add)
}

/// Returns the bytes of the constants of all bodies.
pub fn body_constants(module: &Module) -> Bytes {
    let (mut open, mut sum) = (vec![module.main()], Bytes(0));
    while let Some(graph) = open.pop() {
        let bodies = module
            .graph(graph)
            .nodes
            .iter()
            .flat_map(|node| module.node(*node).bodies().map(|(_, body)| body));
        for body in bodies {
            let sizes = module.graph(body).constants.iter().filter_map(|value| module.size(*value));
            sum = sizes.fold(sum, Bytes::saturating_add);
            open.push(body);
        }
    }
    sum
}
