//! Renders a plan as one self-contained page: it needs no network, opens from a file, and runs no
//! script except its own.
//!
//! The page is static text around a JSON block. `page/page.js` draws the block and shows names as plain
//! text only.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use memc_layout::{AliasKind, Class, Layout, Owner, Tensor};
use serde_json::{Value, json};

use crate::{
    decisions::Decision,
    encoded::encoded,
    facts::{Facts, SpaceFacts},
    options, pareto,
    quantity::{bytes, change_or_unknown, counted, share, time},
    summary,
    trace::Clock,
};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Columns of a tensor's row in the page's data; 0 for an absent value.
const TENSOR: [&str; 11] =
    ["name", "dtype", "shape", "bytes", "cls", "offset", "start", "end", "of", "kind", "again"];
/// Columns of a decision's row.
const DECISION: [&str; 13] = [
    "way",
    "tensor",
    "again",
    "step",
    "bytes",
    "start",
    "end",
    "space",
    "far",
    "cost",
    "waited",
    "peak",
    "otherwise",
];
/// Columns of an owner's row.
const OWNER: [&str; 5] = ["all", "offset", "bytes", "live", "made"];

/// Settings of the page in addition to the plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct HtmlOptions<'a> {
    /// Heading of the page, such as the model's file name; `Memory plan` if empty.
    pub title: &'a str,
    /// Plan of the unchanged model. If given, the page can switch between before and after.
    pub before: Option<&'a Layout>,
}

/// Returns the plan as one HTML page.
///
/// The page shows, for each space, boxes of live ranges × offsets. On their axis it shows the live
/// curve with peak, bound and budget. It lists the tensors live at a step (the peak's, or the clicked
/// step), has a search by tensor name, and shows the numbers before and after. With a timeline it also
/// shows rows for operators and for each link, all of it over time instead of steps. Tables show
/// recomputed and moved values with saving and cost, encoded values and weights by form, results of the
/// searches, and other budgets with their plans. The page follows the reader's dark or light setting. Its
/// size is about 180 bytes a tensor.
pub fn html(layout: &Layout, options: &HtmlOptions) -> String {
    let facts = Facts::of(layout);
    let title = if options.title.is_empty() { "Memory plan" } else { options.title };
    let mut page =
        String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + layout.tensors.len() * 150);
    // One pass over the template only: inserted text is never searched for marks.
    let mut rest = PAGE;
    while let Some((before, (mark, after))) =
        rest.split_once("{{").and_then(|(before, tail)| Some((before, tail.split_once("}}")?)))
    {
        page.push_str(before);
        match mark {
            "title" => page.push_str(&escape(title)),
            "style" => page.push_str(STYLE),
            "script" => page.push_str(&script()),
            "legend" => page.push_str(&legend(&facts)),
            "about" => page.push_str(&escape(&about(&facts))),
            "cards" => page.push_str(&cards(&facts)),
            "encoded" => page.push_str(&encoded_table(layout)),
            "searches" => page.push_str(&searches(&facts)),
            "pareto" => page.push_str(&pareto::plot(layout)),
            "summary" => page.push_str(&escape(&summary::lines(&facts).join("\n"))),
            "data" => page.push_str(&data(&facts, options.before)),
            _ => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Escapes text for HTML elements and quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns the script without indentation and comments.
fn script() -> String {
    (SCRIPT.lines().map(str::trim_start))
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Returns the legend: the classes in the picture, each with its color.
fn legend(facts: &Facts) -> String {
    let owners = facts.spaces.iter().flat_map(|space| &space.profile.owners);
    let tensors: Vec<&Tensor> = owners.map(|owner| &facts.layout.tensors[owner.tensor]).collect();
    let mut text = String::new();
    let classes =
        [Class::Transient, Class::Output, Class::Input, Class::State, Class::Scratch, Class::Constant];
    for class in classes.into_iter().filter(|&class| tensors.iter().any(|tensor| tensor.class == class)) {
        let word = class.as_str();
        let _ = write!(text, "<span><i class=\"{word}\"></i>{word}</span>");
    }
    if tensors.iter().any(|tensor| tensor.recompute_of.is_some()) {
        text.push_str("<span><i class=\"again\"></i>recomputed</span>");
    }
    if !facts.layout.transfers.is_empty() {
        text.push_str("<span><i class=\"away\"></i>transfer (arrow)</span>");
    }
    text
}

/// Returns one line that identifies the plan.
fn about(facts: &Facts) -> String {
    let layout = facts.layout;
    let mut text = format!(
        "{} nodes, {} tensors \u{b7} target {} \u{b7} memc {}",
        layout.schedule.len(),
        layout.tensors.len(),
        layout.target.name,
        layout.memc_version
    );
    for phrase in options::phrases(layout) {
        let _ = write!(text, " \u{b7} {phrase}");
    }
    text
}

/// Returns the numbers at the top of the page, before and after.
fn cards(facts: &Facts) -> String {
    let Facts { layout, counts, callers, .. } = facts;
    let cost = &layout.cost;
    let mut text = String::new();
    if let Some(space) = facts.first() {
        let peak = space.profile.peak;
        if let Some(before) = space.before.filter(|&before| before > 0) {
            // The peak of a plan with values of unknown size is not known.
            let saved = change_or_unknown((space.open == 0).then(|| peak as f64 / before as f64 - 1.0));
            card(&mut text, "Peak", &bytes(peak), &format!("{} before, {saved}", bytes(before)));
        } else {
            card(&mut text, "Peak", &bytes(peak), "largest number of bytes live at one step");
        }
        let room = match (space.budget, space.capacity) {
            (Some(budget), _) => format!("{} of the budget {}", share(space.arena, budget), bytes(budget)),
            (None, Some(capacity)) => format!("{} of {}", share(space.arena, capacity), bytes(capacity)),
            (None, None) => format!("in {}, no limit", space.profile.space),
        };
        card(&mut text, "Arena", &bytes(space.arena), &room);
        let bound = space.bound.map_or_else(|| "?".to_owned(), |bound| bytes(bound.placement));
        card(&mut text, "Lower bound", &bound, &format!("for these live ranges, {}", space.gap().verdict()));
    }
    let mut caller =
        format!("{} inputs, {} state with the caller", bytes(callers.inputs), bytes(callers.state));
    if !layout.fetches.is_empty() {
        caller = format!(
            "{} stay, {} in {}",
            bytes(callers.near_weights),
            bytes(callers.fetched),
            counted(layout.fetches.len(), "fetched part")
        );
    }
    card(&mut text, "Weights", &bytes(layout.weights), &caller);
    let times =
        format!("modelled {} \u{2192} {}", time(cost.modelled_ns_before), time(cost.modelled_ns_after));
    card(&mut text, "Time", &change_or_unknown(facts.time_change()), &times);
    let reuse = format!("in place, {}", counted(counts.views, "view"));
    card(&mut text, "Reuse", &counts.in_place.to_string(), &reuse);
    let moved = format!(
        "recomputed, {} of {}",
        counted(layout.transfers.len(), "transfer"),
        bytes(cost.transferred_bytes)
    );
    card(&mut text, "Extra work", &cost.recomputed_nodes.to_string(), &moved);
    text
}

fn card(text: &mut String, name: &str, value: &str, note: &str) {
    // Keep a number and its unit on one line.
    let mut digit = false;
    let glued: String = note
        .chars()
        .map(|c| if std::mem::replace(&mut digit, c.is_ascii_digit()) && c == ' ' { '\u{a0}' } else { c })
        .collect();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "<div class=\"card\"><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>",
        escape(name),
        escape(value),
        escape(&glued)
    );
}

/// Returns the script's data as JSON that no HTML parser mistakes for markup.
fn data(facts: &Facts, before: Option<&Layout>) -> String {
    let mut plans = vec![plan("after", facts)];
    if let Some(layout) = before {
        plans.push(plan("before", &Facts::of(layout)));
    }
    let mut value = json!({ "plans": plans, "tensor": TENSOR, "owner": OWNER, "decision": DECISION });
    value.sort_all_objects();
    let text = value.to_string();
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // JSON has these characters only inside strings, and strings may escape them.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(safe, "\\u{:04x}", u32::from(character));
            }
            other => safe.push(other),
        }
    }
    safe
}

/// Returns the data of one plan. Only tensors in an arena are included, with new numbers.
fn plan(name: &str, facts: &Facts) -> Value {
    let layout = facts.layout;
    let mut tensors = Tensors { layout, numbers: BTreeMap::new(), values: Vec::new() };
    let spaces: Vec<Value> = facts.spaces.iter().map(|space| space_value(space, &mut tensors)).collect();
    let steps: Vec<Value> = layout.schedule.iter().map(|node| json!([node.node, node.op])).collect();
    let transfers: Vec<Value> = (layout.transfers.iter())
        .map(|move_| json!([move_.from, move_.to, move_.store_step, move_.load_step]))
        .collect();
    let fetches: Vec<Value> =
        layout.fetches.iter().map(|fetch| json!([fetch.from, fetch.to, fetch.step])).collect();
    let decisions: Vec<Value> = facts.decisions.iter().map(|decision| tensors.decision(decision)).collect();
    let clock = Clock::of(layout);
    let times: Vec<[u64; 2]> = layout.timeline.iter().map(|&busy| busy.into()).collect();
    // Without a timeline, steps have no duration, and the page has no time axis.
    let issued = if times.is_empty() { Vec::new() } else { clock.issued };
    json!({
        "name": name, "steps": steps, "spaces": spaces, "tensors": tensors.values, "transfers": transfers, "fetches": fetches,
        "decisions": decisions,
        "times": times, "issued": issued,
    })
}

/// Returns a table of the searches' results, or nothing if no search ran.
fn searches(facts: &Facts<'_>) -> String {
    let layout = facts.layout;
    if layout.solvers.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section class=\"searches\"><h2>Searches</h2><div class=\"scroll\"><table class=\"plain\"><thead><tr><th>Search</th><th class=\"num\">Value</th>\
         <th class=\"num\">Bound</th><th>Gap</th><th>Stopped</th><th class=\"num\">Effort</th></tr></thead><tbody>\n",
    );
    for solver in &layout.solvers {
        let size = |value: u64| if solver.unit == "ns" { time(value as f64) } else { bytes(value) };
        let gap = match solver.lower_bound {
            _ if facts.open > 0 => "-".to_owned(),
            bound if solver.value <= bound => "proven".to_owned(),
            0 => "unknown".to_owned(),
            bound => format!("{:.2} %", (solver.value - bound) as f64 * 100.0 / bound as f64),
        };
        let cells = [
            solver.pass.clone(),
            size(solver.value),
            size(solver.lower_bound),
            gap,
            solver.stop.clone(),
            solver.effort.to_string(),
        ];
        let is_number = [false, true, true, false, false, true];
        row(&mut text, &cells, is_number);
    }
    text.push_str("</tbody></table></div></section>\n");
    text
}

/// Returns a table of encoded values by form, or nothing if there are none.
fn encoded_table(layout: &Layout) -> String {
    let forms = encoded(layout);
    if forms.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section class=\"encoded\"><h2>Encoded values</h2><div class=\"scroll\"><table class=\"plain\"><thead><tr><th>Form</th><th class=\"num\">Count</th>\
         <th class=\"num\">Wide</th><th class=\"num\">Encoded</th><th class=\"num\">Saved</th><th>Result</th></tr></thead><tbody>\n",
    );
    for form in &forms {
        let sizes = [form.wide, form.code, form.saved()].map(bytes);
        let [wide, code, saved] = sizes;
        let cells = [form.form.to_owned(), form.count.to_string(), wide, code, saved, form.verdict()];
        row(&mut text, &cells, [false, true, true, true, true, false]);
    }
    text.push_str("</tbody></table></div></section>\n");
    text
}

/// Adds a row to a table; numbers are aligned at the right.
fn row<const N: usize>(text: &mut String, cells: &[String; N], is_number: [bool; N]) {
    text.push_str("<tr>");
    for (cell, is_number) in cells.iter().zip(is_number) {
        let class = if is_number { " class=\"num\"" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "<td{class}>{}</td>", escape(cell));
    }
    text.push_str("</tr>\n");
}

fn space_value(space: &SpaceFacts, tensors: &mut Tensors) -> Value {
    let profile = &space.profile;
    let mut owners: Vec<&Owner> = profile.owners.iter().collect();
    owners.sort_by_key(|owner| (Reverse(owner.bytes), owner.offset, owner.tensor));
    json!({
        "name": profile.space,
        "arena": space.arena,
        "peak": profile.peak,
        "step": profile.peak_step,
        "bound": space.bound.map(|bound| bound.placement),
        "budget": space.budget,
        "capacity": space.capacity,
        "live": profile.live_bytes,
        "owners": owners.into_iter().map(|owner| tensors.owner(owner)).collect::<Vec<_>>(),
    })
}

/// Tensors of a page, in the order in which rows first refer to them.
struct Tensors<'a> {
    layout: &'a Layout,
    numbers: BTreeMap<usize, usize>,
    values: Vec<Value>,
}

impl Tensors<'_> {
    /// Returns the row of an owner, by [`OWNER`]; `all` is the owner followed by its aliases.
    fn owner(&mut self, owner: &Owner) -> Value {
        let all: Vec<usize> =
            [owner.tensor].iter().chain(&owner.aliases).map(|&index| self.number(index)).collect();
        json!([all, owner.offset, owner.bytes, owner.live, owner.producer])
    }

    /// Returns the row of a decision, by [`DECISION`].
    fn decision(&mut self, decision: &Decision<'_>) -> Value {
        json!([
            decision.way.as_str(),
            decision.tensor,
            // Tensors outside arenas are not in the picture.
            self.layout
                .tensors
                .get(decision.again)
                .filter(|tensor| tensor.space.is_some())
                .map(|_| self.number(decision.again)),
            decision.step,
            decision.bytes,
            decision.freed.map(|range| range.start),
            decision.freed.map(|range| range.end),
            decision.space,
            decision.far,
            decision.cost_ns,
            decision.waited_ns,
            decision.peak_there,
            decision.peak_otherwise,
        ])
    }

    /// Returns the tensor's number on the page. Adds a row by [`TENSOR`] at the first call.
    fn number(&mut self, index: usize) -> usize {
        if let Some(&number) = self.numbers.get(&index) {
            return number;
        }
        let tensor = &self.layout.tensors[index];
        let live = tensor.live.first();
        let alias = tensor.alias.as_ref().map(|alias| {
            let kind = match alias.kind {
                AliasKind::View => "view",
                AliasKind::InPlace => "in place",
            };
            (alias.of.as_str(), kind)
        });
        let or_zero = |text: Option<&str>| text.map_or(Value::from(0), Value::from);
        self.values.push(json!([
            tensor.name,
            tensor.dtype,
            tensor.shape,
            tensor.bytes,
            tensor.class.as_str(),
            tensor.offset,
            live.map(|range| range.start),
            live.map(|range| range.end),
            or_zero(alias.map(|(of, _)| of)),
            or_zero(alias.map(|(_, kind)| kind)),
            or_zero(tensor.recompute_of.as_deref()),
        ]));
        self.numbers.insert(index, self.values.len() - 1);
        self.values.len() - 1
    }
}
