//! Compares two plans: sizes, time, rows and the largest tensors that changed.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Layout, Tensor};
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::quantity::{bytes, change, counted, shortened, time};

/// Maximum number of tensors that the text lists.
const LISTED: usize = 8;
/// Longest name of a tensor in the text, in characters.
const NAME: usize = 48;

/// What changed from one plan to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Whether the plans are for different files.
    pub other_model: bool,
    /// Options that differ: name, value before, value after.
    pub options: Vec<(String, Option<String>, Option<String>)>,
    /// All quantities, equal ones too.
    pub quantities: Vec<Quantity>,
    /// First step at which another node runs, if the schedules differ.
    pub first_step: Option<u64>,
    /// Rows that only one plan has, or that have other sizes: name, bytes before, bytes after; the largest
    /// first.
    pub resized: Vec<(String, Option<u64>, Option<u64>)>,
    /// Rows of equal size with another space or offset.
    pub moved: usize,
    /// Rows of equal size and place that are live at other steps, or are stated otherwise.
    pub otherwise: usize,
    /// Whether transfers, copies of weights or state differ.
    pub transfers: bool,
}

/// A quantity of both plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// What it is: `peak of device`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// In the first plan.
    pub before: u64,
    /// In the second plan.
    pub after: u64,
}

/// Units of quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
}

impl Changes {
    /// Compares two plans.
    pub fn of(before: &Layout, after: &Layout) -> Self {
        let mut changes = Self {
            other_model: before.model.input_sha256 != after.model.input_sha256,
            options: options(before, after),
            quantities: quantities(before, after),
            first_step: first_step(before, after),
            transfers: before.transfers != after.transfers
                || before.fetches != after.fetches
                || before.state != after.state,
            ..Self::default()
        };
        changes.compare_rows(before, after);
        changes
    }

    /// Whether both plans are the same: for one model under equal options, node by node and row by row.
    pub fn is_empty(&self) -> bool {
        let is_same = self.quantities.iter().all(|quantity| quantity.before == quantity.after);
        let rows = self.resized.len() + self.moved + self.otherwise;
        is_same
            && rows == 0
            && !self.other_model
            && self.options.is_empty()
            && self.first_step.is_none()
            && !self.transfers
    }

    fn compare_rows(&mut self, before: &Layout, after: &Layout) {
        let (old, new) = (rows(before), rows(after));
        for name in old.keys().chain(new.keys()).copied().collect::<BTreeSet<_>>() {
            match (old.get(name), new.get(name)) {
                (Some(a), Some(b)) if a.bytes != b.bytes => {
                    self.resized.push((name.to_owned(), Some(a.bytes), Some(b.bytes)));
                }
                (Some(a), Some(b)) if (&a.space, a.offset) != (&b.space, b.offset) => self.moved += 1,
                (Some(a), Some(b)) if a != b => self.otherwise += 1,
                (Some(_), Some(_)) => {}
                (a, b) => {
                    self.resized.push((name.to_owned(), a.map(|row| row.bytes), b.map(|row| row.bytes)))
                }
            }
        }
        self.resized.sort_by_key(|(name, a, b)| (std::cmp::Reverse((*a).max(*b)), name.clone()));
    }

    /// One screen of text.
    pub fn text(&self) -> String {
        if self.is_empty() {
            return "no difference\n".to_owned();
        }
        let mut text = String::new();
        if self.other_model {
            text += "the plans are for different models\n";
        }
        let stated = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        for (name, before, after) in &self.options {
            text += &format!("option {name}: {} -> {}\n", stated(before), stated(after));
        }
        for quantity in self.quantities.iter().filter(|quantity| quantity.is_shown()) {
            text += &format!("{}\n", quantity.line());
        }
        if let Some(step) = self.first_step {
            text += &format!("schedule: another node runs from step {step} on\n");
        }
        if self.transfers {
            text += "transfers, copies of weights or state differ\n";
        }
        let only = |is_before: bool| {
            self.resized.iter().filter(|(_, a, b)| if is_before { b.is_none() } else { a.is_none() }).count()
        };
        let (gone, new) = (only(true), only(false));
        text += &format!(
            "rows: {} only before, {} only after, {} of other sizes, {} at other places, {} with other lives or types\n",
            gone,
            new,
            self.resized.len() - gone - new,
            self.moved,
            self.otherwise
        );
        let size = |size: &Option<u64>| size.map_or_else(|| "none".to_owned(), bytes);
        for (name, before, after) in self.resized.iter().take(LISTED) {
            text += &format!("  {}: {} -> {}\n", shortened(name, NAME), size(before), size(after));
        }
        if self.resized.len() > LISTED {
            text += &format!("  and {}\n", counted(self.resized.len() - LISTED, "smaller row"));
        }
        text
    }

    /// All changes as JSON.
    pub fn json(&self) -> String {
        let option = |(name, before, after): &(String, Option<String>, Option<String>)| json!({"name": name, "before": before, "after": after});
        let row = |(name, before, after): &(String, Option<u64>, Option<u64>)| json!({"tensor": name, "before": before, "after": after});
        let value = json!({
            "equal": self.is_empty(),
            "other_model": self.other_model,
            "options": self.options.iter().map(option).collect::<Vec<_>>(),
            "quantities": self.quantities.iter().map(Quantity::value).collect::<Vec<_>>(),
            "first_step": self.first_step,
            "transfers": self.transfers,
            "resized": self.resized.iter().map(row).collect::<Vec<_>>(),
            "moved": self.moved,
            "otherwise": self.otherwise,
        });
        format!("{value:#}\n")
    }
}

impl Quantity {
    /// Peaks, arenas, weights and time are always shown, counts if they change.
    fn is_shown(&self) -> bool {
        self.unit != Unit::Count || self.before != self.after
    }

    fn line(&self) -> String {
        let shown = |value: u64| match self.unit {
            Unit::Bytes => bytes(value),
            Unit::Nanoseconds => time(value as f64),
            Unit::Count => value.to_string(),
        };
        let growth = match self.before {
            _ if self.before == self.after => "equal".to_owned(),
            0 => "new".to_owned(),
            before => change((self.after as f64 - before as f64) / before as f64),
        };
        format!("{}: {} -> {}  {growth}", self.name, shown(self.before), shown(self.after))
    }

    fn value(&self) -> Value {
        let unit = match self.unit {
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
        };
        json!({"name": self.name, "unit": unit, "before": self.before, "after": self.after})
    }
}

/// The rows of a plan by name.
fn rows(layout: &Layout) -> BTreeMap<&str, &Tensor> {
    layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect()
}

fn options(before: &Layout, after: &Layout) -> Vec<(String, Option<String>, Option<String>)> {
    let names: BTreeSet<&String> = before.options.keys().chain(after.options.keys()).collect();
    let both = names
        .into_iter()
        .map(|name| (name.clone(), before.options.get(name).cloned(), after.options.get(name).cloned()));
    both.filter(|(_, a, b)| a != b).collect()
}

/// Peak and arena of each space, weights, time and counts.
fn quantities(before: &Layout, after: &Layout) -> Vec<Quantity> {
    let facts = [Facts::of(before), Facts::of(after)];
    let mut spaces: Vec<&str> = Vec::new();
    for space in facts.iter().flat_map(|facts| &facts.spaces) {
        if !spaces.contains(&space.profile.space.as_str()) {
            spaces.push(&space.profile.space);
        }
    }
    let mut all = Vec::new();
    for space in spaces {
        let [(peak, arena), (new_peak, new_arena)] = [&facts[0], &facts[1]].map(|facts| {
            let found = facts.spaces.iter().find(|found| found.profile.space == space);
            found.map_or((0, 0), |found| (found.profile.peak, found.arena))
        });
        let shown = shortened(space, NAME);
        all.push(Quantity {
            name: format!("peak of {shown}"),
            unit: Unit::Bytes,
            before: peak,
            after: new_peak,
        });
        all.push(Quantity {
            name: format!("arena of {shown}"),
            unit: Unit::Bytes,
            before: arena,
            after: new_arena,
        });
    }
    let pairs = [
        ("weights", Unit::Bytes, [before, after].map(|layout| layout.weights)),
        // Modelled times are estimates: parts of a nanosecond mean nothing.
        (
            "modelled time",
            Unit::Nanoseconds,
            [before, after].map(|layout| layout.cost.modelled_ns_after.max(0.0).round() as u64),
        ),
        ("nodes", Unit::Count, [before, after].map(|layout| layout.schedule.len() as u64)),
        ("recomputed nodes", Unit::Count, [before, after].map(|layout| layout.cost.recomputed_nodes)),
        ("transfers", Unit::Count, [before, after].map(|layout| layout.transfers.len() as u64)),
        ("rows", Unit::Count, [before, after].map(|layout| layout.tensors.len() as u64)),
        ("values without size", Unit::Count, [before, after].map(|layout| layout.unplanned.len() as u64)),
    ];
    all.extend(pairs.into_iter().map(|(name, unit, [before, after])| Quantity {
        name: name.to_owned(),
        unit,
        before,
        after,
    }));
    all
}

/// Returns the first step at which the schedules have different nodes.
fn first_step(before: &Layout, after: &Layout) -> Option<u64> {
    let (old, new) = (&before.schedule, &after.schedule);
    let is_other = |step: &usize| match (old.get(*step), new.get(*step)) {
        (Some(a), Some(b)) => (&a.node, &a.op, &a.domain) != (&b.node, &b.op, &b.domain),
        _ => true,
    };
    (0..old.len().max(new.len())).find(is_other).map(|step| step as u64)
}
