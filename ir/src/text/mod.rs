//! The text form `.mem`: printer and parser; `parse(print(m))` prints the same again.

mod printer;

pub use printer::{print, print_node};
