//! Codes of the text form: E06xx.

use super::{CodeInfo, Fault};

/// Errors of the text form.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0601",
        title: "a line of the text form cannot be read",
        fault: Fault::File,
        meaning: "The line does not follow the grammar. The message says what was expected and what stands there; the line was \
            skipped and reading went on behind it.",
        example: "%y = Relu(%x : f32[4]",
        action: "Repair the line; `ir/doc/text.md` has the grammar.",
    },
    CodeInfo {
        code: "E0602",
        title: "something is defined twice in the text",
        fault: Fault::File,
        meaning: "A value in its graph, a space, a domain or a dimension has two definitions.",
        example: "%y = Relu(%x) : f32[4]\n%y = Tanh(%x) : f32[4]",
        action: "Rename one of the two.",
    },
    CodeInfo {
        code: "E0603",
        title: "a name is used that is not defined",
        fault: Fault::File,
        meaning: "A value is read that no line above defines in this graph or a graph around it, or a space is named that the \
            header does not have. Aliases and `recompute_of` may name values of their graph that stand below.",
        example: "%y = Relu(%missing) : f32[4]",
        action: "Define it above, or repair the name.",
    },
    CodeInfo {
        code: "E0604",
        title: "a number or constant does not fit",
        fault: Fault::File,
        meaning: "A number is out of range for what it stands for, or a constant does not fill its type.",
        example: "const %w : f32[3] = [1.0, 2.0]",
        action: "Repair the number or the type.",
    },
    CodeInfo {
        code: "E0605",
        title: "the text nests too deep",
        fault: Fault::File,
        meaning: "Bodies or types nest deeper than 64 levels.",
        example: "seq<seq<seq<…",
        action: "Flatten the module.",
    },
    CodeInfo {
        code: "E0606",
        title: "the text is too long",
        fault: Fault::File,
        meaning: "Texts over 4 GiB are not read.",
        example: "a text form with a large constant spelled out",
        action: "Elide large constants, as `memc print` does.",
    },
];
