//! Prints the operator table as text: one line per operator, or one page about a single operator.

use std::fmt::Write as _;

use crate::info::{Gathers, InPlace, OpInfo, Reads, Repeat, Rounding, Scalar, SplitAxes, View, Work, Workspace};
use crate::profile::{Kernels, Profile};
use crate::table::all;

/// Column headings of [`table_text`].
const HEADINGS: [&str; 8] = ["domain", "operator", "in place", "view", "split", "repeat", "work", "workspace"];

/// Prints the whole table: a line of headings, then one line per operator, sorted by domain and name,
/// with aligned columns.
pub fn table_text() -> String {
    let rows: Vec<[String; 8]> = std::iter::once(HEADINGS.map(str::to_owned)).chain(all().iter().map(|info| row(info))).collect();
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
        workspace(info.workspace).to_owned(),
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
        ("work", work_words(info.work)),
        ("workspace", workspace_words(info.workspace).to_owned()),
    ];
    for (name, words) in facts {
        let _ = writeln!(text, "  {name:9}  {words}");
    }
    // Facts that few operators have.
    if let Some(words) = scalar_words(info.scalar) {
        let _ = writeln!(text, "  {:9}  {words}", "scalar");
    }
    if matches!(info.gathers, Gathers::Elements(_)) {
        let _ = writeln!(text, "  {:9}  what its windows cover, before it multiplies", "gathers");
    }
    if info.rate != 100 {
        let _ = writeln!(text, "  {:9}  {} % of the machine's arithmetic rate", "rate", info.rate);
    }
    if info.reach.is_some() {
        let _ = writeln!(text, "  {:9}  shares of rows of images overlap in operand 0 as far as windows go", "reaches");
    }
    if info.rounding == Rounding::FewBits {
        let _ = writeln!(text, "  {:9}  to integers of few bits", "rounds");
    }
    if info.unit_scale {
        let _ = writeln!(text, "  {:9}  results near zero are off by roundings of one", "scale");
    }
    if let Some(kernel) = info.runs {
        let _ = writeln!(text, "  {:9}  the kernel of {kernel}, as far as times and workspace go", "runs");
    }
    if let Some(words) = reads_words(info.reads) {
        let _ = writeln!(text, "  {:9}  {words}", "reads");
    }
    // Rules of each runtime.
    for profile in Profile::ALL {
        let _ = writeln!(text, "  --runtime {:6}  {}", profile.name, runtime_words(profile, info));
    }
    text
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
            format!("result 0 may overwrite operand {} of its size, if nothing reads that later", list(positions))
        }
        InPlace::Any => "result 0 may overwrite any operand of its size, if nothing reads that later".to_owned(),
        InPlace::UnlessTraining => "result 0 may overwrite operand 0, unless it runs in training mode".to_owned(),
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
        View::None => "results have bytes of their own",
        View::Reshape => "result 0 has exactly the bytes of operand 0",
        View::SameType => "result 0 has exactly the bytes of operand 0 where both have one element type",
        View::Concat => "operands can be windows of the result, where each is contiguous in it",
        View::Split => "results can be windows of operand 0, where each is contiguous in it",
        View::Slice => "the result can be a window of operand 0, where it is contiguous in it",
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
        SplitAxes::None => "cannot be computed piece by piece",
        SplitAxes::All => "can be computed piece by piece along every axis",
        SplitAxes::AllButAxis => "can be computed piece by piece along every axis but the one that attribute `axis` names",
        SplitAxes::Batch => "can be computed piece by piece along the first axis",
        SplitAxes::AllButLast => "can be computed piece by piece along every axis but the last",
        SplitAxes::Rule(_) => "can be computed piece by piece along the axes that a rule of its own finds",
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
        Repeat::Yes => "gives the same results when it runs again",
        Repeat::Random => "never runs twice: it draws random numbers",
        Repeat::Updating => "never runs twice: it writes into its first operand",
        Repeat::Stateful => "never runs twice: it changes or exchanges state",
        Repeat::UnlessTraining => "gives the same results when it runs again, unless it runs in training mode",
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
        Work::None => "moves data, no arithmetic".to_owned(),
        Work::PerElement(count) => format!("{count} operations for each element of result 0"),
        Work::PerInputElement(count) => format!("{count} operations for each element of operand 0"),
        Work::Flops(_) => "a formula over extents".to_owned(),
        Work::Bodies => "what its bodies do".to_owned(),
    }
}

fn scalar_words(value: Scalar) -> Option<String> {
    match value {
        Scalar::None => None,
        Scalar::PerElement(count) => Some(format!("{count} steps without vectors for each element of result 0")),
        Scalar::Count(_) => Some("steps without vectors, by a formula over extents".to_owned()),
    }
}

fn reads_words(value: Reads) -> Option<String> {
    match value {
        Reads::All => None,
        Reads::Picked(positions) => Some(format!("of operand {} no more than result 0 holds", list(positions))),
        Reads::Extents => Some("of operand 0 only the extents".to_owned()),
    }
}

fn workspace(value: Workspace) -> &'static str {
    match value {
        Workspace::None => "-",
        Workspace::Bytes(_) => "formula",
    }
}

fn workspace_words(value: Workspace) -> &'static str {
    match value {
        Workspace::None => "needs none",
        Workspace::Bytes(_) => "a formula over extents",
    }
}

/// Describes the rules of one runtime for an operator: in-place writes, views and workspace.
fn runtime_words(profile: &Profile, info: &OpInfo) -> String {
    let overwrites = match profile.kernels {
        Kernels::AllBut(excluded) if excluded.contains(&(info.domain, info.name)) => "-".to_owned(),
        Kernels::All | Kernels::AllBut(_) => in_place(info.in_place),
        Kernels::Listed(kernels) => {
            let own = kernels.iter().filter(|kernel| (kernel.domain, kernel.name) == (info.domain, info.name));
            let positions: Vec<usize> = own.map(|kernel| kernel.operand).collect();
            if positions.is_empty() { "-".to_owned() } else { list(&positions) }
        }
    };
    let shares = match info.view {
        View::Reshape => true,
        View::SameType => profile.same_type_views,
        View::Concat | View::Split | View::Slice => profile.windows,
        View::None => false,
    };
    let expanded = info.domain.is_empty() && profile.expanded.contains(&info.name);
    let note = if expanded { ", runs as several nodes" } else { "" };
    format!("in place {overwrites}, view {}{note}", if shares { view(info.view) } else { "-" })
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
        assert_eq!(relu.split_whitespace().collect::<Vec<_>>(), ["ai.onnx", "Relu", "0", "-", "all", "yes", "1/result", "-"]);
    }

    #[test]
    fn a_page_says_what_runtimes_do() {
        let page = describe(find("com.microsoft", "Gelu").unwrap());
        assert!(page.starts_with("com.microsoft::Gelu\n"), "{page}");
        assert!(page.contains("--runtime arena   in place 0, view -\n"), "{page}");
        assert!(page.contains("--runtime ort     in place -, view -\n"), "{page}");
        let conv = describe(find("com.microsoft", "FusedConv").unwrap());
        assert!(conv.contains("--runtime ort     in place 3"), "{conv}");
        assert!(describe(find("", "Gather").unwrap()).contains("  reads      of operand 0 no more than result 0 holds\n"));
        let draw = describe(find("com.microsoft", "BiasDropout").unwrap());
        assert!(draw.contains("never runs twice: it draws random numbers"), "{draw}");
    }
}
