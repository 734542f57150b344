//! All fuzz targets by name.

use crate::planning::Searching;
use crate::{arrays, described, layout, model, module, order, place, problem_file, text};

/// What a target does with the bytes of a case.
pub type Target = fn(&[u8]);

/// Names of targets, and what they run.
pub const TARGETS: &[(&str, Target)] = &[
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
