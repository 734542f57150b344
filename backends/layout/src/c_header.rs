//! Layout as a C header: arena sizes, places of tensors, and operands, results and workspace of each
//! step.

use std::fmt::Write as _;

use crate::{
    c_extents::write_extents,
    identifiers::{Identifiers, c_string, comment, hexadecimal, shape},
    steps::{arena_of, element_type, inputs, outputs, scratch_note, step_tensors},
    types::{Class, Layout, Tensor},
};

/// Returns the plan as macros of a C99 (or C++) header without includes.
///
/// - `MEMC_MODEL_SHA256`, `MEMC_MODEL_ID`: model file that the plan belongs to. If a build defines
///   `MEMC_EXPECTED_MODEL_ID`, the header of another model does not compile.
/// - `MEMC_ARENA_<SPACE>_SIZE` and `_ALIGNMENT`, in bytes.
/// - `MEMC_INPUT_COUNT`, and for each graph input, numbered from 0, `MEMC_INPUT_<N>_NAME`, `_SIZE`,
///   `_TYPE` (ONNX's number), `_RANK`, `_SHAPE` (in braces), and `_OFFSET` if an arena holds the input.
///   Graph outputs have `MEMC_OUTPUT_<N>` macros in this form too.
/// - `MEMC_TENSOR_<NAME>_OFFSET` and `_SIZE`, for each tensor in an arena. Graph inputs, outputs and
///   state that the caller holds have `_SIZE` alone. `MEMC_TENSOR_AT(arena, NAME)` is the address of a
///   tensor.
/// - `memc_tensors`, `memc_steps` and `memc_step_tensors`, the plan as constant arrays, if
///   `MEMC_TABLES` is defined.
///
/// If dimensions are free, the macros hold for the largest extents, and functions compute the values of a run
/// from a `memc_extents`: `memc_is_planned`, `memc_bytes_<name>` for each tensor with a macro, and
/// `memc_offsets_at` (by the formula) or `memc_fixed_offsets_at` (by buckets), which write arrays.
///
/// Names become upper-case identifiers. With prefixes and suffixes they stay below 60 characters. A
/// number is appended if two names would become equal. Assertions at compile time check that every
/// tensor fits its arena.
pub fn to_c_header(layout: &Layout) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail; this holds for all writes below.
    let _ = write_header(layout, &mut text);
    text
}

fn write_header(layout: &Layout, text: &mut String) -> std::fmt::Result {
    let sha = hexadecimal(&layout.model.output_sha256);
    let id = if sha.is_empty() { "0" } else { sha.get(..8).unwrap_or(&sha) };
    writeln!(
        text,
        "/* Memory plan, made by memc {} for target {}. */",
        comment(&layout.memc_version),
        comment(&layout.target.name)
    )?;
    // Model identity and helper macros.
    writeln!(text, "#ifndef MEMC_LAYOUT_H\n#define MEMC_LAYOUT_H\n")?;
    writeln!(
        text,
        "/* The model file that the plan belongs to, and the first digits of its hash as a number. */"
    )?;
    writeln!(text, "#define MEMC_MODEL_SHA256 \"{sha}\"\n#define MEMC_MODEL_ID 0x{id}UL")?;
    writeln!(text, "#if defined(MEMC_EXPECTED_MODEL_ID) && MEMC_EXPECTED_MODEL_ID != MEMC_MODEL_ID")?;
    writeln!(text, "#error \"this memory plan belongs to another model\"\n#endif\n")?;
    writeln!(text, "/* C99 has no static assertion: an array of negative size stops the compiler. */")?;
    writeln!(
        text,
        "#define MEMC_ASSERT(name, condition) typedef char memc_assert_##name[(condition) ? 1 : -1]"
    )?;
    writeln!(
        text,
        "#define MEMC_TENSOR_AT(arena, name) ((void *)((unsigned char *)(arena) + MEMC_TENSOR_##name##_OFFSET))\n"
    )?;
    let spaces = write_arenas(layout, text)?;
    let ends = [
        ("INPUT", "Graph inputs, which the caller fills", inputs(layout)),
        ("OUTPUT", "Graph outputs", outputs(layout)),
    ];
    for (word, about, tensors) in ends {
        write_ends(layout, text, word, about, &tensors)?;
    }
    // Size of each tensor, and its offset if an arena holds it.
    let mut named = Vec::new();
    let tensors = layout.tensors.iter().zip(c_identifiers(layout).tensors).enumerate();
    for (index, (tensor, name)) in tensors {
        let (placed, Some(name)) = (tensor.space.as_ref().zip(tensor.offset), name) else { continue };
        named.push((index, name.clone()));
        write_comment(tensor, text)?;
        writeln!(text, "#define MEMC_TENSOR_{name}_SIZE {}", literal(tensor.bytes))?;
        let Some((space, offset)) = placed else { continue };
        writeln!(text, "#define MEMC_TENSOR_{name}_OFFSET {}", literal(offset))?;
        if let Some((_, arena)) = spaces.iter().find(|(known, _)| known == space) {
            writeln!(
                text,
                "MEMC_ASSERT(TENSOR_{name}, MEMC_TENSOR_{name}_SIZE <= MEMC_ARENA_{arena}_SIZE && \
                 MEMC_TENSOR_{name}_OFFSET <= MEMC_ARENA_{arena}_SIZE - MEMC_TENSOR_{name}_SIZE);"
            )?;
        }
    }
    write_extents(layout, &named, text)?;
    write_tables(layout, text)?;
    writeln!(text, "\n#endif")
}

/// Identifiers in the names of a C header's macros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CIdentifiers {
    /// Identifier of each arena, in the layout's order: `SRAM` of `MEMC_ARENA_SRAM_SIZE`.
    pub arenas: Vec<String>,
    /// Identifier of each tensor, in the layout's order: `X` of `MEMC_TENSOR_X_SIZE`; `None` for
    /// tensors without macros, which have no place and are not the caller's.
    pub tensors: Vec<Option<String>>,
}

/// Returns the identifiers that [`to_c_header`] uses, for generators of C that includes the header.
pub fn c_identifiers(layout: &Layout) -> CIdentifiers {
    let mut names = Identifiers::default();
    let arenas = layout.arenas.iter().map(|arena| names.upper(&arena.space)).collect();
    let mut names = Identifiers::default();
    let tensors = layout.tensors.iter().map(|tensor| {
        let is_placed = tensor.space.is_some() && tensor.offset.is_some();
        let is_callers = matches!(tensor.class, Class::Input | Class::Output | Class::State);
        (is_placed || is_callers).then(|| names.upper(&tensor.name))
    });
    CIdentifiers { arenas, tensors: tensors.collect() }
}

/// Writes the arenas. Returns pairs of space name and identifier.
fn write_arenas(layout: &Layout, text: &mut String) -> Result<Vec<(String, String)>, std::fmt::Error> {
    let mut spaces = Vec::new();
    for (arena, name) in layout.arenas.iter().zip(c_identifiers(layout).arenas) {
        writeln!(
            text,
            "/* Space {}. {} */",
            comment(&arena.space),
            comment(&scratch_note(layout, &arena.space))
        )?;
        writeln!(text, "#define MEMC_ARENA_{name}_SIZE {}", literal(arena.size))?;
        writeln!(text, "#define MEMC_ARENA_{name}_ALIGNMENT {}", literal(arena.alignment))?;
        writeln!(
            text,
            "MEMC_ASSERT(ALIGNMENT_{name}, MEMC_ARENA_{name}_ALIGNMENT != 0 && (MEMC_ARENA_{name}_ALIGNMENT & (MEMC_ARENA_{name}_ALIGNMENT - 1)) == 0);\n"
        )?;
        spaces.push((arena.space.clone(), name));
    }
    Ok(spaces)
}

/// Writes the graph's inputs or outputs, numbered from 0.
fn write_ends(
    layout: &Layout,
    text: &mut String,
    word: &str,
    about: &str,
    tensors: &[usize],
) -> std::fmt::Result {
    writeln!(text, "/* {about}: element types are numbered as in ONNX's TensorProto.DataType. */")?;
    writeln!(text, "#define MEMC_{word}_COUNT {}", tensors.len())?;
    for (number, tensor) in tensors.iter().filter_map(|index| layout.tensors.get(*index)).enumerate() {
        let start = format!("#define MEMC_{word}_{number}");
        writeln!(text, "{start}_NAME {}", c_string(&tensor.name))?;
        writeln!(text, "{start}_SIZE {}", literal(tensor.bytes))?;
        if let (Some(arena), Some(offset)) = (arena_of(layout, tensor), tensor.offset) {
            writeln!(text, "{start}_ARENA {arena}\n{start}_OFFSET {}", literal(offset))?;
        }
        writeln!(text, "{start}_TYPE {} /* {} */", element_type(&tensor.dtype), comment(&tensor.dtype))?;
        // C has no empty array: the shape of a scalar has one element.
        let extents: Vec<String> = tensor.shape.iter().map(|extent| literal(*extent)).collect();
        let extents = if extents.is_empty() { "1UL".to_owned() } else { extents.join(", ") };
        writeln!(text, "{start}_RANK {}\n{start}_SHAPE {{ {extents} }}", tensor.shape.len())?;
    }
    writeln!(text)
}

fn write_comment(tensor: &Tensor, text: &mut String) -> std::fmt::Result {
    write!(text, "\n/* {}: {} {}", comment(&tensor.name), comment(&tensor.dtype), shape(&tensor.shape))?;
    match &tensor.space {
        Some(space) => write!(text, ", {} in {}", tensor.class.as_str(), comment(space))?,
        None => write!(text, ", {} of the caller", tensor.class.as_str())?,
    }
    for range in &tensor.live {
        write!(text, ", steps {}..{}", range.start, range.end)?;
    }
    if let Some(alias) = &tensor.alias {
        write!(text, ", in the bytes of {}", comment(&alias.of))?;
    }
    writeln!(text, " */")
}

/// Writes the plan as arrays, for programs that iterate over it. Without `MEMC_TABLES` the arrays take
/// no memory.
fn write_tables(layout: &Layout, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "\n/* The plan as tables, for one source file that defines MEMC_TABLES before it includes this one. */"
    )?;
    writeln!(
        text,
        "#define MEMC_TENSOR_COUNT {}\n#define MEMC_STEP_COUNT {}",
        layout.tensors.len(),
        layout.schedule.len()
    )?;
    writeln!(
        text,
        "/* Arena number of tensors that the caller holds, and tensor number of operands that are left out or have no size. */"
    )?;
    writeln!(text, "#define MEMC_NO_ARENA 0xffffU\n#define MEMC_NO_TENSOR 0xffffffffUL")?;
    writeln!(text, "#ifdef MEMC_TABLES")?;
    // Types of the tables.
    let is_wide = layout
        .tensors
        .iter()
        .any(|tensor| u32::try_from(tensor.bytes.max(tensor.offset.unwrap_or(0))).is_err());
    writeln!(text, "typedef unsigned long {}memc_bytes;", if is_wide { "long " } else { "" })?;
    writeln!(
        text,
        "typedef struct {{ const char *name; memc_bytes offset, size; unsigned arena, type; }} memc_tensor;"
    )?;
    writeln!(
        text,
        "/* `first` is the position in memc_step_tensors of the operands, results and workspace of a step, in this order. */"
    )?;
    writeln!(
        text,
        "typedef struct {{ const char *node, *domain, *op; unsigned long first; unsigned reads, writes, scratch; }} memc_step;"
    )?;
    // Table of tensors, in the layout's order.
    if !layout.tensors.is_empty() {
        writeln!(text, "static const memc_tensor memc_tensors[MEMC_TENSOR_COUNT] = {{")?;
        for tensor in &layout.tensors {
            let (arena, offset) = match (arena_of(layout, tensor), tensor.offset) {
                (Some(arena), Some(offset)) => (format!("{arena}U"), offset),
                _ => ("MEMC_NO_ARENA".to_owned(), 0),
            };
            let (name, kind) = (c_string(&tensor.name), element_type(&tensor.dtype));
            writeln!(
                text,
                "{{ {name}, {}, {}, {arena}, {kind}U }},",
                literal(offset),
                literal(tensor.bytes)
            )?;
        }
        writeln!(text, "}};")?;
    }
    let steps = step_tensors(layout);
    if steps.is_empty() {
        return writeln!(text, "#endif");
    }
    // Table of tensor indices, step by step.
    writeln!(text, "static const unsigned long memc_step_tensors[] = {{")?;
    for step in &steps {
        let known =
            step.reads.iter().chain(&step.writes).copied().chain(step.scratch.iter().copied().map(Some));
        let row: Vec<String> =
            known.map(|it| it.map_or("MEMC_NO_TENSOR".to_owned(), |index| format!("{index}UL"))).collect();
        if !row.is_empty() {
            writeln!(text, "{},", row.join(", "))?;
        }
    }
    // An array has at least one element. `first` of a last step without tensors also points at this
    // element.
    writeln!(text, "MEMC_NO_TENSOR\n}};")?;
    writeln!(text, "static const memc_step memc_steps[MEMC_STEP_COUNT] = {{")?;
    let mut first = 0;
    for (row, step) in layout.schedule.iter().zip(&steps) {
        let (reads, writes, scratch) = (step.reads.len(), step.writes.len(), step.scratch.len());
        let names = [&row.node, &row.domain, &row.op].map(|name| c_string(name)).join(", ");
        writeln!(text, "{{ {names}, {first}UL, {reads}U, {writes}U, {scratch}U }},")?;
        first += reads + writes + scratch;
    }
    writeln!(text, "}};\n#endif")
}

/// Returns a number with the shortest suffix that makes its type wide enough for any width of `int`.
pub(crate) fn literal(value: u64) -> String {
    if u32::try_from(value).is_ok() { format!("{value}UL") } else { format!("{value}ULL") }
}
