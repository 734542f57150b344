//! Values that a runtime passes on unrounded: a border between parts there would round them to their
//! type and change results.

use std::collections::BTreeMap;

use memc_ir::{Definition, Module, Node, Value};
use memc_ops::{Piece, Pieces, Profile, Typed};

/// Results that reach their readers unrounded under one runtime's profile.
#[derive(Debug, Default)]
pub struct Unrounded {
    /// By value: the node that makes it, and the nodes that read it unrounded.
    values: BTreeMap<Value, (Node, Vec<Node>)>,
}

impl Unrounded {
    /// Finds the unrounded values of the main graph. Linear in nodes.
    pub fn of(module: &Module, profile: &Profile) -> Self {
        let mut values: BTreeMap<Value, (Node, Vec<Node>)> = BTreeMap::new();
        for reader in &module.graph(module.main()).nodes {
            let read = profile.reads_unrounded(&Typed::of(module, *reader));
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

    /// Returns whether a value is passed on unrounded, so that no part should begin or end there.
    pub fn holds(&self, value: Value) -> bool {
        self.values.contains_key(&value)
    }

    /// Returns the nodes of the parts at a border that an unrounded value crosses: producers with a
    /// reader outside the parts, and readers that would read shares of a value made outside.
    pub fn torn(&self, nodes: &BTreeMap<Node, Pieces>) -> Vec<Node> {
        let mut torn = Vec::new();
        for (producer, readers) in self.values.values() {
            let is_inside = nodes.contains_key(producer);
            for reader in readers {
                match nodes.get(reader) {
                    None if is_inside => torn.push(*producer),
                    Some(pieces) if !is_inside && pieces.operands.first() != Some(&Piece::Whole) => {
                        torn.push(*reader)
                    }
                    _ => {}
                }
            }
        }
        torn
    }
}
