//! The text form: a parsed module can be printed, and the printed text parses and prints to equal text.

use memc::memc_ir::{Module, Stage, text, verify};

use crate::planning;

/// Maximum number of nodes of a module that is also planned. Longer modules are only read.
const MAX_PLANNED: usize = 120;

/// Reads bytes as text. A module is printed twice, verified at every stage, and planned if it is valid.
pub fn parse_text(bytes: &[u8]) {
    let source = String::from_utf8_lossy(bytes);
    let module = match text::parse(&source) {
        Ok(module) => module,
        Err(errors) => return assert!(!errors.is_empty(), "refused without a word"),
    };
    round_trip(&module);
    let sound = Stage::ALL.map(|stage| verify(&module, stage).is_ok());
    assert!(
        sound.is_sorted_by(|early, late| early >= late),
        "a later stage holds and an earlier one does not: {sound:?}"
    );
    if sound[Stage::Planned as usize] && module.stage <= Stage::Typed && module.nodes().len() <= MAX_PLANNED {
        planning::infer_and_plan(module);
    }
}

/// Checks that the module's text parses, and prints as equal text again.
pub fn round_trip(module: &Module) {
    let first = text::print(module);
    let parsed = text::parse(&first)
        .unwrap_or_else(|errors| panic!("{}\ndoes not parse:\n{first}", planning::show(&errors)));
    let second = text::print(&parsed);
    assert!(first == second, "printed:\n{first}\nand again:\n{second}");
}
