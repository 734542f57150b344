//! Development tasks: set up what the tests need, run them, regenerate the protobuf messages.
fn main() {}
