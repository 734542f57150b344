//! All fuzz targets in one binary, which links memc once: `MEMC_FUZZ` names the target, and without it the
//! names are printed.
#![no_main]

use std::sync::OnceLock;

use memc_fuzz::planning::Searching;
use memc_fuzz::{arrays, described, layout, model, module, order, place, problem_file, text};

/// What a target does with the bytes of a case.
type Target = fn(&[u8]);

/// Names of targets, and what they run.
const TARGETS: &[(&str, Target)] = &[
    // Arbitrary text as a module.
    ("parse_text", text::parse_text),
    // Arbitrary bytes as a model file.
    ("import_onnx", model::import_onnx),
    // Models built from bytes, message by message: most of them decode, and many are planned.
    ("make_onnx", model::make_onnx),
    // Modules and plans built from bytes, valid or not, under the verifier.
    ("verify_any", module::verify_any),
    // Damaged layouts under the checker and the reports.
    ("check_layout", layout::check_layout),
    // Equal forms, regions in parts, and plans within limits, for models built from bytes. The verifier
    // checks every intermediate module.
    ("rewrite", |bytes| model::search(bytes, Searching::Rewrite)),
    ("split", |bytes| model::search(bytes, Searching::Split)),
    ("budget", |bytes| model::search(bytes, Searching::Budget)),
    // Placement and ordering problems built from bytes, against the checker and an exhaustive search.
    ("place", place::place),
    ("order", order::order),
    // Arbitrary text as problem files.
    ("read_problem", problem_file::read_problem),
    // Arbitrary bytes as an archive of arrays.
    ("read_npz", arrays::read_npz),
    // Arbitrary text as a target file, a profile, and values of options.
    ("read_target", described::read_target),
];

/// Target of this run.
static TARGET: OnceLock<Target> = OnceLock::new();

/// Finds the target that the environment names; without one, prints all names and exits.
fn choose() {
    let name = std::env::var("MEMC_FUZZ").unwrap_or_default();
    match TARGETS.iter().find(|(other, _)| *other == name) {
        Some((_, target)) => {
            let _ = TARGET.set(*target);
        }
        None => {
            TARGETS.iter().for_each(|(name, _)| println!("{name}"));
            std::process::exit(if name.is_empty() { 0 } else { 2 });
        }
    }
}

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(bytes);
    }
});
