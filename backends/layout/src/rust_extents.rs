//! Functions of a Rust module that compute sizes and offsets at the extents of a run.

use std::fmt::{Result, Write as _};

use crate::expr::Style;
use crate::extents::{Amount, ExtentPlan};
use crate::identifiers::comment;
use crate::types::Layout;

/// Arithmetic of expressions: a quotient that rounds down, with a divisor of at least 1.
const ARITHMETIC: &str = "\
fn floor(of: i64, by: i64) -> i64 {
    of.div_euclid(if by < 1 { 1 } else { by })
}
fn min(left: i64, right: i64) -> i64 {
    if left < right { left } else { right }
}
fn max(left: i64, right: i64) -> i64 {
    if left > right { left } else { right }
}
fn bytes(value: i64) -> usize {
    if value < 0 { 0 } else { value as usize }
}
";

/// Source text of the two ways to place tensors.
const PLACEMENTS: &str = "
/// Offsets and arenas at the extents of a run, by the formula: small extents need small arenas. `None` if
/// the plan is not made for these extents.
pub fn placement_at(at: &Extents) -> Option<Placement> {
    if !at.is_planned() {
        return None;
    }
    let mut placement = Placement { sizes: sizes_at(at), offsets: [0; TENSOR_COUNT], arenas: [0; ARENA_COUNT] };
    for (arena, tensor, below) in ROWS {
        let (mut top, step) = (0, ALIGNMENTS[*arena]);
        for other in below.iter() {
            top = top.max(placement.offsets[*other] + placement.sizes[*other]);
        }
        let (offset, size) = (top.div_ceil(step) * step, placement.sizes[*tensor]);
        placement.offsets[*tensor] = offset;
        if size > 0 {
            placement.arenas[*arena] = placement.arenas[*arena].max(offset + size);
        }
    }
    place_aliases(at, &mut placement.offsets);
    Some(placement)
}

/// Fixed offsets and arenas of the smallest bucket that holds the extents of a run. `None` if the plan is not
/// made for these extents.
pub fn fixed_placement_at(at: &Extents) -> Option<Placement> {
    if !at.is_planned() {
        return None;
    }
    let (offsets, arenas) = FIXED[bucket_at(at)];
    let mut placement = Placement { sizes: sizes_at(at), offsets, arenas };
    place_aliases(at, &mut placement.offsets);
    Some(placement)
}
";

/// Writes the functions, if dimensions are free. `names` has an identifier for each tensor with a constant.
pub(crate) fn write_extents(layout: &Layout, names: &[(usize, String)], text: &mut String) -> Result {
    let Some(plan) = ExtentPlan::of(layout) else { return Ok(()) };
    writeln!(
        text,
        "\n/// Extents of the free dimensions in a run. Constants hold for the largest extents, functions for these.\n\
         #[derive(Clone, Copy, Debug)]\npub struct Extents {{"
    )?;
    for dimension in &plan.dimensions {
        let range = dimension.extents;
        writeln!(
            text,
            "    /// `{}`: {} to {} in steps of {}.",
            comment(&dimension.name),
            range.min,
            range.max,
            range.step
        )?;
        writeln!(text, "    pub {}: i64,", dimension.field)?;
    }
    writeln!(text, "}}\n\n{ARITHMETIC}")?;
    write_test(&plan, text)?;
    for (index, name) in names {
        let Some(Amount::Expr(at)) = plan.sizes.get(*index) else { continue };
        let name = name.to_ascii_lowercase();
        writeln!(
            text,
            "/// Size of this tensor in bytes at the extents of a run.\npub fn bytes_{name}(at: &Extents) -> usize {{"
        )?;
        writeln!(text, "    let _ = at;\n    bytes({})\n}}", expr(&plan, *at))?;
    }
    let (tensors, arenas) = (layout.tensors.len(), layout.arenas.len());
    writeln!(
        text,
        "/// Number of tensors.\npub const TENSOR_COUNT: usize = {tensors};\n/// Number of arenas.\n\
         pub const ARENA_COUNT: usize = {arenas};\n\n\
         /// Sizes and offsets of all tensors in the order of `TENSORS`, and sizes of the arenas.\n\
         /// Offsets of tensors that the caller holds are 0.\n\
         #[derive(Clone, Copy, Debug)]\npub struct Placement {{\n    pub sizes: [usize; TENSOR_COUNT],\n    \
         pub offsets: [usize; TENSOR_COUNT],\n    pub arenas: [usize; ARENA_COUNT],\n}}\n\n\
         /// Sizes of all tensors in bytes, in the order of `TENSORS`.\n\
         pub fn sizes_at(at: &Extents) -> [usize; TENSOR_COUNT] {{\n    let _ = at;"
    )?;
    write_variables(&plan, &plan.sizes, text)?;
    let sizes: Vec<String> = plan.sizes.iter().map(|size| amount(*size)).collect();
    writeln!(text, "    [{}]\n}}\n", sizes.join(", "))?;
    write_tables(layout, &plan, text)?;
    text.push_str(PLACEMENTS);
    Ok(())
}

/// Returns the text of an expression.
fn expr(plan: &ExtentPlan, at: usize) -> String {
    let field = |name: &str| {
        let found = plan.dimensions.iter().find(|dimension| dimension.name == name);
        found.map_or_else(|| "0".to_owned(), |dimension| format!("at.{}", dimension.field))
    };
    let style = Style {
        number: &|value| format!("{value}"),
        dimension: &field,
        floor: "floor",
        min: "min",
        max: "max",
    };
    plan.exprs.get(at).map_or_else(|| "0".to_owned(), |expr| expr.write(&style))
}

/// Returns the text of a number of bytes; expressions are variables.
fn amount(amount: Amount) -> String {
    match amount {
        Amount::Number(value) => value.to_string(),
        Amount::Expr(at) => format!("e{at}"),
    }
}

/// Declares a variable for each expression in some amounts.
fn write_variables<'a>(
    plan: &ExtentPlan,
    amounts: impl IntoIterator<Item = &'a Amount>,
    text: &mut String,
) -> Result {
    let positions = amounts.into_iter().filter_map(|amount| match amount {
        Amount::Expr(at) => Some(*at),
        Amount::Number(_) => None,
    });
    for at in positions.collect::<std::collections::BTreeSet<usize>>() {
        writeln!(text, "    let e{at} = bytes({});", expr(plan, at))?;
    }
    Ok(())
}

/// Writes the test whether the plan is made for some extents.
fn write_test(plan: &ExtentPlan, text: &mut String) -> Result {
    writeln!(text, "impl Extents {{\n    /// Whether the plan is made for these extents.")?;
    writeln!(text, "    pub fn is_planned(&self) -> bool {{\n        let at = self;")?;
    let ranges = plan.dimensions.iter().map(|dimension| {
        let (field, range) = (&dimension.field, dimension.extents);
        let step = range.step.max(1);
        let on_step =
            if step > 1 { format!(" && (at.{field} - {}) % {step} == 0", range.min) } else { String::new() };
        format!("({}..={}).contains(&at.{field}){on_step}", range.min, range.max)
    });
    let limits = plan.limits.iter().map(|(of, most)| format!("({}) <= {most}", expr(plan, *of)));
    let all: Vec<String> = ranges.chain(limits).collect();
    writeln!(text, "        {}\n    }}\n}}\n", all.join("\n            && "))
}

/// Writes the rows of the formula, the fixed offsets, and the places of aliases.
fn write_tables(layout: &Layout, plan: &ExtentPlan, text: &mut String) -> Result {
    let alignments: Vec<u64> = layout.arenas.iter().map(|arena| arena.alignment.max(1)).collect();
    writeln!(text, "const ALIGNMENTS: [usize; ARENA_COUNT] = {alignments:?};")?;
    writeln!(text, "/// Arena, tensor, and the tensors that it lies on, in the order of evaluation.")?;
    writeln!(text, "const ROWS: &[(usize, usize, &[usize])] = &[")?;
    for (arena, rows) in plan.rows.iter().enumerate() {
        for (tensor, below) in rows {
            writeln!(text, "    ({arena}, {tensor}, &{below:?}),")?;
        }
    }
    writeln!(text, "];\n/// Offsets and arenas of each bucket, and last the main ones.")?;
    writeln!(text, "const FIXED: &[([usize; TENSOR_COUNT], [usize; ARENA_COUNT])] = &[")?;
    for fixed in &plan.fixed {
        writeln!(text, "    ({:?}, {:?}),", fixed.offsets, fixed.arenas)?;
    }
    let buckets = plan.fixed.len() - 1;
    writeln!(
        text,
        "];\n\n/// Number of buckets.\npub const BUCKET_COUNT: usize = {buckets};\n\
         /// Number of the smallest bucket that holds the extents, or `BUCKET_COUNT`: main offsets.\n\
         pub fn bucket_at(at: &Extents) -> usize {{\n    let _ = at;"
    )?;
    for (number, bucket) in plan.fixed.iter().take(buckets).enumerate() {
        let holds = bucket.most.iter().filter_map(|(dimension, most)| {
            let field = &plan.dimensions.get(*dimension)?.field;
            Some(format!("at.{field} <= {most}"))
        });
        let holds: Vec<String> = holds.collect();
        writeln!(text, "    if {} {{\n        return {number};\n    }}", holds.join(" && "))?;
    }
    writeln!(text, "    {buckets}\n}}\n\n/// Places aliases, which begin in their owners.")?;
    writeln!(
        text,
        "fn place_aliases(at: &Extents, offsets: &mut [usize; TENSOR_COUNT]) {{\n    let _ = (at, &offsets);"
    )?;
    write_variables(plan, plan.aliases.iter().map(|(.., within)| within), text)?;
    for (alias, of, within) in &plan.aliases {
        writeln!(text, "    offsets[{alias}] = offsets[{of}] + {};", amount(*within))?;
    }
    writeln!(text, "}}")
}
