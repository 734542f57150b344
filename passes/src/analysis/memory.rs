//! Memory of the main graph in its present order: live ranges, storage classes and buffers, derived
//! together.

use memc_ir::{Bytes, Module, SecondaryMap, Step, Value};
use memc_ops::Profile;

use crate::analysis::buffers::{Buffer, all_buffers, far_space, live, peak};
use crate::analysis::class::{StorageClass, classes};
use crate::analysis::liveness::Liveness;
use crate::options::{Io, Options};

/// Live ranges, storage classes and buffers of a module.
#[derive(Debug)]
pub struct Memory {
    /// Live ranges of all values of the main graph.
    pub liveness: Liveness,
    /// Storage class of each value.
    pub classes: SecondaryMap<Value, Option<StorageClass>>,
    /// Buffers of the first space, in order of their owners' ids.
    pub buffers: Vec<Buffer>,
    /// Buffers of farther spaces, in order of their owners' ids.
    far: Vec<Buffer>,
}

impl Memory {
    /// Derives the memory of a module under the options of its plan. Linear in nodes, operands and values,
    /// and O(n log n) in the number of buffers.
    pub fn of(module: &Module, options: &Options) -> Self {
        Self::under(module, options.profile, options.io)
    }

    /// Derives the memory of a module in a runtime; see [`Memory::of`].
    pub fn under(module: &Module, profile: &Profile, io: Io) -> Self {
        let (liveness, classes) = (Liveness::of(module, module.main(), profile), classes(module));
        let all = all_buffers(module, &liveness, &classes, io);
        let (far, buffers) = all.into_iter().partition(|buffer| far_space(module, buffer.owner).is_some());
        Self { liveness, classes, buffers, far }
    }

    /// Returns the buffers of a farther space: values that transfers send there, and values that live there.
    pub fn far(&self, module: &Module, space: &str) -> Vec<Buffer> {
        self.far.iter().filter(|buffer| far_space(module, buffer.owner) == Some(space)).cloned().collect()
    }

    /// Returns the bytes of the first space live at each step, workspace included.
    pub fn live(&self, module: &Module) -> Vec<Bytes> {
        live(module, &self.buffers, self.liveness.steps)
    }

    /// Returns the peak of the first space, workspace included, and the first step that reaches it.
    pub fn peak(&self, module: &Module) -> (Bytes, Step) {
        peak(module, &self.buffers, self.liveness.steps)
    }
}
