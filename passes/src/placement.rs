//! Buffers and workspace of one space as a placement problem, and the way back into the plan.

use memc_ir::{Bytes, DimExpr, Module, Node, SecondaryMap, Space, Step, Storage, TensorType};
use memc_solve::place;

use crate::analysis::buffers::Buffer;
use crate::analysis::scratch::scratch_expr;
use crate::options::Options;

/// Rows of a placement problem with their owners: buffers first, then workspace.
pub(crate) struct Placement {
    /// The problem; its rows are in the order of the owners.
    pub(crate) problem: place::Problem,
    buffers: Vec<Buffer>,
}

impl Placement {
    /// States the buffers of a space, in which nothing else lives.
    pub(crate) fn of_buffers(buffers: Vec<Buffer>, alignment: u64) -> Self {
        let rows = buffers
            .iter()
            .map(|buffer| row(buffer.range.start.0, buffer.range.end.0, buffer.bytes, alignment));
        Self { problem: place::Problem { buffers: rows.collect(), ..place::Problem::default() }, buffers }
    }

    /// States the buffers of the first space and the workspace of the plan. Linear in nodes and rows.
    pub(crate) fn with_workspace(module: &Module, buffers: Vec<Buffer>, alignment: u64) -> Self {
        let mut placement = Self::of_buffers(buffers, alignment);
        let mut step_of: SecondaryMap<Node, Step> = SecondaryMap::default();
        for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
            step_of.set(*node, Step(index as u32));
        }
        let rows = module.plan.scratch.iter().map(|scratch| (step_of[scratch.node].0, scratch.bytes));
        placement.problem.buffers.extend(rows.map(|(step, bytes)| row(step, step + 1, bytes, alignment)));
        placement
    }

    /// Returns the size of each row, in bytes and as an expression over free dimensions if it has one.
    pub(crate) fn sizes(&self, module: &Module, options: &Options) -> Vec<(u64, Option<DimExpr>)> {
        let buffers = self.buffers.iter().map(|buffer| {
            let ty = module.ty(buffer.owner).tensor().filter(|_| !module.assumed.contains_key(&buffer.owner));
            (buffer.bytes.0, ty.and_then(TensorType::size_expr))
        });
        let workspace = module.plan.scratch.iter();
        buffers
            .chain(workspace.map(|scratch| (scratch.bytes.0, scratch_expr(module, scratch, options))))
            .collect()
    }

    /// Returns the offset of each row in the plan; `None` if a row has none.
    pub(crate) fn offsets(&self, module: &Module) -> Option<Vec<u64>> {
        let buffers = self.buffers.iter().map(|buffer| module.plan.storage[buffer.owner]);
        let all = buffers.chain(module.plan.scratch.iter().map(|scratch| scratch.storage));
        all.map(|storage| storage.map(|storage| storage.offset.0)).collect()
    }

    /// Writes the offset of each row into the plan. Aliases are placed inside their owners.
    pub(crate) fn write(&self, module: &mut Module, space: Space, offsets: &[u64]) {
        for (buffer, offset) in self.buffers.iter().zip(offsets) {
            for value in &buffer.members {
                let (_, within) = module.plan.owner(*value);
                module
                    .plan
                    .storage
                    .set(*value, Some(Storage { space, offset: Bytes(*offset).saturating_add(within) }));
            }
        }
        for (scratch, offset) in module.plan.scratch.iter_mut().zip(offsets.iter().skip(self.buffers.len())) {
            scratch.storage = Some(Storage { space, offset: Bytes(*offset) });
        }
    }
}

pub(crate) fn row(start: u32, end: u32, bytes: Bytes, alignment: u64) -> place::Buffer {
    place::Buffer { alignment, ..place::Buffer::new(start, end, bytes.0) }
}
