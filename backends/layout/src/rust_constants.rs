//! A layout as Rust constants: how big the arenas must be, and where every tensor lies in them.

use std::fmt::Write as _;

use crate::{
    identifiers::{Identifiers, comment, hexadecimal, shape},
    types::{Class, Layout},
};

/// The plan as constants of a Rust module that uses nothing but `core`.
///
/// - `MODEL_SHA256`: the model file that the plan belongs to.
/// - `ARENA_<SPACE>_SIZE` and `ARENA_<SPACE>_ALIGNMENT`, in bytes.
/// - `TENSOR_<NAME>`: the tensor's bytes as a range that slices its arena; `SIZE_<NAME>` for graph inputs, outputs and state that the
///   caller holds.
///
/// Names become upper-case identifiers; a number is added where two would be the same. Every range is held inside its arena at
/// compile time, and a plan too big for the machine's `usize` does not compile.
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
    let mut arenas = Vec::new();
    let mut names = Identifiers::default();
    for arena in &layout.arenas {
        let name = names.upper(&arena.space);
        writeln!(
            text,
            "\n/// Bytes of the arena of space {}, without scratch that the target does not declare.",
            comment(&arena.space)
        )?;
        writeln!(text, "pub const ARENA_{name}_SIZE: usize = {};", arena.size)?;
        writeln!(text, "/// What the address of that arena must be a multiple of.")?;
        writeln!(text, "pub const ARENA_{name}_ALIGNMENT: usize = {};", arena.alignment)?;
        writeln!(text, "const _: () = assert!(ARENA_{name}_ALIGNMENT.is_power_of_two());")?;
        arenas.push((&arena.space, name));
    }
    let mut names = Identifiers::default();
    for tensor in &layout.tensors {
        let about = format!("{}: {} {}", comment(&tensor.name), comment(&tensor.dtype), shape(&tensor.shape));
        match tensor.space.as_ref().zip(tensor.offset) {
            Some((space, offset)) => {
                let name = names.upper(&tensor.name);
                write!(text, "\n/// `{about}`, {} in {}", tensor.class.as_str(), comment(space))?;
                for range in &tensor.live {
                    write!(text, ", steps {}..{}", range.start, range.end)?;
                }
                writeln!(text, ".\npub const TENSOR_{name}: core::ops::Range<usize> = {offset}..{offset} + {};", tensor.bytes)?;
                if let Some((_, arena)) = arenas.iter().find(|(known, _)| *known == space) {
                    writeln!(text, "const _: () = assert!(TENSOR_{name}.end <= ARENA_{arena}_SIZE);")?;
                }
            }
            None if matches!(tensor.class, Class::Input | Class::Output | Class::State) => {
                let name = names.upper(&tensor.name);
                writeln!(text, "\n/// Bytes of `{about}`, {} of the caller.", tensor.class.as_str())?;
                writeln!(text, "pub const SIZE_{name}: usize = {};", tensor.bytes)?;
            }
            None => {}
        }
    }
    Ok(())
}
