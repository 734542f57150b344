//! Layout as Rust constants: arena sizes, and places of tensors.

use std::fmt::Write as _;

use crate::{
    identifiers::{Identifiers, comment, hexadecimal, shape},
    rust_extents::write_extents,
    steps::{arena_of, element_type, inputs, outputs, scratch_note, step_tensors},
    types::{Class, Layout},
};

/// Returns the plan as constants of a Rust module that uses only `core`.
///
/// - `MODEL_SHA256`: model file that the plan belongs to.
/// - `ARENA_<SPACE>_SIZE` and `ARENA_<SPACE>_ALIGNMENT`, in bytes.
/// - `TENSOR_<NAME>`: range of the tensor's bytes, which slices its arena. `SIZE_<NAME>` for graph
///   inputs, outputs and state that the caller holds.
/// - `TENSORS`, and lists of positions in it: `INPUTS`, `OUTPUTS`, and operands, results and workspace
///   of each of the `STEPS`.
///
/// If dimensions are free, constants hold for the largest extents, and functions compute the values of a run
/// from `Extents`: `bytes_<name>`, `placement_at` (by the formula) and `fixed_placement_at` (by buckets).
///
/// Names become upper-case identifiers of at most 60 characters. A number is appended if two names
/// would become equal. Assertions at compile time check that every range fits its arena. A plan too
/// large for the machine's `usize` does not compile.
pub fn to_rust(layout: &Layout) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_constants(layout, &mut text);
    text
}

fn write_constants(layout: &Layout, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "// Memory plan, made by memc {} for target {}.\n",
        comment(&layout.memc_version),
        comment(&layout.target.name)
    )?;
    writeln!(text, "/// SHA-256 of the model file that the plan belongs to.")?;
    writeln!(text, "pub const MODEL_SHA256: &str = \"{}\";", hexadecimal(&layout.model.output_sha256))?;
    // Size and alignment of each arena.
    let mut arenas = Vec::new();
    let mut names = Identifiers::default();
    for arena in &layout.arenas {
        let name = names.upper(&arena.space);
        writeln!(
            text,
            "\n/// Bytes of the arena of space {}. {}",
            comment(&arena.space),
            comment(&scratch_note(layout, &arena.space))
        )?;
        writeln!(text, "pub const ARENA_{name}_SIZE: usize = {};", arena.size)?;
        writeln!(text, "/// Alignment of that arena, in bytes: its address must be a multiple of it.")?;
        writeln!(text, "pub const ARENA_{name}_ALIGNMENT: usize = {};", arena.alignment)?;
        writeln!(text, "const _: () = assert!(ARENA_{name}_ALIGNMENT.is_power_of_two());")?;
        arenas.push((&arena.space, name));
    }
    // Range or size of each tensor.
    let (mut names, mut named) = (Identifiers::default(), Vec::new());
    for (index, tensor) in layout.tensors.iter().enumerate() {
        let about = format!("{}: {} {}", comment(&tensor.name), comment(&tensor.dtype), shape(&tensor.shape));
        match tensor.space.as_ref().zip(tensor.offset) {
            Some((space, offset)) => {
                let name = names.upper(&tensor.name);
                named.push((index, name.clone()));
                write!(text, "\n/// `{about}`, {} in {}", tensor.class.as_str(), comment(space))?;
                for range in &tensor.live {
                    write!(text, ", steps {}..{}", range.start, range.end)?;
                }
                writeln!(
                    text,
                    ".\npub const TENSOR_{name}: core::ops::Range<usize> = {offset}..{offset} + {};",
                    tensor.bytes
                )?;
                if let Some((_, arena)) = arenas.iter().find(|(known, _)| *known == space) {
                    writeln!(text, "const _: () = assert!(TENSOR_{name}.end <= ARENA_{arena}_SIZE);")?;
                }
            }
            None if matches!(tensor.class, Class::Input | Class::Output | Class::State) => {
                let name = names.upper(&tensor.name);
                named.push((index, name.clone()));
                writeln!(text, "\n/// Bytes of `{about}`, {} of the caller.", tensor.class.as_str())?;
                writeln!(text, "pub const SIZE_{name}: usize = {};", tensor.bytes)?;
            }
            None => {}
        }
    }
    write_tables(layout, text)?;
    write_extents(layout, &named, text)
}

/// Writes the plan as slices, for programs that iterate over it. The linker drops unused slices.
fn write_tables(layout: &Layout, text: &mut String) -> std::fmt::Result {
    text.push_str(TYPES);
    writeln!(text, "\n/// All tensors of the plan.\npub static TENSORS: &[Tensor] = &[")?;
    for tensor in &layout.tensors {
        let place = arena_of(layout, tensor).zip(tensor.offset);
        let place =
            place.map_or_else(|| "None".to_owned(), |(arena, offset)| format!("Some(({arena}, {offset}))"));
        let (name, bytes, kind, extents) =
            (&tensor.name, tensor.bytes, element_type(&tensor.dtype), &tensor.shape);
        writeln!(
            text,
            "    Tensor {{ name: {name:?}, place: {place}, bytes: {bytes}, element_type: {kind}, shape: &{extents:?} }},"
        )?;
    }
    writeln!(text, "];")?;
    writeln!(
        text,
        "\n/// Graph inputs, which the caller fills: places in `TENSORS`.\npub static INPUTS: &[usize] = &{:?};",
        inputs(layout)
    )?;
    writeln!(
        text,
        "\n/// Graph outputs: places in `TENSORS`.\npub static OUTPUTS: &[usize] = &{:?};",
        outputs(layout)
    )?;
    writeln!(text, "\n/// The nodes in the order in which they run.\npub static STEPS: &[Step] = &[")?;
    for (row, step) in layout.schedule.iter().zip(step_tensors(layout)) {
        let (node, domain, op) = (&row.node, &row.domain, &row.op);
        let (reads, writes, scratch) = (step.reads, step.writes, step.scratch);
        writeln!(
            text,
            "    Step {{ node: {node:?}, domain: {domain:?}, op: {op:?}, reads: &{reads:?}, writes: &{writes:?}, scratch: &{scratch:?} }},"
        )?;
    }
    writeln!(text, "];")
}

/// Source text of the table types.
const TYPES: &str = r"
/// A tensor. Its place is the number of its arena, from 0 in the order above, and the offset; `None` if
/// the caller holds it.
/// Element types are numbered as in ONNX's `TensorProto.DataType`.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    pub name: &'static str,
    pub place: Option<(usize, usize)>,
    pub bytes: usize,
    pub element_type: u32,
    pub shape: &'static [usize],
}

/// A node, with its operands, results and workspace as places in `TENSORS`; `None` for operands that are
/// left out or have no size.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub node: &'static str,
    pub domain: &'static str,
    pub op: &'static str,
    pub reads: &'static [Option<usize>],
    pub writes: &'static [Option<usize>],
    pub scratch: &'static [usize],
}
";
