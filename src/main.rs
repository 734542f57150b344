//! The `memc` command.
fn main() {}
