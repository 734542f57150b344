//! Functions of a C header that compute sizes and offsets at the extents of a run.

use std::fmt::{Result, Write as _};

use crate::expr::Style;
use crate::extents::{Amount, ExtentPlan};
use crate::identifiers::comment;
use crate::types::Layout;

/// Arithmetic that C lacks: a quotient that rounds down, with a divisor of at least 1.
const ARITHMETIC: &str = "\
static inline long long memc_floor(long long of, long long by) {
  if (by < 1) by = 1;
  return of / by - (of % by < 0);
}
static inline long long memc_min(long long left, long long right) { return left < right ? left : right; }
static inline long long memc_max(long long left, long long right) { return left > right ? left : right; }
";

/// Writes the functions, if dimensions are free. `names` has an identifier for each tensor with a macro.
pub(crate) fn write_extents(layout: &Layout, names: &[(usize, String)], text: &mut String) -> Result {
    let Some(plan) = ExtentPlan::of(layout) else { return Ok(()) };
    writeln!(
        text,
        "\n/* Free dimensions. The macros hold for the largest extents, the functions below for those of a run. */"
    )?;
    writeln!(text, "typedef struct {{")?;
    for dimension in &plan.dimensions {
        let range = dimension.extents;
        let about = format!(
            "{}: {} to {} in steps of {}",
            comment(&dimension.name),
            range.min,
            range.max,
            range.step
        );
        writeln!(text, "  long long {}; /* {about} */", dimension.field)?;
    }
    writeln!(text, "}} memc_extents;\n{ARITHMETIC}")?;
    write_test(&plan, text)?;
    write_bytes(&plan, names, text)?;
    writeln!(text, "#define MEMC_ARENA_COUNT {}", layout.arenas.len())?;
    writeln!(
        text,
        "/* Writes the size of each tensor, in the order of the table of tensors, at extents that the plan is made for. */\n\
         static inline void memc_sizes_at(const memc_extents *at, unsigned long long *sizes) {{\n{}  (void)at;",
        variables(&plan, &used(&plan.sizes))
    )?;
    for (index, size) in plan.sizes.iter().enumerate() {
        writeln!(text, "  sizes[{index}] = {};", amount(*size))?;
    }
    writeln!(text, "  (void)sizes;\n}}")?;
    write_formula(layout, &plan, text)?;
    write_fixed(&plan, text)
}

fn style_of<'a>(dimension: &'a dyn Fn(&str) -> String) -> Style<'a> {
    Style {
        number: &|value| format!("{value}LL"),
        dimension,
        floor: "memc_floor",
        min: "memc_min",
        max: "memc_max",
    }
}

/// Returns the text of an expression.
fn expr(plan: &ExtentPlan, at: usize) -> String {
    let field = |name: &str| {
        let found = plan.dimensions.iter().find(|dimension| dimension.name == name);
        found.map_or_else(|| "0LL".to_owned(), |dimension| format!("at->{}", dimension.field))
    };
    plan.exprs.get(at).map_or_else(|| "0LL".to_owned(), |expr| expr.write(&style_of(&field)))
}

/// Returns the text of a number of bytes; expressions are variables.
fn amount(amount: Amount) -> String {
    match amount {
        Amount::Number(value) => format!("{value}ULL"),
        Amount::Expr(at) => format!("e{at}"),
    }
}

/// Returns the positions of the expressions in some amounts, in ascending order.
fn used<'a>(amounts: impl IntoIterator<Item = &'a Amount>) -> Vec<usize> {
    let mut all: Vec<usize> = amounts
        .into_iter()
        .filter_map(|amount| match amount {
            Amount::Expr(at) => Some(*at),
            Amount::Number(_) => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Declares a variable for each of these expressions; a negative value counts as 0.
fn variables(plan: &ExtentPlan, used: &[usize]) -> String {
    let one = |at: &usize| {
        format!(
            "  const unsigned long long e{at} = (unsigned long long)memc_max({}, 0LL);\n",
            expr(plan, *at)
        )
    };
    used.iter().map(one).collect()
}

/// Writes the test whether the plan is made for some extents.
fn write_test(plan: &ExtentPlan, text: &mut String) -> Result {
    writeln!(text, "/* Whether the plan is made for these extents. */")?;
    writeln!(text, "static inline int memc_is_planned(const memc_extents *at) {{\n  return 1")?;
    for dimension in &plan.dimensions {
        let (field, range) = (&dimension.field, dimension.extents);
        write!(text, "    && at->{field} >= {}LL && at->{field} <= {}LL", range.min, range.max)?;
        let step = range.step.max(1);
        writeln!(
            text,
            "{}",
            if step > 1 {
                format!(" && (at->{field} - {}LL) % {step}LL == 0", range.min)
            } else {
                String::new()
            }
        )?;
    }
    for (of, most) in &plan.limits {
        writeln!(text, "    && {} <= {most}LL", expr(plan, *of))?;
    }
    writeln!(text, "    ;\n}}")
}

/// Writes a function for the size of each named tensor whose size depends on the extents.
fn write_bytes(plan: &ExtentPlan, names: &[(usize, String)], text: &mut String) -> Result {
    writeln!(text, "/* Sizes in bytes at the extents of a run. */")?;
    for (index, name) in names {
        let Some(Amount::Expr(at)) = plan.sizes.get(*index) else { continue };
        let (name, of) = (name.to_ascii_lowercase(), expr(plan, *at));
        writeln!(
            text,
            "static inline unsigned long long memc_bytes_{name}(const memc_extents *at) {{\n  \
             return (unsigned long long)memc_max({of}, 0LL);\n}}"
        )?;
    }
    Ok(())
}

/// Writes a list as the elements of an array, at least one.
fn list(values: impl IntoIterator<Item = u64>, suffix: &str) -> String {
    let all: Vec<String> = values.into_iter().map(|value| format!("{value}{suffix}")).collect();
    if all.is_empty() { format!("0{suffix}") } else { all.join(", ") }
}

/// Writes the function that computes offsets by the formula.
fn write_formula(layout: &Layout, plan: &ExtentPlan, text: &mut String) -> Result {
    let (mut rows, mut below) = (Vec::new(), Vec::new());
    for (arena, all) in plan.rows.iter().enumerate() {
        for (tensor, under) in all {
            rows.push(format!("{{ {arena}UL, {tensor}UL, {}UL, {}UL }}", below.len(), under.len()));
            below.extend(under.iter().map(|at| *at as u64));
        }
    }
    let count = rows.len();
    if count == 0 {
        return Ok(());
    }
    let rows = rows.join(",\n    ");
    let alignments = list(layout.arenas.iter().map(|arena| arena.alignment.max(1)), "ULL");
    writeln!(
        text,
        "/* Writes the size and the offset of each tensor and the size of each arena by the formula: small extents\n   \
         need small arenas. Returns 0, and writes nothing, if the plan is not made for these extents. Each array\n   \
         has MEMC_TENSOR_COUNT or MEMC_ARENA_COUNT elements; offsets of tensors that the caller holds are 0. */\n\
         static inline int memc_offsets_at(const memc_extents *at, unsigned long long *sizes, unsigned long long *offsets,\n    \
         unsigned long long *arenas) {{\n  \
         /* Arena, tensor, first and number of the tensors that it lies on. */\n  \
         static const unsigned long rows[][4] = {{\n    {rows} }};\n  \
         static const unsigned long below[] = {{ {} }};\n  \
         static const unsigned long long alignments[] = {{ {alignments} }};\n  \
         unsigned long row, at_below;\n  \
         if (!memc_is_planned(at)) return 0;\n  \
         memc_sizes_at(at, sizes);\n  \
         for (row = 0; row < {}UL; row++) offsets[row] = 0;\n  \
         for (row = 0; row < {}UL; row++) arenas[row] = 0;\n  \
         for (row = 0; row < {count}UL; row++) {{\n    \
         const unsigned long arena = rows[row][0], tensor = rows[row][1], end = rows[row][2] + rows[row][3];\n    \
         unsigned long long top = 0, step = alignments[arena];\n    \
         for (at_below = rows[row][2]; at_below < end; at_below++) {{\n      \
         const unsigned long long other = offsets[below[at_below]] + sizes[below[at_below]];\n      \
         if (other > top) top = other;\n    \
         }}\n    \
         offsets[tensor] = (top + step - 1) / step * step;\n    \
         top = offsets[tensor] + sizes[tensor];\n    \
         if (sizes[tensor] != 0 && top > arenas[arena]) arenas[arena] = top;\n  \
         }}",
        list(below, "UL"),
        plan.sizes.len(),
        layout.arenas.len(),
    )?;
    write_aliases(plan, text)?;
    writeln!(text, "  return 1;\n}}")
}

/// Writes the offsets of aliases, which begin in their owners.
fn write_aliases(plan: &ExtentPlan, text: &mut String) -> Result {
    let amounts: Vec<Amount> = plan.aliases.iter().map(|(.., within)| *within).collect();
    writeln!(text, "  {{\n{}", variables(plan, &used(&amounts)))?;
    for (alias, of, within) in &plan.aliases {
        writeln!(text, "  offsets[{alias}] = offsets[{of}] + {};", amount(*within))?;
    }
    writeln!(text, "  }}")
}

/// Writes the function that looks fixed offsets up.
fn write_fixed(plan: &ExtentPlan, text: &mut String) -> Result {
    let arenas = plan.rows.len();
    if plan.rows.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let buckets = plan.fixed.len() - 1;
    writeln!(text, "#define MEMC_BUCKET_COUNT {buckets}")?;
    writeln!(
        text,
        "/* Number of the smallest bucket that holds the extents; MEMC_BUCKET_COUNT stands for the main offsets. */"
    )?;
    writeln!(text, "static inline unsigned memc_bucket_at(const memc_extents *at) {{\n  (void)at;")?;
    for (number, bucket) in plan.fixed.iter().take(buckets).enumerate() {
        let holds = bucket.most.iter().filter_map(|(dimension, most)| {
            let field = &plan.dimensions.get(*dimension)?.field;
            Some(format!("at->{field} <= {most}LL"))
        });
        let holds: Vec<String> = holds.collect();
        writeln!(text, "  if ({}) return {number}U;", holds.join(" && "))?;
    }
    writeln!(text, "  return {buckets}U;\n}}")?;
    let table = |values: &dyn Fn(usize) -> Vec<u64>| -> String {
        let rows = (0..plan.fixed.len()).map(|number| format!("    {{ {} }}", list(values(number), "ULL")));
        rows.collect::<Vec<_>>().join(",\n")
    };
    let offsets =
        table(&|number| plan.fixed.get(number).map(|fixed| fixed.offsets.clone()).unwrap_or_default());
    let sizes = table(&|number| plan.fixed.get(number).map(|fixed| fixed.arenas.clone()).unwrap_or_default());
    let tensors = plan.sizes.len();
    writeln!(
        text,
        "/* Writes sizes and offsets as memc_offsets_at does, with the fixed offsets of the smallest bucket. */\n\
         static inline int memc_fixed_offsets_at(const memc_extents *at, unsigned long long *sizes, unsigned long long *offsets,\n    \
         unsigned long long *arenas) {{\n  \
         static const unsigned long long fixed[][{}] = {{\n{offsets} }};\n  \
         static const unsigned long long largest[][{arenas}] = {{\n{sizes} }};\n  \
         unsigned long row;\n  \
         const unsigned bucket = memc_bucket_at(at);\n  \
         if (!memc_is_planned(at)) return 0;\n  \
         memc_sizes_at(at, sizes);\n  \
         for (row = 0; row < {tensors}UL; row++) offsets[row] = fixed[bucket][row];\n  \
         for (row = 0; row < {arenas}UL; row++) arenas[row] = largest[bucket][row];",
        tensors
    )?;
    write_aliases(plan, text)?;
    writeln!(text, "  return 1;\n}}")
}
