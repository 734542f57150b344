//! Codes of the text form: E06xx.

use super::{CodeInfo, Fault};

/// Errors of the text form.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0601",
        title: "a line of the text form cannot be read",
        fault: Fault::File,
        meaning: "The line does not follow the grammar. The message states the expected and the found text; the parser skipped the \
            line and went on.",
        example: "%y = Relu(%x : f32[4]",
        action: "Repair the line; `ir/doc/text.md` has the grammar.",
    },
    CodeInfo {
        code: "E0602",
        title: "a name is defined twice in the text",
        fault: Fault::File,
        meaning: "A value in its graph, a space, a domain or a dimension has two definitions.",
        example: "%y = Relu(%x) : f32[4]\n%y = Tanh(%x) : f32[4]",
        action: "Rename one of the two.",
    },
    CodeInfo {
        code: "E0603",
        title: "a name is not defined",
        fault: Fault::File,
        meaning: "A line reads a value that no line above defines in this graph or a graph around it, or names a space that the \
            header does not define. Aliases and `recompute_of` may name values of their graph that are defined below.",
        example: "%y = Relu(%missing) : f32[4]",
        action: "Define the name above the line, or correct it.",
    },
    CodeInfo {
        code: "E0604",
        title: "a number or constant does not fit",
        fault: Fault::File,
        meaning: "A number is out of the range of its field, or a constant does not fill its type.",
        example: "const %w : f32[3] = [1.0, 2.0]",
        action: "Repair the number or the type.",
    },
    CodeInfo {
        code: "E0605",
        title: "the text nests too deeply",
        fault: Fault::File,
        meaning: "Bodies or types nest deeper than 64 levels.",
        example: "seq<seq<seq<…",
        action: "Flatten the module.",
    },
    CodeInfo {
        code: "E0606",
        title: "the text is too long",
        fault: Fault::File,
        meaning: "memc does not read texts over 4 GiB.",
        example: "a text form with a large constant spelled out",
        action: "Leave the elements of large constants out, as `memc print` does.",
    },
];
