//! Codes of the verifier: E02xx.

use super::{CodeInfo, Fault};

/// Errors of the verifier.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0201",
        title: "an id names nothing",
        fault: Fault::Memc,
        meaning: "A graph, a node, a value or the plan holds an id that no map of the module has. Nothing else was checked.",
        example: "a node with an operand that does not exist",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0202",
        title: "a value and its definition disagree",
        fault: Fault::Memc,
        meaning: "A value is defined once: by an input, an initializer or a result of a node. The definition that the value \
            states must agree with the lists, and the value may occur in them only once.",
        example: "one value as result 0 of two nodes",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0203",
        title: "a value is read before it is defined, or out of scope",
        fault: Fault::Memc,
        meaning: "The operands of a node, and the results of a graph, must be defined earlier in their own graph, or in a graph \
            around it before the node that holds the body.",
        example: "%a = Add(%b, %x)\n%b = Relu(%x)",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0204",
        title: "a name leads to the wrong value",
        fault: Fault::Memc,
        meaning: "The written model identifies values by name. Each value has a name, no two values of a graph share one, and a \
            body that reads an outer value has no value of that name itself.",
        example: "two results named %y in one graph",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0205",
        title: "bodies do not form a tree",
        fault: Fault::Memc,
        meaning: "The main graph has no parent; every other graph belongs to exactly one attribute of one node, which is its \
            parent, and bodies nest at most 64 levels.",
        example: "one body used as both branches of If",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0206",
        title: "a list of nodes is wrong",
        fault: Fault::Memc,
        meaning: "A node is in one list, once, in the graph that it names, and erased nodes are in no list.",
        example: "a schedule that lists a node twice",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0207",
        title: "a node recomputes a missing node",
        fault: Fault::Memc,
        meaning: "A node that is marked as a recomputation must name an original node that is in its graph or a graph around it \
            and has a result.",
        example: "%b.1 = Relu(%a) recompute_of(%b), after %b was erased",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0211",
        title: "a constant's bytes do not fit its type",
        fault: Fault::Memc,
        meaning: "The raw bytes of a constant must have exactly the size of its element type and dimensions.",
        example: "f32[4] with 12 bytes",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0212",
        title: "an initializer contradicts its constant",
        fault: Fault::Memc,
        meaning: "The type of an initializer, or of an input with a default, and the type of the constant cannot both be true.",
        example: "const %w : f32[2,3] = tensor i64[6] [1, 2, 3, 4, 5, 6]",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0230",
        title: "an alias is not possible",
        fault: Fault::Memc,
        meaning: "A value is an alias of itself through a chain of aliases, of an erased value, or of a value that its graph does \
            not see before it.",
        example: "%a view(%b), %b view(%a)",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0231",
        title: "an alias exceeds its owner",
        fault: Fault::Memc,
        meaning: "The alias ends beyond the end of the value whose bytes it shares, or a size is unknown.",
        example: "%b : f32[4] view(%a, 8) of %a : f32[4]",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0232",
        title: "an in-place write destroys bytes that are still needed",
        fault: Fault::Memc,
        meaning: "A result may overwrite an operand of its own node if both have one size, no later node reads the operand or \
            another value in these bytes, and the bytes belong neither to a constant nor to the caller.",
        example: "%b = Relu(%a) : f32[4] in_place(%a)\n%c = Add(%a, %b) : f32[4]",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0240",
        title: "a place is not aligned",
        fault: Fault::Memc,
        meaning: "The offset of an owner is a multiple of the alignment of its space. Aliases follow their owner.",
        example: "@device+0x10 in a space of alignment 64",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0241",
        title: "a place lies outside its arena",
        fault: Fault::Memc,
        meaning: "The value ends beyond the end of the arena; for a value of a body, beyond the scratch of its node for bodies.",
        example: "64 bytes at @device+0x40 in an arena of 96 bytes",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0242",
        title: "two live values overlap",
        fault: Fault::Memc,
        meaning: "Two owners lie in the same bytes at a step at which both are live. Scratch counts for the step of its node.",
        example: "%a @device+0x0 and %b @device+0x0, both read by one node",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0243",
        title: "an alias and its owner are placed apart",
        fault: Fault::Memc,
        meaning: "An alias has the place of its owner plus its offset, and no place if the owner has none.",
        example: "%a @device+0x0, %b view(%a, 16) @device+0x20",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0244",
        title: "the size of an arena is not exact",
        fault: Fault::Memc,
        meaning: "An arena ends at the highest end of the buffers in it, each space in use has one arena, and an arena is not \
            smaller than the lower bound that the plan states.",
        example: "arena @device size 1KiB, while the last buffer ends at 512",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0245",
        title: "a memory space is not usable",
        fault: Fault::File,
        meaning: "Spaces have different names and an alignment of at least 1.",
        example: "space @device alignment 0",
        action: "Repair the description of the target.",
    },
    CodeInfo {
        code: "E0246",
        title: "a place is missing or not possible",
        fault: Fault::Memc,
        meaning: "A value has a place but no known size, scratch of a node of the main graph has no place, or an erased node has \
            scratch.",
        example: "%s : string[3] @device+0x0",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
];
