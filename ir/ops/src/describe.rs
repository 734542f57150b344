//! Prints the operator table as text: one line per operator, or one page about a single operator.

use std::fmt::Write as _;

use memc_ir::{Bytes, ElementType};

use crate::algebra::{Algebra, AtZero, Neutral};
use crate::gradient::{Gradient, gradient_named};
use crate::info::{Gathers, InPlace, Linear, OpInfo, Reads, Repeat, Rounding, Scalar, SplitAxes, View, Work};
use crate::inverse::{Inverse, inverse_named};
use crate::profile::{Kernels, Overwrites, Profile, ort_kernel};
use crate::table::all;

/// Column headings of [`table_text`].
const HEADINGS: [&str; 8] =
    ["domain", "operator", "in place", "view", "split", "repeat", "work", "workspace"];

/// Prints the whole table: a line of headings, then one line per operator, sorted by domain and name,
/// with aligned columns.
pub fn table_text() -> String {
    let rows: Vec<[String; 8]> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(all().iter().map(|info| row(info))).collect();
    let mut widths = [0; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(info: &OpInfo) -> [String; 8] {
    [
        domain(info).to_owned(),
        info.name.to_owned(),
        in_place(info.in_place),
        view(info.view).to_owned(),
        split(info.split).to_owned(),
        repeat(info.repeat).to_owned(),
        work(info.work),
        info.workspace.map_or("-", |_| "formula").to_owned(),
    ]
}

/// Prints the page about one operator: one line per known fact, then the rules of each runtime for the
/// operator.
pub fn describe(info: &OpInfo) -> String {
    let mut text = format!("{}::{}\n", domain(info), info.name);
    // Facts that every operator has.
    let facts = [
        ("in place", in_place_words(info.in_place)),
        ("view", view_words(info.view).to_owned()),
        ("split", split_words(info.split).to_owned()),
        ("repeat", repeat_words(info.repeat).to_owned()),
        ("algebra", info.algebra.map_or_else(|| "not stated".to_owned(), algebra_words)),
        ("gradient", gradient_words(info).to_owned()),
        ("work", work_words(info.work)),
        ("workspace", info.workspace.map_or("none", |_| "a formula over extents").to_owned()),
    ];
    for (name, words) in facts {
        let _ = writeln!(text, "  {name:9}  {words}");
    }
    // Facts that few operators have.
    let few = [
        ("scalar", scalar_words(info.scalar)),
        ("gathers", gathers_words(info.gathers)),
        ("rate", (info.rate != 100).then(|| format!("{} % of the machine's arithmetic rate", info.rate))),
        ("reaches", info.reach.map(|_| REACHES.to_owned())),
        ("linear", linear_words(info.linear)),
        ("rounds", rounding_words(info.rounding)),
        ("scale", info.unit_scale.then(|| UNIT_SCALE.to_owned())),
        ("runs", info.runs.map(|kernel| format!("the kernel of {kernel}, plus element-wise work"))),
        ("reads", reads_words(info.reads)),
        (
            "optional",
            (!info.optional.is_empty()).then(|| format!("a node may omit results {}", list(info.optional))),
        ),
        ("indices", info.indices.map(|_| INDICES.to_owned())),
        ("inverse", inverse_named(info.domain, info.name).map(|inverse| inverse_words(inverse).to_owned())),
    ];
    for (name, words) in few {
        if let Some(words) = words {
            let _ = writeln!(text, "  {name:9}  {words}");
        }
    }
    // Rules of each runtime.
    for profile in Profile::ALL {
        let _ = writeln!(text, "  --runtime {:6}  {}", profile.name, runtime_words(profile, info));
    }
    if let Some(words) = kernel_words(info) {
        let _ = writeln!(text, "  ONNX Runtime's kernel: {words}");
    }
    text
}

/// Words for operators with a rule for rows of images.
const REACHES: &str =
    "rows of images can be computed apart; each part reads the rows of operand 0 that its windows cover";
/// Words for operators with indices as results.
const INDICES: &str =
    "integer results are positions: at least 0, and less than an extent of operand 0 or than its elements";
/// Words for operators with results of unit scale.
const UNIT_SCALE: &str = "the rounding error of a result near zero is that of a number near 1";

fn inverse_words(inverse: Inverse) -> &'static str {
    match inverse {
        Inverse::Sum => "an operand is the result minus the other operand",
        Inverse::Difference => {
            "operand 0 is the result plus operand 1, operand 1 is operand 0 minus the result"
        }
        Inverse::Product => {
            "an operand is the result divided by the other operand, if that is a constant power of two"
        }
        Inverse::Negation => "the operand is the negated result",
        Inverse::Permutation => "the operand is the result with its axes in their old order",
    }
}

fn gradient_words(info: &OpInfo) -> &'static str {
    match gradient_named(info.domain, info.name) {
        Gradient::None => "none known: `memc train` refuses a path through the operator",
        Gradient::Zero => "zero",
        Gradient::FromOperands => "read from operands",
        Gradient::FromResults => "read from results, if from anything: operands need not be kept for it",
    }
}

fn domain(info: &OpInfo) -> &'static str {
    if info.domain.is_empty() { "ai.onnx" } else { info.domain }
}

fn list(positions: &[usize]) -> String {
    positions.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn in_place(value: InPlace) -> String {
    match value {
        InPlace::Never => "-".to_owned(),
        InPlace::Operands(positions) => list(positions),
        InPlace::Any => "any".to_owned(),
        InPlace::UnlessTraining => "0 unless training".to_owned(),
    }
}

fn in_place_words(value: InPlace) -> String {
    match value {
        InPlace::Never => "no operand may be overwritten".to_owned(),
        InPlace::Operands(positions) => {
            format!(
                "result 0 may overwrite operand {}, if the sizes are equal and no later node reads the operand",
                list(positions)
            )
        }
        InPlace::Any => {
            "result 0 may overwrite any operand, if the sizes are equal and no later node reads the operand"
                .to_owned()
        }
        InPlace::UnlessTraining => {
            "result 0 may overwrite operand 0, unless the node runs in training mode".to_owned()
        }
    }
}

fn view(value: View) -> &'static str {
    match value {
        View::None => "-",
        View::Reshape => "reshape",
        View::SameType => "same type",
        View::Concat => "concat",
        View::Split => "split",
        View::Slice => "slice",
    }
}

fn view_words(value: View) -> &'static str {
    match value {
        View::None => "every result has bytes of its own",
        View::Reshape => "result 0 is a view of operand 0: all bytes, in order",
        View::SameType => "result 0 is a view of operand 0, if their element types are equal",
        View::Concat => "operands can be sub-views of result 0, if their bytes are contiguous in it",
        View::Split => "results can be sub-views of operand 0, if their bytes are contiguous in it",
        View::Slice => "result 0 can be a sub-view of operand 0, if its bytes are contiguous in it",
    }
}

fn split(value: SplitAxes) -> &'static str {
    match value {
        SplitAxes::None => "-",
        SplitAxes::All => "all",
        SplitAxes::AllButAxis => "all but axis",
        SplitAxes::Batch => "batch",
        SplitAxes::AllButLast => "all but last",
        SplitAxes::Rule(_) => "some",
    }
}

fn split_words(value: SplitAxes) -> &'static str {
    match value {
        SplitAxes::None => "no axis is known along which it can be computed in parts",
        SplitAxes::All => "can be computed in parts along every axis",
        SplitAxes::AllButAxis => "can be computed in parts along every axis except attribute `axis`",
        SplitAxes::Batch => "can be computed in parts along the first axis",
        SplitAxes::AllButLast => "can be computed in parts along every axis except the last",
        SplitAxes::Rule(_) => {
            "can be computed in parts along some axes, which a rule finds from attributes and extents"
        }
    }
}

fn repeat(value: Repeat) -> &'static str {
    match value {
        Repeat::Yes => "yes",
        Repeat::Random => "random",
        Repeat::Updating => "updating",
        Repeat::Stateful => "stateful",
        Repeat::UnlessTraining => "unless training",
    }
}

fn repeat_words(value: Repeat) -> &'static str {
    match value {
        Repeat::Yes => "gives identical results when it runs again",
        Repeat::Random => "never runs twice: it draws random numbers",
        Repeat::Updating => "never runs twice: it writes into its first operand",
        Repeat::Stateful => "never runs twice: it changes external state or sends data",
        Repeat::UnlessTraining => "gives identical results when it runs again, except in training mode",
    }
}

fn work(value: Work) -> String {
    match value {
        Work::None => "-".to_owned(),
        Work::PerElement(count) => format!("{count}/result"),
        Work::PerInputElement(count) => format!("{count}/operand"),
        Work::Flops(_) => "formula".to_owned(),
        Work::Bodies => "bodies".to_owned(),
    }
}

fn work_words(value: Work) -> String {
    match value {
        Work::None => "no arithmetic: only moves elements".to_owned(),
        Work::PerElement(count) => format!("operations for each element of result 0: {count}"),
        Work::PerInputElement(count) => format!("operations for each element of operand 0: {count}"),
        Work::Flops(_) => "a formula over extents".to_owned(),
        Work::Bodies => "the work of its bodies".to_owned(),
    }
}

fn scalar_words(value: Scalar) -> Option<String> {
    match value {
        Scalar::None => None,
        Scalar::PerElement(count) => {
            Some(format!("steps of one element at a time for each element of result 0: {count}"))
        }
        Scalar::Count(_) => Some("steps of one element at a time, by a formula over extents".to_owned()),
    }
}

fn reads_words(value: Reads) -> Option<String> {
    match value {
        Reads::All => None,
        Reads::Picked(positions) => {
            Some(format!("at most the size of result 0 from operand {}", list(positions)))
        }
        Reads::Extents => Some("only the extents of operand 0".to_owned()),
    }
}

fn gathers_words(value: Gathers) -> Option<String> {
    match value {
        Gathers::None => None,
        Gathers::Elements(_) => {
            Some("the elements under its windows into rows of a matrix, before it multiplies".to_owned())
        }
    }
}

fn linear_words(value: Linear) -> Option<String> {
    match value {
        Linear::No => None,
        Linear::First => Some("in operand 0: a sum of operands gives the sum of their results".to_owned()),
        Linear::All => {
            Some("in all operands together: sums of operands give the sum of their results".to_owned())
        }
    }
}

fn rounding_words(value: Rounding) -> Option<String> {
    match value {
        Rounding::None => None,
        Rounding::Whole => Some("to whole numbers".to_owned()),
        Rounding::FewBits => Some("to integers of few bits".to_owned()),
    }
}

fn algebra_words(algebra: Algebra) -> String {
    let neutral = algebra.neutral.map(|neutral| match neutral {
        Neutral::NegativeZero => "zero is neutral (negative zero bit for bit)",
        Neutral::PositiveZero => "zero is neutral (positive zero bit for bit)",
        Neutral::One => "one is neutral",
        Neutral::AboutOne => "one is neutral up to the last bit",
        Neutral::False => "false is neutral",
    });
    let side = if algebra.commutes { "" } else { " as operand 1" };
    let at_zero = match algebra.at_zero {
        AtZero::Unknown => None,
        AtZero::Finite => Some("zeros give a finite number"),
        AtZero::Zero => Some("zeros give zero"),
    };
    let facts = [
        algebra.commutes.then(|| "two operands commute".to_owned()),
        neutral.map(|words| format!("{words}{side}")),
        algebra.keeps_single.then(|| "one operand alone passes unchanged".to_owned()),
        algebra.idempotent.then(|| "a second application changes nothing".to_owned()),
        algebra.self_inverse.then(|| "a second application undoes the first".to_owned()),
        algebra.nonnegative.then(|| "never below zero".to_owned()),
        at_zero.map(str::to_owned),
        algebra.absorbs_zero.then(|| "one zero gives zero".to_owned()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if facts.is_empty() { "no fact".to_owned() } else { facts.join("; ") }
}

/// Describes the rules of one runtime for an operator: in-place writes, views and workspace.
fn runtime_words(profile: &Profile, info: &OpInfo) -> String {
    let kernel = ort_kernel(info.domain, info.name);
    let overwrites = match profile.kernels {
        Kernels::AllButReadingAgain if kernel.is_some_and(|kernel| kernel.reads_again) => "-".to_owned(),
        Kernels::All | Kernels::AllButReadingAgain => in_place(info.in_place),
        Kernels::Measured => {
            kernel.and_then(|kernel| kernel.in_place).map_or_else(|| "-".to_owned(), measured)
        }
        Kernels::Device(device) => {
            if device.is_in_place(info.domain, info.name) { "0" } else { "-" }.to_owned()
        }
    };
    let shares = match info.view {
        View::Reshape => true,
        View::SameType => profile.same_type_views,
        View::Concat | View::Split | View::Slice => profile.windows,
        View::None => false,
    };
    format!("in place {overwrites}, view {}", if shares { view(info.view) } else { "-" })
}

/// Prints the overwritten operand, with its element types.
fn measured(overwrites: Overwrites) -> String {
    match overwrites.elements {
        [] => overwrites.operand.to_string(),
        elements => format!("{} ({})", overwrites.operand, element_list(elements)),
    }
}

fn element_list(elements: &[ElementType]) -> String {
    elements.iter().map(ElementType::to_string).collect::<Vec<_>>().join(" ")
}

/// Describes how ONNX Runtime's kernel differs from the table entry; `None` if it does not.
fn kernel_words(info: &OpInfo) -> Option<String> {
    let kernel = ort_kernel(info.domain, info.name)?;
    let facts = [
        kernel.extension.map(|elements| format!("outside the ONNX standard, for {}", element_list(elements))),
        kernel.expanded.then(|| "none: the session replaces the node by several nodes".to_owned()),
        kernel.temporaries.map(|_| "temporary memory, by a formula".to_owned()),
        kernel.half_precision.then(|| "computes in half precision".to_owned()),
        (kernel.keeps > 0).then(|| format!("keeps {} after its first run", Bytes(kernel.keeps).exact())),
        kernel.packs.then(|| "repacks constant operands".to_owned()),
        kernel.reads_again.then(|| "reads its operand again after a first result".to_owned()),
        kernel.sums_by_address.then(|| "sums in an order that depends on addresses".to_owned()),
        kernel.blocks.then(|| "takes images in blocks of channels".to_owned()),
        kernel.moves_integers.map(|version| match version {
            1 => "moves 8-bit integers".to_owned(),
            _ => format!("moves 8-bit integers from operator set {version} on"),
        }),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    (!facts.is_empty()).then(|| facts.join("; "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::find;

    #[test]
    fn the_table_has_a_line_for_each_operator() {
        let text = table_text();
        assert_eq!(text.lines().count(), all().len() + 1);
        assert!(text.lines().all(|line| line == line.trim_end()), "no blanks at line ends");
        let relu = text.lines().find(|line| line.starts_with("ai.onnx ") && line.contains(" Relu ")).unwrap();
        assert_eq!(
            relu.split_whitespace().collect::<Vec<_>>(),
            ["ai.onnx", "Relu", "0", "-", "all", "yes", "1/result", "-"]
        );
    }

    #[test]
    fn a_page_states_aliasing_and_kernel_facts_of_each_runtime() {
        let page = describe(find("com.microsoft", "Gelu").unwrap());
        assert!(page.starts_with("com.microsoft::Gelu\n"), "{page}");
        assert!(page.contains("--runtime arena   in place 0, view -\n"), "{page}");
        assert!(page.contains("--runtime ort     in place -, view -\n"), "{page}");
        let conv = describe(find("com.microsoft", "FusedConv").unwrap());
        assert!(conv.contains("--runtime ort     in place 3"), "{conv}");
        assert!(
            describe(find("", "Gather").unwrap())
                .contains("  reads      at most the size of result 0 from operand 0\n")
        );
        let draw = describe(find("com.microsoft", "BiasDropout").unwrap());
        assert!(draw.contains("never runs twice: it draws random numbers"), "{draw}");
        assert!(page.contains("  algebra    zeros give zero\n"), "{page}");
        let kernel = "  ONNX Runtime's kernel: outside the ONNX standard, for f32; reads its operand again after a first result; takes";
        assert!(page.contains(kernel), "{page}");
    }

    #[test]
    fn a_page_says_which_laws_hold() {
        let words = |name: &str| {
            let page = describe(find("", name).unwrap());
            page.lines().find_map(|line| line.strip_prefix("  algebra    ")).unwrap().to_owned()
        };
        assert_eq!(
            words("Add"),
            "two operands commute; zero is neutral (negative zero bit for bit); zeros give zero"
        );
        assert_eq!(words("Div"), "one is neutral as operand 1");
        assert_eq!(words("Max"), "two operands commute; one operand alone passes unchanged; zeros give zero");
        assert_eq!(words("Relu"), "a second application changes nothing; never below zero; zeros give zero");
        assert_eq!(words("Not"), "a second application undoes the first; zeros give a finite number");
        assert_eq!(words("Log"), "no fact");
        assert_eq!(words("Gather"), "not stated");
    }
}
