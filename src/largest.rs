//! A limit for the largest single value: looks for a plan in which every value keeps it.
//!
//! Runtimes limit one binding or one allocation, browsers for instance to 128 MiB, however small the
//! whole arena is. Values of the model's interface (inputs, outputs, weights) cannot become smaller, so a
//! larger one is a proof that there is no plan. Other values become smaller in parts of the batch and in
//! regions, which the planner forms within a smaller budget: an arena of the limit's size keeps the limit
//! by itself, since it holds every value.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node};
use memc_layout::{Class, Layout};
use memc_onnx_proto::ModelFile;
use memc_passes::micro_batch::is_divided;

use crate::error::Error;
use crate::planned::Planned;
use crate::request::{Budget, Request};
use crate::size::Size;

/// Largest number of parts of the batch that are tried.
const MAX_PARTS: u64 = 64;

/// Finds a plan whose largest value keeps a limit, and states the limit in its layout. `plan` plans one
/// request.
///
/// # Errors
/// A value of the interface exceeds the limit, the size of a value is unknown, or no plan was found; and
/// those of `plan`.
pub(crate) fn within(
    limit: Bytes,
    file: &ModelFile,
    request: &Request,
    plan: &mut dyn FnMut(&Request) -> Result<Planned, Error>,
) -> Result<Planned, Error> {
    // The check of a plan holds the limit that its layout states, so attempts state none.
    let request = &Request { max_value: None, ..request.clone() };
    let first = plan(request)?;
    if let Some(row) = first.layout.unplanned.first() {
        return Err(Error::LargestUnknown { value: row.name.clone() });
    }
    let fixed = interface(file);
    if let Some((value, bytes)) =
        largest(&first.layout, &|name| fixed.contains(name)).filter(|(_, bytes)| *bytes > limit.0)
    {
        return Err(Error::Largest {
            value: value.to_owned(),
            bytes,
            limit: limit.0,
            is_proven: true,
            maker: None,
        });
    }
    if keeps(&first.layout, limit) {
        return Ok(stated(first, limit));
    }
    let arena = first.arena();
    let mut least = first;
    let may_search = request.passes.is_none();
    let may_divide =
        request.rewrite.micro_batches.is_none() && request.rewrite.enabled && !request.rewrite.exact;
    let mut parts = 2;
    while may_search && may_divide && parts <= MAX_PARTS {
        let mut changed = request.clone();
        changed.rewrite.micro_batches = Some(parts);
        match plan(&changed) {
            Ok(planned) if !is_divided(&planned.module) => break,
            Ok(planned) if keeps(&planned.layout, limit) => return Ok(stated(planned, limit)),
            Ok(planned) => least = smaller(least, planned),
            Err(error) if error.smallest().is_some() => break,
            Err(error) => return Err(error),
        }
        parts *= 2;
    }
    // Down to the budget that keeps the limit by itself, or to the smallest plan.
    let (mut budget, mut tried, mut is_last) = ((arena / 2).max(limit.0), arena, false);
    while may_search && budget < tried {
        let mut changed = request.clone();
        changed.budgets.retain(|budget| budget.space.is_some());
        changed.budgets.push(Budget::from(Size::Bytes(budget)));
        match plan(&changed) {
            Ok(planned) if keeps(&planned.layout, limit) => return Ok(stated(planned, limit)),
            Ok(planned) => {
                least = smaller(least, planned);
                (tried, budget) = (if is_last { 0 } else { budget }, (budget / 2).max(limit.0));
            }
            Err(error) if is_last => return Err(error),
            Err(error) => {
                let Some(smallest) = error.smallest() else { return Err(error) };
                (budget, is_last) = (smallest, true);
            }
        }
    }
    let (value, bytes) = largest(&least.layout, &|_| true).unwrap_or_default();
    let maker = maker(&least.module, value);
    Err(Error::Largest { value: value.to_owned(), bytes, limit: limit.0, is_proven: false, maker })
}

/// Adds the limit to the options that the layouts of a plan state.
fn stated(mut planned: Planned, limit: Bytes) -> Planned {
    for layout in [Some(&mut planned.layout), planned.before.as_mut()].into_iter().flatten() {
        layout.options.insert("max_value".to_owned(), limit.0.to_string());
    }
    planned
}

/// Name and operator of the node that makes a value of the main graph.
fn maker(module: &Module, value: &str) -> Option<String> {
    let nodes = module.graph(module.main()).nodes.iter();
    let makes = |node: &&Node| module.node(**node).results().any(|result| module.value(result).name == value);
    nodes
        .clone()
        .find(makes)
        .map(|node| format!("\"{}\" ({})", module.node(*node).name, module.node(*node).operator.name))
}

/// Names of the model's inputs, outputs and weights.
fn interface(file: &ModelFile) -> BTreeSet<&str> {
    let graph = file.graph();
    let values = graph.input.iter().chain(&graph.output).map(|value| value.name());
    values.chain(graph.initializer.iter().map(|tensor| tensor.name())).collect()
}

/// Returns the largest value of a plan among those with a name that fits, and its bytes. A body of control
/// flow counts with its arena, which holds its values.
fn largest<'l>(layout: &'l Layout, fits: &dyn Fn(&str) -> bool) -> Option<(&'l str, u64)> {
    let values = layout.tensors.iter().filter(|tensor| tensor.class != Class::Scratch);
    let values = values.map(|tensor| (tensor.name.as_str(), tensor.bytes));
    let bodies = layout.subgraphs.iter().map(|body| (body.graph.as_str(), body.arena_bytes));
    // Of equal ones, the first by name.
    values
        .chain(bodies)
        .filter(|(name, _)| fits(name))
        .max_by_key(|(name, bytes)| (*bytes, std::cmp::Reverse(*name)))
}

fn keeps(layout: &Layout, limit: Bytes) -> bool {
    largest(layout, &|_| true).is_none_or(|(_, bytes)| bytes <= limit.0)
}

/// The plan with the smaller largest value; the first of equal ones.
fn smaller(one: Planned, other: Planned) -> Planned {
    let bytes = |planned: &Planned| largest(&planned.layout, &|_| true).map_or(0, |(_, bytes)| bytes);
    if bytes(&other) < bytes(&one) { other } else { one }
}
