//! Values that a runtime hands on unrounded: where parts begin or end at one, it is rounded to its type, and results change.

use std::collections::BTreeMap;

use memc_ir::{Definition, Module, Node, Value};
use memc_ops::{Piece, Pieces, Profile, Typed};

/// Where results reach their readers unrounded under one runtime.
#[derive(Debug, Default)]
pub struct Unrounded {
    /// Who makes each such value, and the nodes that read it.
    values: BTreeMap<Value, (Node, Vec<Node>)>,
}

impl Unrounded {
    /// Those of the main graph. Linear in nodes.
    pub fn of(module: &Module, profile: &Profile) -> Self {
        let mut values: BTreeMap<Value, (Node, Vec<Node>)> = BTreeMap::new();
        for reader in &module.graph(module.main()).nodes {
            let read = profile.reads_unrounded(&Typed { module, node: *reader });
            let made = read.and_then(|value| match module.value(value).definition {
                Definition::Result(producer, _) => Some((value, producer)),
                _ => None,
            });
            if let Some((value, producer)) = made {
                values.entry(value).or_insert((producer, Vec::new())).1.push(*reader);
            }
        }
        Self { values }
    }

    /// Whether no part should begin or end at a value.
    pub fn holds(&self, value: Value) -> bool {
        self.values.contains_key(&value)
    }

    /// Nodes of parts that stand at a border which such a value crosses: joined behind them, or cut into shares before them.
    pub fn torn(&self, nodes: &BTreeMap<Node, Pieces>) -> Vec<Node> {
        let mut torn = Vec::new();
        for (producer, readers) in self.values.values() {
            let is_inside = nodes.contains_key(producer);
            for reader in readers {
                match nodes.get(reader) {
                    None if is_inside => torn.push(*producer),
                    Some(pieces) if !is_inside && pieces.operands.first() != Some(&Piece::Whole) => torn.push(*reader),
                    _ => {}
                }
            }
        }
        torn
    }
}
