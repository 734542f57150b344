//! A layout as a C header: how big the arenas must be, and where every tensor lies in them.

use std::fmt::Write as _;

use crate::{
    identifiers::{Identifiers, comment, hexadecimal, shape},
    types::{Class, Layout, Tensor},
};

/// The plan as macros of a C99 (or C++) header that includes nothing.
///
/// - `MEMC_MODEL_SHA256`, `MEMC_MODEL_ID`: the model file that the plan belongs to. A build that defines
///   `MEMC_EXPECTED_MODEL_ID` refuses a header of another model.
/// - `MEMC_ARENA_<SPACE>_SIZE` and `_ALIGNMENT`, in bytes.
/// - `MEMC_TENSOR_<NAME>_OFFSET` and `_SIZE`, for each tensor in an arena; `_SIZE` alone for graph inputs, outputs and state that the
///   caller holds. `MEMC_TENSOR_AT(arena, NAME)` is its address.
///
/// Names become upper-case identifiers; a number is added where two would be the same. Every region is held inside its arena by an
/// assertion at compile time.
pub fn to_c_header(layout: &Layout) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail; here and below.
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
    writeln!(text, "#ifndef MEMC_LAYOUT_H\n#define MEMC_LAYOUT_H\n")?;
    writeln!(text, "/* The model file that the plan belongs to, and the first digits of its hash as a number. */")?;
    writeln!(text, "#define MEMC_MODEL_SHA256 \"{sha}\"\n#define MEMC_MODEL_ID 0x{id}UL")?;
    writeln!(text, "#if defined(MEMC_EXPECTED_MODEL_ID) && MEMC_EXPECTED_MODEL_ID != MEMC_MODEL_ID")?;
    writeln!(text, "#error \"this memory plan belongs to another model\"\n#endif\n")?;
    writeln!(text, "/* C99 has no static assertion: an array of negative size stops the compiler. */")?;
    writeln!(text, "#define MEMC_ASSERT(name, condition) typedef char memc_assert_##name[(condition) ? 1 : -1]")?;
    writeln!(text, "#define MEMC_TENSOR_AT(arena, name) ((void *)((unsigned char *)(arena) + MEMC_TENSOR_##name##_OFFSET))\n")?;
    let spaces = write_arenas(layout, text)?;
    let mut names = Identifiers::default();
    for tensor in &layout.tensors {
        let placed = tensor.space.as_ref().zip(tensor.offset);
        let callers = matches!(tensor.class, Class::Input | Class::Output | Class::State);
        if placed.is_none() && !callers {
            continue;
        }
        let name = names.upper(&tensor.name);
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
    writeln!(text, "\n#endif")
}

/// Writes the arenas; returns each space's name with its identifier.
fn write_arenas(layout: &Layout, text: &mut String) -> Result<Vec<(String, String)>, std::fmt::Error> {
    let mut names = Identifiers::default();
    let mut spaces = Vec::new();
    for arena in &layout.arenas {
        let name = names.upper(&arena.space);
        writeln!(text, "/* Space {}. Scratch that the target does not declare is not in it. */", comment(&arena.space))?;
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

/// A number with the least suffix that holds it whatever the width of `int`.
fn literal(value: u64) -> String {
    if u32::try_from(value).is_ok() { format!("{value}UL") } else { format!("{value}ULL") }
}
