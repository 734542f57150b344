//! The text form `.mem`: printer and parser. Printing, parsing and printing again gives equal bytes.
//!
//! Nodes are printed in order, one per line. Values appear under their ONNX names; ids do not appear.
//! `ir/doc/text.md` contains the grammar.
//!
//! # Omissions
//! Raw bytes of constants over [`MAX_INLINE_BYTES`] print as `elided`. Unreachable graphs (bodies of
//! erased nodes) and unused constants do not print.
//!
//! # Untrusted text
//! [`parse`] never panics, allocates at most a fixed multiple of the text length, and recurses at most
//! [`MAX_DEPTH`] levels. Its time is linear in the text length, apart from hash lookups.

mod escape;
mod lexer;
mod parser;
mod printer;

pub use parser::parse;
pub use printer::{print, print_node};

/// Maximum nesting of bodies inside the main graph, and of types inside a type, in the text form.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of raw bytes of a constant that are printed; more bytes are elided.
pub const MAX_INLINE_BYTES: usize = 256;
