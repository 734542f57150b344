//! Facts besides offsets that a program needs to run a plan: inputs and outputs, engines, tensors of each
//! step, and counted workspace.

use std::collections::BTreeMap;

use crate::types::{Class, Layout, Tensor};

impl Layout {
    /// Returns the number of engines, at least 1. Linear in the steps.
    pub fn engines(&self) -> u64 {
        let numbers = self.schedule.iter().filter_map(|row| row.engine);
        numbers.max().map_or(1, |largest| largest.saturating_add(1))
    }
}

/// Returns the number of an element type in ONNX's `TensorProto.DataType`, or 0 for an unknown type.
pub(crate) fn element_type(dtype: &str) -> u32 {
    const NAMES: [(&str, u32); 26] = [
        ("float", 1),
        ("uint8", 2),
        ("int8", 3),
        ("uint16", 4),
        ("int16", 5),
        ("int32", 6),
        ("int64", 7),
        ("string", 8),
        ("bool", 9),
        ("float16", 10),
        ("double", 11),
        ("uint32", 12),
        ("uint64", 13),
        ("complex64", 14),
        ("complex128", 15),
        ("bfloat16", 16),
        ("float8e4m3fn", 17),
        ("float8e4m3fnuz", 18),
        ("float8e5m2", 19),
        ("float8e5m2fnuz", 20),
        ("uint4", 21),
        ("int4", 22),
        ("float4e2m1", 23),
        ("float8e8m0", 24),
        ("uint2", 25),
        ("int2", 26),
    ];
    NAMES.iter().find(|(name, _)| *name == dtype).map_or(0, |(_, number)| *number)
}

/// Returns the tensors that the caller fills before a run, in the layout's order: graph inputs and
/// state.
pub(crate) fn inputs(layout: &Layout) -> Vec<usize> {
    of_class(layout, &[Class::Input, Class::State])
}

/// Returns the tensors that the caller reads after a run, in the layout's order.
pub(crate) fn outputs(layout: &Layout) -> Vec<usize> {
    of_class(layout, &[Class::Output])
}

fn of_class(layout: &Layout, classes: &[Class]) -> Vec<usize> {
    let tensors = layout.tensors.iter().enumerate();
    tensors.filter(|(_, tensor)| classes.contains(&tensor.class)).map(|(index, _)| index).collect()
}

/// Returns the index of the arena of the tensor's space.
pub(crate) fn arena_of(layout: &Layout, tensor: &Tensor) -> Option<usize> {
    layout.arenas.iter().position(|arena| Some(&arena.space) == tensor.space.as_ref())
}

/// Tensors of one step, by index. `None` stands for an omitted operand or a tensor of unknown size.
pub(crate) struct StepTensors {
    pub(crate) reads: Vec<Option<usize>>,
    pub(crate) writes: Vec<Option<usize>>,
    pub(crate) scratch: Vec<usize>,
}

/// Returns the tensors of all steps. If the layout was read from a file, operands and results are
/// empty: the file does not contain them.
pub(crate) fn step_tensors(layout: &Layout) -> Vec<StepTensors> {
    let names: BTreeMap<&str, usize> =
        layout.tensors.iter().enumerate().map(|(index, it)| (it.name.as_str(), index)).collect();
    let find = |all: &[String]| all.iter().map(|name| names.get(name.as_str()).copied()).collect();
    let mut steps: Vec<StepTensors> = (layout.schedule.iter())
        .map(|row| StepTensors { reads: find(&row.reads), writes: find(&row.writes), scratch: Vec::new() })
        .collect();
    for (index, tensor) in layout.tensors.iter().enumerate() {
        let step = tensor.step.and_then(|step| steps.get_mut(usize::try_from(step).ok()?));
        if let Some(step) = step {
            step.scratch.push(index);
        }
    }
    steps
}

/// Describes the workspace in an arena as a sentence.
pub(crate) fn scratch_note(layout: &Layout, space: &str) -> String {
    let inside = layout
        .tensors
        .iter()
        .filter(|tensor| tensor.class == Class::Scratch && tensor.space.as_deref() == Some(space));
    let (count, largest) =
        inside.fold((0u64, 0u64), |(count, largest), tensor| (count + 1, largest.max(tensor.bytes)));
    if count == 0 {
        return "It holds no workspace of kernels.".to_owned();
    }
    let runtime = layout.options.get("runtime").map_or("arena", String::as_str);
    format!(
        "It holds workspace of {count} steps, at most {largest} bytes for one, as `--runtime {runtime}` counts it for this target."
    )
}
