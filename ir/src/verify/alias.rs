//! Checks of aliases: they are acyclic, visible, and inside the bytes that they share.

use super::Report;
use super::structure::Tree;
use crate::entity::{SecondaryMap, Value};
use crate::plan::{Alias, AliasKind};
use crate::units::Bytes;

/// Owners of all values of the tree.
pub(super) struct Owners {
    /// Owner and offset within it; `None` for a value whose chain of aliases ends in a cycle.
    owner: SecondaryMap<Value, Option<(Value, Bytes)>>,
    /// Direct aliases of each value.
    pub(super) children: SecondaryMap<Value, Vec<Value>>,
    /// All aliases that a graph of the tree defines.
    pub(super) aliases: Vec<Value>,
}

impl Owners {
    /// Returns the owner of a value and the offset within it; `None` if its chain of aliases ends in a
    /// cycle.
    pub(super) fn of(&self, value: Value) -> Option<(Value, Bytes)> {
        self.owner[value]
    }
}

/// Reports invalid aliases and finds the owners.
pub(super) fn check(report: &mut Report<'_>, tree: &Tree) -> Owners {
    let module = report.module;
    let mut owners =
        Owners { owner: SecondaryMap::default(), children: SecondaryMap::default(), aliases: Vec::new() };
    let mut state = SecondaryMap::default();
    for value in module.values.keys() {
        if module.home(value).is_none_or(|home| !tree.reaches(home)) {
            continue;
        }
        follow(report, &mut owners, &mut state, value);
        if let Some(alias) = module.plan.alias[value] {
            owners.aliases.push(value);
            owners.children[alias.of].push(value);
            check_scope(report, tree, value, alias);
            check_window(report, value, alias);
        }
    }
    owners
}

/// Progress of the search for the owner of a value.
#[derive(Clone, Copy, PartialEq, Default)]
enum State {
    #[default]
    New,
    OnPath,
    Done,
}

/// Finds the owner of `value` and of every value on the chain of aliases to it.
fn follow(
    report: &mut Report<'_>,
    owners: &mut Owners,
    state: &mut SecondaryMap<Value, State>,
    value: Value,
) {
    let plan = &report.module.plan;
    let mut path = Vec::new();
    let mut at = value;
    let mut found = loop {
        match state[at] {
            State::Done => break owners.owner[at],
            State::OnPath => {
                let name = report.name(at);
                report.at_value("E0230", at, format!("{name} is an alias of itself"));
                break None;
            }
            State::New => {}
        }
        state.set(at, State::OnPath);
        path.push(at);
        match plan.alias[at] {
            Some(alias) => at = alias.of,
            None => {
                path.pop();
                state.set(at, State::Done);
                owners.owner.set(at, Some((at, Bytes(0))));
                break Some((at, Bytes(0)));
            }
        }
    };
    while let Some(value) = path.pop() {
        let step = plan.alias[value].map_or(Bytes(0), |alias| alias.offset);
        found = found.map(|(owner, offset)| (owner, offset.saturating_add(step)));
        owners.owner.set(value, found);
        state.set(value, State::Done);
    }
}

fn check_scope(report: &mut Report<'_>, tree: &Tree, value: Value, alias: Alias) {
    let module = report.module;
    let (home, other) = (module.home(value), module.home(alias.of));
    let in_sight = match (home, other) {
        (Some(home), Some(other)) if home == other => true,
        (Some(home), Some(other)) => {
            let body_step = tree.step_in(module, other, home, 0);
            let made = module.producer(alias.of).and_then(|producer| tree.position(producer));
            // A body may share bytes only with values that exist before the body's node runs.
            alias.kind == AliasKind::View && body_step.is_some_and(|step| made.is_none_or(|made| made < step))
        }
        _ => false,
    };
    if !in_sight {
        let (name, of) = (report.name(value), report.name(alias.of));
        report.at_value(
            "E0230",
            value,
            format!("{name} is an alias of {of}, which is not a value of its graph"),
        );
    }
}

fn check_window(report: &mut Report<'_>, value: Value, alias: Alias) {
    let module = report.module;
    let (size, room) = (module.size(value), module.size(alias.of));
    let good = match (size, room) {
        (Some(size), Some(room)) => alias.offset.checked_add(size).is_some_and(|end| end <= room),
        // Without known sizes only a view of the whole value is valid; that view is never placed.
        _ => alias.kind == AliasKind::View && alias.offset == Bytes(0),
    };
    if !good {
        let (name, of) = (report.name(value), report.name(alias.of));
        let size = size.map_or("unknown size".to_owned(), Bytes::exact);
        let message = format!("{name} ({size}) at byte {} does not lie inside {of}", alias.offset.0);
        report.at_value("E0231", value, message);
    }
}
