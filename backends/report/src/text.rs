//! Renders a plan as one screen of plain text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memc_layout::{Layout, Solver, Stated, StatedBy};

use crate::{
    decisions::Decision,
    encoded::encoded,
    facts::{Facts, SpaceFacts},
    picture,
    quantity::{bytes, change_or_unknown, counted, share, shortened, time},
    ranges, summary,
};

/// Maximum number of lines of the whole text.
const LINES: usize = 40;
/// Maximum number of columns of the picture.
const WIDTH: usize = 72;
/// Maximum number of rows of the picture.
const ROWS: usize = 16;
/// Maximum number of spaces with a row of their own.
const SPACES: usize = 4;
/// Maximum number of engines with their numbers of nodes.
const MAX_SHOWN_ENGINES: u64 = 16;
/// Maximum number of reasons why outputs share no storage with state.
const REASONS: usize = 3;
/// Maximum number of searches with a row.
const SEARCHES: usize = 4;
/// Maximum number of tensors in the table.
const ALIVE: usize = 8;
/// Maximum number of tensors in the table if the text also shows decisions.
const ALIVE_BESIDE: usize = 4;
/// Maximum number of decisions in their table.
const DECISIONS: usize = 5;
/// Maximum number of forms of encoded values with a row; there are six forms, and one of weights.
const FORMS: usize = 7;

/// Returns the plan as one screen: at most 40 lines of 100 ASCII characters; only the last line may be
/// longer.
///
/// The text shows: numbers of each space, the largest tensors live at the peak of the first space, its
/// arena as a picture, its live curve, results of the searches, the largest recomputed or moved values,
/// encoded values and weights by form, and the last line of [`crate::summary_line`]. Letters `A`-`H` in
/// the picture are the tensors of the table.
pub fn text(layout: &Layout) -> String {
    let facts = Facts::of(layout);
    let mut lines = head(&facts);
    lines.push(String::new());
    lines.extend(spaces(&facts));
    lines.extend(searches(&facts));
    lines.extend(decided(&facts));
    lines.extend(encoded_rows(layout));
    if let Some(space) = facts.first() {
        let alive = space.profile.alive_at(space.profile.peak_step);
        let letters: BTreeMap<usize, char> = alive
            .iter()
            .take(alive_rows(&facts))
            .zip('A'..)
            .map(|(owner, letter)| (owner.tensor, letter))
            .collect();
        lines.push(String::new());
        lines.extend(table(&facts, space, &letters));
        lines.push(String::new());
        lines.push("arena: A-H as above, a-z others, # several, . less than half full".to_owned());
        // Four lines follow the picture: axis, ticks, curve, summary.
        let rows = LINES.saturating_sub(lines.len() + 4).clamp(3, ROWS);
        lines.extend(drawing(space, &letters, rows));
    }
    lines.extend(summary::lines(&facts).pop());
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats the bytes of the weights, with those of the input model if folds, joins or copies changed
/// them.
fn weights(layout: &Layout) -> String {
    let (before, after) = (bytes(layout.baseline.weights), bytes(layout.weights));
    if layout.baseline.weights == 0 || before == after { after } else { format!("{before} -> {after}") }
}

/// Says how far the modelled times can be trusted.
fn trust(layout: &Layout) -> String {
    match layout.cost.modelled_error {
        Some(error) => format!("+-{:.0} % by {}", (error * 100.0).ceil(), shortened(&layout.target.name, 24)),
        None if layout.options.contains_key("profile") => "measured kernels".to_owned(),
        None => "not calibrated".to_owned(),
    }
}

fn head(facts: &Facts) -> Vec<String> {
    let Facts { layout, counts, callers, .. } = facts;
    let cost = &layout.cost;
    // Lines of every plan.
    let mut lines = vec![
        format!(
            "model    {}: {}, {}; target {}, io {}",
            shortened(&layout.model.output_sha256, 14),
            counted(layout.schedule.len(), "node"),
            counted(layout.tensors.len(), "tensor"),
            shortened(&layout.target.name, 24),
            layout.io.as_str()
        ),
        format!(
            "caller   weights {}, inputs {}, outputs {}, state {}",
            weights(layout),
            bytes(callers.inputs),
            bytes(callers.outputs),
            bytes(callers.state)
        ),
        format!(
            "reuse    {} in place, {}; {} recomputed, {} ({}), {} scratch",
            counts.in_place,
            counted(counts.views, "view"),
            cost.recomputed_nodes,
            counted(layout.transfers.len(), "transfer"),
            bytes(cost.transferred_bytes),
            counts.scratch
        ),
        format!(
            "time     modelled {} -> {} ({}), {}",
            time(cost.modelled_ns_before),
            time(cost.modelled_ns_after),
            change_or_unknown(facts.time_change()),
            trust(layout)
        ),
    ];
    // Lines for features that only some plans use.
    if !layout.model.dims.is_empty() {
        let dims: Vec<String> =
            layout.model.dims.iter().map(|(name, extent)| format!("{name} = {extent}")).collect();
        lines.push(format!("bound    for {} only", shortened(&dims.join(", "), 82)));
    }
    if !layout.model.ranges.is_empty() {
        lines.push(format!("ranges   {}", shortened(&ranges::ranges(layout), 90)));
        let small = ranges::small(layout);
        lines.extend((!small.is_empty()).then(|| format!("formula  arena {}", shortened(&small, 84))));
        let arena = |bucket: &memc_layout::Bucket| {
            let dims: Vec<String> = bucket.dims.iter().map(|(name, most)| format!("{name} {most}")).collect();
            format!("{} to {}", bytes(bucket.arenas.first().map_or(0, |arena| arena.size)), dims.join(", "))
        };
        let buckets: Vec<String> = layout.layouts.iter().map(arena).collect();
        lines.extend(
            (!buckets.is_empty()).then(|| format!("buckets  {}", shortened(&buckets.join("; "), 90))),
        );
    }
    if let Some(row) = layout.fetches.first() {
        let (stay, moved) = (bytes(callers.near_weights), bytes(callers.fetched));
        lines.push(format!(
            "weights  {stay} stay in {}, {moved} fetched from {} ({})",
            row.to,
            row.from,
            layout.fetches.len()
        ));
    }
    if layout.engines() > 1 {
        let steps =
            |engine: u64| layout.schedule.iter().filter(|row| row.engine == Some(engine)).count().to_string();
        let steps: Vec<String> = (0..layout.engines().min(MAX_SHOWN_ENGINES)).map(steps).collect();
        let waits = counted(layout.sync.len(), "wait");
        lines.push(format!("engines  {} run {} nodes, {waits}", layout.engines(), steps.join(" + ")));
    }
    if !layout.state.is_empty() {
        lines.push(format!(
            "state    {} overwritten by their new values",
            counted(layout.state.len(), "value")
        ));
    }
    // Group unpaired outputs by reason.
    let mut unpaired: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &layout.unpaired {
        unpaired.entry(&row.reason).or_default().push(&row.result);
    }
    for (reason, results) in unpaired.into_iter().take(REASONS) {
        let names = shortened(&results.join(", "), 34);
        lines.push(format!(
            "no pair  {}, {}: {names}",
            counted(results.len(), "output"),
            shortened(reason, 34)
        ));
    }
    // Values of unknown size, and sizes that do not follow from the model.
    if let Some(first) = layout.unplanned.first() {
        let (name, reason) = (shortened(&first.name, 30), shortened(&first.reason, 40));
        lines.push(format!("no size  {}: {name} ({reason})", layout.unplanned.len()));
    }
    let stated = |by: StatedBy, who: &str| {
        let rows: Vec<&Stated> = layout.stated.iter().filter(|row| row.by == by).collect();
        let first = shortened(&rows.first()?.tensor, 24);
        Some(format!("{} by {who} ({first})", counted(rows.len(), "size")))
    };
    let stated: Vec<String> =
        [stated(StatedBy::File, "the file"), stated(StatedBy::User, "you")].into_iter().flatten().collect();
    if !stated.is_empty() {
        lines.push(format!("stated   {}: other data may have other sizes", stated.join(", ")));
    }
    lines
}

/// Returns one row for each space.
fn spaces(facts: &Facts) -> Vec<String> {
    let known = |size: Option<u64>| size.map_or_else(|| "-".to_owned(), bytes);
    let mut lines = vec![format!(
        "{:<12}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}  {}",
        "space", "before", "peak", "arena", "bound", "order", "budget", "peak at"
    )];
    for space in facts.spaces.iter().take(SPACES) {
        let step = space.profile.peak_step;
        let at = facts.node(step).map_or_else(String::new, |node| format!("{step} {}", node.node));
        lines.push(format!(
            "{:<12}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}  {}",
            shortened(&space.profile.space, 11),
            known(space.before),
            bytes(space.profile.peak),
            bytes(space.arena),
            known(space.bound.map(|bound| bound.placement)),
            known(space.bound.and_then(|bound| bound.order)),
            known(space.budget),
            shortened(&at, 20)
        ));
    }
    if facts.spaces.len() > SPACES {
        lines.push(format!("and {} more spaces", facts.spaces.len() - SPACES));
    }
    lines
}

/// Returns a row for each search with its result, under a title.
fn searches(facts: &Facts) -> Vec<String> {
    let layout = facts.layout;
    let row = |solver: &Solver| {
        let size = |value: u64| if solver.unit == "ns" { time(value as f64) } else { bytes(value) };
        let gap = match solver.lower_bound {
            // Searches leave out values of unknown size.
            _ if facts.open > 0 => "-".to_owned(),
            bound if solver.value <= bound => "proven".to_owned(),
            0 => "-".to_owned(),
            bound => format!("gap {:.2} %", (solver.value - bound) as f64 * 100.0 / bound as f64),
        };
        format!(
            "{:<12}{:>11}{:>11}{:>14}  {:<18}{:>12}",
            shortened(&solver.pass, 11),
            size(solver.value),
            size(solver.lower_bound),
            gap,
            shortened(&solver.stop, 18),
            solver.effort
        )
    };
    if layout.solvers.is_empty() {
        return Vec::new();
    }
    let title = format!(
        "{:<12}{:>11}{:>11}{:>14}  {:<18}{:>12}",
        "search", "value", "bound", "", "stopped", "effort"
    );
    [String::new(), title].into_iter().chain(layout.solvers.iter().take(SEARCHES).map(row)).collect()
}

/// Returns the maximum number of rows in the table of live tensors.
fn alive_rows(facts: &Facts) -> usize {
    if facts.decisions.is_empty() { ALIVE } else { ALIVE_BESIDE }
}

/// Returns the recomputed and moved values that free most bytes, under a title.
fn decided(facts: &Facts) -> Vec<String> {
    let mut decisions: Vec<&Decision<'_>> = facts.decisions.iter().collect();
    if decisions.is_empty() {
        return Vec::new();
    }
    decisions.sort_by_key(|decision| (Reverse(decision.bytes), decision.step, decision.again));
    let mut lines = vec![
        String::new(),
        format!(
            "{:<10}{:>11} {:<13}{:>10}{:>11}{:>11}  {}",
            "to fit", "frees", "at steps", "costs", "peak there", "otherwise", "tensor"
        ),
    ];
    for decision in decisions.iter().take(DECISIONS) {
        let freed =
            decision.freed.map_or_else(|| "-".to_owned(), |range| format!("{}..{}", range.start, range.end));
        let size = |value: u64| if decision.freed.is_some() { bytes(value) } else { "-".to_owned() };
        lines.push(format!(
            "{:<10}{:>11} {:<13}{:>10}{:>11}{:>11}  {}",
            decision.way.as_str(),
            size(decision.bytes),
            shortened(&freed, 13),
            decision.cost_ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64)),
            size(decision.peak_there),
            size(decision.peak_otherwise),
            shortened(decision.tensor, 30)
        ));
    }
    let rest = decisions.get(DECISIONS..).unwrap_or_default();
    if !rest.is_empty() {
        let cost = rest.iter().try_fold(0u64, |sum, decision| Some(sum.saturating_add(decision.cost_ns?)));
        let cost = cost.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
        lines.push(format!("{:<10}{:>11} {:<13}{:>10}", format!("{} more", rest.len()), "", "", cost));
    }
    lines
}

/// Returns a row for each form of encoded values and weights, under a title.
fn encoded_rows(layout: &Layout) -> Vec<String> {
    let forms = encoded(layout);
    if forms.is_empty() {
        return Vec::new();
    }
    let title =
        format!("{:<16}{:>8}{:>12}{:>12}{:>12}", "encoded values", "count", "wide", "encoded", "saved");
    let rows = forms.iter().take(FORMS).map(|form| {
        let (name, count) = (shortened(form.form, 15), form.count);
        let (wide, code, saved) = (bytes(form.wide), bytes(form.code), bytes(form.saved()));
        format!("{name:<16}{count:>8}{wide:>12}{code:>12}{saved:>12}  {}", form.verdict())
    });
    [String::new(), title].into_iter().chain(rows).collect()
}

/// Returns the largest tensors live at the peak.
fn table(facts: &Facts, space: &SpaceFacts, letters: &BTreeMap<usize, char>) -> Vec<String> {
    let profile = &space.profile;
    let alive = profile.alive_at(profile.peak_step);
    let node = facts.node(profile.peak_step);
    let (name, op) = node.map_or(("-", "-"), |node| (&node.node, &node.op));
    let mut lines = vec![
        format!(
            "alive at the peak of {}: step {} of {}, {} ({})",
            shortened(&profile.space, 16),
            profile.peak_step,
            profile.live_bytes.len(),
            shortened(name, 30),
            shortened(op, 16)
        ),
        format!(
            "  {:>10} {:>8} {:<9} {:<13} {:<18} {}",
            "bytes", "share", "class", "steps", "made by", "tensor"
        ),
    ];
    let rows = alive_rows(facts);
    for owner in alive.iter().take(rows) {
        let tensor = &facts.layout.tensors[owner.tensor];
        let op = owner.producer.and_then(|step| facts.node(step)).map_or("-", |node| &node.op);
        lines.push(format!(
            "{} {:>10} {:>8} {:<9} {:<13} {:<18} {}",
            letters.get(&owner.tensor).unwrap_or(&' '),
            bytes(owner.bytes),
            share(owner.bytes, profile.peak),
            tensor.class.as_str(),
            shortened(&format!("{}..{}", owner.start(), owner.end()), 13),
            shortened(op, 18),
            shortened(&tensor.name, 36)
        ));
    }
    let rest = alive.get(rows..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = rest.iter().fold(0_u64, |sum, owner| sum.saturating_add(owner.bytes));
        lines.push(format!("  {:>10} {:>8} {} more", bytes(sum), share(sum, profile.peak), rest.len()));
    }
    lines
}

/// Returns the picture with its axes, and the curve below it.
fn drawing(space: &SpaceFacts, letters: &BTreeMap<usize, char>, rows: usize) -> Vec<String> {
    let profile = &space.profile;
    let steps = profile.live_bytes.len();
    let columns = picture::columns(steps, WIDTH);
    let mut lines = Vec::new();
    for (row, line) in picture::boxes(profile, space.arena, letters, rows, columns).into_iter().enumerate() {
        let label = match row {
            0 => bytes(space.arena),
            row if row == rows / 2 => bytes(space.arena / 2),
            row if row + 1 == rows => "0 B".to_owned(),
            _ => String::new(),
        };
        lines.push(format!("{label:>11} |{line}|"));
    }
    lines.push(format!("{:>11} +{}+", "step", axis(steps, columns, profile.peak_step)));
    let curve = picture::curve(&profile.live_bytes, profile.peak, columns);
    lines.push(format!("{:>11} |{curve}|", "live"));
    lines
}

/// Returns a line with the numbers of some steps at their columns, and `^` at the peak.
fn axis(steps: usize, columns: usize, peak_step: u64) -> String {
    let mut line = vec!['-'; columns];
    let column = |step: usize| (step * columns).checked_div(steps).unwrap_or(0);
    let ticks = 6.min(steps);
    for tick in 0..ticks {
        let step = tick * steps / ticks;
        let text = step.to_string();
        for (place, digit) in line.iter_mut().skip(column(step)).take(text.len()).zip(text.chars()) {
            *place = digit;
        }
    }
    if let Some(place) = usize::try_from(peak_step).ok().and_then(|step| line.get_mut(column(step))) {
        *place = '^';
    }
    line.into_iter().collect()
}
