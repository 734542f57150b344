//! Codes of the verifier: E02xx.

use super::{CodeInfo, Fault};

/// Errors of the verifier.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0201",
        title: "an id names nothing",
        fault: Fault::Memc,
        meaning: "A graph, a node, a value or the plan holds an id that no map of the module knows. Nothing else was checked.",
        example: "a node with an operand that was never made",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0202",
        title: "a value is not defined where it says",
        fault: Fault::Memc,
        meaning: "A value is defined once: by an input, an initializer or a result of a node. Its own note of where that is \
            must agree with the lists, and it may stand in them only once.",
        example: "the same value as result 0 of two nodes",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0203",
        title: "a value is read before it is defined, or out of scope",
        fault: Fault::Memc,
        meaning: "What a node reads is defined earlier in its own graph, or in a graph around it before the node that holds \
            the body. The same goes for results of graphs.",
        example: "%a = Add(%b, %x)\n%b = Relu(%x)",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0204",
        title: "a name leads to the wrong value",
        fault: Fault::Memc,
        meaning: "Names are how the model is written. Each value has one, no two values of a graph share one, and a body that \
            reads an outer value has no value of that name itself.",
        example: "two results named %y in one graph",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0205",
        title: "bodies do not form a tree",
        fault: Fault::Memc,
        meaning: "The main graph has no parent; every other graph stands in exactly one attribute of one node, which is its \
            parent, and bodies nest at most 64 levels.",
        example: "one body used as both branches of If",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0206",
        title: "a list of nodes is wrong",
        fault: Fault::Memc,
        meaning: "A node stands in one list, once, in the graph that it names, and erased nodes stand in none.",
        example: "a schedule that lists a node twice",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0207",
        title: "a node recomputes nothing that is there",
        fault: Fault::Memc,
        meaning: "A node that is marked as computing another node's results again must name a node that stands in its graph or \
            one around it, and has a result.",
        example: "%b.1 = Relu(%a) recompute_of(%b), after %b was erased",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0211",
        title: "a constant's bytes do not fit its type",
        fault: Fault::Memc,
        meaning: "Raw bytes of a constant are exactly as many as its element type and dimensions take.",
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
        meaning: "A value shares bytes with itself over a chain of aliases, with a value that was erased, or with a value that \
            its graph cannot see, or sees only later.",
        example: "%a view(%b), %b view(%a)",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0231",
        title: "an alias does not lie inside what it shares",
        fault: Fault::Memc,
        meaning: "First byte plus size of an alias pass the end of the value whose bytes it shares, or a size is not known.",
        example: "%b : f32[4] view(%a, 8), where %a is f32[4]",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0232",
        title: "an in-place write destroys what is still needed",
        fault: Fault::Memc,
        meaning: "A result may overwrite an operand of its own node if both have the same size, nobody reads the operand or \
            another value in those bytes afterwards, and the bytes are not a constant's or the caller's.",
        example: "%b = Relu(%a) : f32[4] in_place(%a)\n%c = Add(%a, %b) : f32[4]",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0240",
        title: "a place is not aligned",
        fault: Fault::Memc,
        meaning: "The offset of an owner is a multiple of the alignment of its space. Aliases lie wherever their owner puts \
            them.",
        example: "@device+0x10 in a space of alignment 64",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
    CodeInfo {
        code: "E0241",
        title: "a place lies outside its arena",
        fault: Fault::Memc,
        meaning: "Offset plus size pass the end of the arena; for a value of a body, the end of the scratch that its node has \
            for bodies.",
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
        title: "an alias does not lie where its owner puts it",
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
        meaning: "An arena is as large as the highest end of what lies in it, there is one for each space in use, and it is \
            not smaller than the bound that the plan claims.",
        example: "arena @device size 1KiB, while everything ends at 512",
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
        title: "something cannot be placed or is not",
        fault: Fault::Memc,
        meaning: "A value has a place but no known size, scratch of a node of the main graph has no place, or a node has \
            scratch that is in no list.",
        example: "%s : string[3] @device+0x0",
        action: "If a pass made the module, this is a defect of that pass: run again with `--print-ir-after all` and report \
            the first module that fails. If it was read from a text form, repair the text.",
    },
];
