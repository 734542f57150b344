//! Bytes that a planned model takes, by what holds them.

use std::collections::BTreeSet;

use memc_layout::{Class, Layout, LiveCurve, Owner, Tensor};

/// Bytes of a planned model in its first space. What depends on free dimensions counts at its largest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Need {
    /// Constants, without those that are fetched from a farther space.
    pub weights: u64,
    /// Caches, parameters and moments: what the caller keeps from run to run.
    pub state: u64,
    /// Inputs and outputs that the caller holds during a run.
    pub interface: u64,
    /// The arena: all values between inputs and outputs, workspace included.
    pub arena: u64,
    /// Workspace of kernels among the bytes of the arena at its peak.
    pub workspace: u64,
}

impl Need {
    /// Derives the bytes from a layout. Linear in its tensors.
    pub fn of(layout: &Layout) -> Self {
        // A constant that is fetched twice lies in the farther space once.
        let far = layout.far_constants().into_values().fold(0u64, u64::saturating_add);
        let arena = layout.arenas.first().map_or(0, |arena| arena.size);
        let mut found = Self { weights: layout.weights.saturating_sub(far), arena, ..Self::default() };
        // A new value in the storage of the old one is no bytes of its own.
        let updated: BTreeSet<&str> = layout.state.iter().map(|row| row.result.as_str()).collect();
        let is_own = |tensor: &&Tensor| tensor.offset.is_none() && tensor.alias.is_none();
        for tensor in
            layout.tensors.iter().filter(is_own).filter(|tensor| !updated.contains(tensor.name.as_str()))
        {
            let sum = match tensor.class {
                Class::State => &mut found.state,
                Class::Input | Class::Output => &mut found.interface,
                Class::Constant | Class::Transient | Class::Scratch => continue,
            };
            *sum = sum.saturating_add(tensor.bytes);
        }
        let curves = LiveCurve::of(layout);
        let first = layout
            .arenas
            .first()
            .and_then(|arena| curves.spaces.iter().find(|space| space.space == arena.space));
        let at_peak = first.map(|space| space.alive_at(space.peak_step)).unwrap_or_default();
        let is_workspace = |owner: &&Owner| {
            layout.tensors.get(owner.tensor).is_some_and(|tensor| tensor.class == Class::Scratch)
        };
        let workspace =
            at_peak.into_iter().filter(is_workspace).map(|owner| owner.bytes).fold(0, u64::saturating_add);
        Self { workspace: workspace.min(arena), ..found }
    }

    /// Bytes between two runs.
    pub fn at_rest(&self) -> u64 {
        self.weights.saturating_add(self.state)
    }

    /// Bytes during a run, without the arena.
    pub fn beside_arena(&self) -> u64 {
        self.at_rest().saturating_add(self.interface)
    }

    /// Bytes during a run.
    pub fn in_run(&self) -> u64 {
        self.beside_arena().saturating_add(self.arena)
    }
}
