//! The text form `.mem`: printer and parser; printing what was parsed from a print gives the same bytes again.
//!
//! Order of lines is order of nodes. Names are those of ONNX; ids never show. The grammar is in `ir/doc/text.md`.
//!
//! # What the text leaves out
//! Raw bytes of constants over [`MAX_INLINE_BYTES`] print as `elided`. Graphs that nothing reaches any more (bodies of erased nodes) and
//! constants that nothing refers to do not print at all.
//!
//! # Untrusted text
//! [`parse`] never panics, allocates no more than a fixed multiple of the text's length, and recurses at most [`MAX_DEPTH`] levels. It is
//! linear in the length of the text, up to hash lookups.

mod escape;
mod lexer;
mod parser;
mod printer;

pub use parser::parse;
pub use printer::{print, print_node};

/// Deepest nesting of bodies inside the main graph, and of types inside a type, that the text form reads and writes.
pub const MAX_DEPTH: usize = 64;

/// Raw bytes of constants up to this many are written out; longer ones are elided.
pub const MAX_INLINE_BYTES: usize = 256;
