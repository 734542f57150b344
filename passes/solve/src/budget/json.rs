//! Budget problems as JSON: reads the file format of [`crate::order::json`], with links, and writes the
//! answer with its certificate.
//!
//! Each node is a run that makes one value and may execute again. The value of a run without readers is
//! live at its own step only. Links join the spaces `device` and `host`.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::order::json::{Dag, DagError, Node, Way, read};

use super::certified::Certified;
use super::problem::{Event, Link, Plan, Problem, Run, Space, Value};

/// Name of the near space, in which every run executes.
const NEAR: &str = "device";
/// Name of the farther space, at the other end of the links.
const FAR: &str = "host";

/// Why a file is not a budget problem.
#[derive(Debug, Error)]
pub enum BudgetFileError {
    /// Nodes or edges are wrong.
    #[error(transparent)]
    Dag(#[from] DagError),
    /// A link joins other spaces.
    #[error("a link leads from `{from}` to `{to}`; links join `device` and `host`")]
    UnknownLink {
        /// Space at which the link starts.
        from: String,
        /// Space at which the link ends.
        to: String,
    },
    /// Two links have one direction.
    #[error("two links lead from `{from}` to `{to}`")]
    RepeatedLink {
        /// Space at which both links start.
        from: String,
        /// Space at which both links end.
        to: String,
    },
}

/// A budget as users write it: bytes, or a share of the given order's peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A number of bytes.
    Bytes(u64),
    /// A fraction of a peak.
    Share {
        /// Numerator.
        numerator: u64,
        /// Denominator; at least 1.
        denominator: u64,
    },
}

/// The error for a text that is not a budget.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is neither a number of bytes nor a percentage; write 240900 or 62.5%")]
pub struct NoBudget {
    /// The rejected text.
    pub text: String,
}

impl FromStr for Budget {
    type Err = NoBudget;

    /// Reads `BYTES` or `P%` with up to nine decimals, exactly.
    fn from_str(text: &str) -> Result<Self, NoBudget> {
        let wrong = || NoBudget { text: text.to_owned() };
        let number = |digits: &str| -> Result<u64, NoBudget> {
            // `parse` alone would accept a sign.
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse().map_err(|_| wrong())
            } else {
                Err(wrong())
            }
        };
        let Some(percent) = text.strip_suffix('%') else { return Ok(Self::Bytes(number(text)?)) };
        let (whole, decimals) = percent.split_once('.').unwrap_or((percent, ""));
        if decimals.len() > 9 {
            return Err(wrong());
        }
        let numerator = number(&[whole, decimals].concat())?;
        Ok(Self::Share { numerator, denominator: 100 * 10_u64.pow(decimals.len() as u32) })
    }
}

impl Budget {
    /// Returns the budget in bytes, if `peak` is the peak of the given order; shares round down.
    #[must_use]
    pub fn bytes(self, peak: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share { numerator, denominator } => {
                let share = u128::from(peak) * u128::from(numerator) / u128::from(denominator.max(1));
                u64::try_from(share).unwrap_or(u64::MAX)
            }
        }
    }
}

/// One event of an answer, by node ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Executes a node.
    Run(u64),
    /// Copies a node's value to the host and ends the copy on the device.
    Store(u64),
    /// Copies a node's value back to the device.
    Load(u64),
}

/// An answer file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Node ids in the order of their runs, with repeats; absent without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Vec<u64>>,
    /// All events in issue order, for problems with links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Step>>,
    /// Peak on the device, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Sum of the costs of all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// End of the last event, for problems with links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub makespan: Option<u64>,
    /// Budget, in bytes.
    pub budget: u64,
    /// Cost of running each node once.
    pub base_cost: u64,
    /// Peak of the given order.
    pub base_peak: u64,
    /// Lower bound of the cost within the budget, for all plans of the scope.
    pub lower_bound_cost: u64,
    /// Scope of the lower bound: `given order` for plans whose first runs keep the given order; `any
    /// order` for all plans.
    pub lower_bound_scope: String,
    /// Lower bound of the makespan within the budget, for problems with links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_bound_makespan: Option<u64>,
    /// Lower bound of the peak on the device, in bytes.
    pub lower_bound_peak: u64,
    /// `optimal`, `feasible`, `infeasible` or `unknown`.
    pub status: String,
}

/// Converts a file to a problem: node `i` of the list is run `i` and makes value `i`; the given order is
/// `0, 1, 2, …`. O((n + edges) log n).
///
/// # Errors
/// Rejects repeated or unknown ids, an edge against the given order, and links between other spaces than
/// `device` and `host`.
pub fn problem(dag: &Dag) -> Result<Problem, BudgetFileError> {
    let link = link(&dag.links)?;
    let mut problem = Problem::default();
    for (place, (reads, node)) in dag.operands()?.into_iter().zip(&dag.nodes).enumerate() {
        let reads: Vec<u32> = reads.into_iter().collect::<BTreeSet<u32>>().into_iter().collect();
        problem.runs.push(Run {
            reads,
            writes: vec![place as u32],
            cost: node.cost,
            repeatable: true,
            ..Run::default()
        });
        problem.values.push(Value { size: node.size, movable: link.is_some(), ..Value::default() });
    }
    if let Some(link) = link {
        problem.spaces.push(Space::default());
        problem.links.push(link);
    }
    Ok(problem)
}

/// Joins the two directions to one link; returns `None` if a direction is missing, since a value could
/// not go and come back.
fn link(ways: &[Way]) -> Result<Option<Link>, BudgetFileError> {
    let (mut store, mut load) = (None, None);
    for way in ways {
        let (from, to) = (way.from.clone(), way.to.clone());
        let direction = match (way.from.as_str(), way.to.as_str()) {
            (NEAR, FAR) => &mut store,
            (FAR, NEAR) => &mut load,
            _ => return Err(BudgetFileError::UnknownLink { from, to }),
        };
        if direction.replace(way).is_some() {
            return Err(BudgetFileError::RepeatedLink { from, to });
        }
    }
    Ok(store.zip(load).map(|(store, load)| Link {
        space: 0,
        store_rate: store.bytes_per_unit,
        load_rate: load.bytes_per_unit,
        store_latency: store.latency,
        load_latency: load.latency,
    }))
}

/// Writes the answer of a problem at a budget; `base_peak` is the peak of the given order.
#[must_use]
pub fn answer(dag: &Dag, budget: u64, base_peak: u64, certified: &Certified) -> Answer {
    let (plan, certificate) = (certified.outcome.solution.as_ref(), &certified.certificate);
    let id = |index: u32| dag.nodes.get(index as usize).map_or(u64::from(index), |node| node.id);
    let step = |event: &Event| match *event {
        Event::Run(run) => Step::Run(id(run)),
        Event::Store { value, .. } => Step::Store(id(value)),
        Event::Load { value, .. } => Step::Load(id(value)),
    };
    let runs = |plan: &Plan| {
        plan.events
            .iter()
            .filter_map(|event| if let Event::Run(run) = event { Some(id(*run)) } else { None })
            .collect()
    };
    let with_links = plan.filter(|_| !dag.links.is_empty());
    Answer {
        sequence: plan.map(runs),
        events: with_links.map(|plan| plan.events.iter().map(step).collect()),
        peak: plan.map(|plan| plan.peak),
        cost: plan.map(|plan| plan.cost),
        makespan: with_links.map(|plan| plan.makespan),
        budget,
        base_cost: dag.nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.cost)),
        base_peak,
        lower_bound_cost: certificate.cost,
        lower_bound_scope: certificate.scope.as_str().to_owned(),
        lower_bound_makespan: (!dag.links.is_empty()).then_some(certificate.makespan),
        lower_bound_peak: certificate.peak,
        status: certified.outcome.status().as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn budgets_are_exact() {
        let bytes = |text: &str, peak| text.parse::<Budget>().unwrap().bytes(peak);
        assert_eq!(
            (bytes("17", 5), bytes("70%", 10), bytes("62.5%", 15), bytes("100%", u64::MAX)),
            (17, 7, 9, u64::MAX)
        );
        // One byte less than two thirds, and a share that floating point would round up.
        assert_eq!((bytes("66.666666%", 3), bytes("99.999999999%", 1 << 60)), (1, 1_152_921_504_595_317_760));
        for wrong in
            ["", "%", "-1%", "+5", "1e3", "5 %", "1.2.3%", "1.0000000000%", "99999999999999999999", "4KiB"]
        {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn links_need_both_directions() {
        let way = |from: &str, to: &str| Way {
            from: from.to_owned(),
            to: to.to_owned(),
            bytes_per_unit: 3,
            latency: 1,
        };
        assert_eq!(link(&[way("device", "host")]).unwrap(), None);
        let both = link(&[way("host", "device"), way("device", "host")]).unwrap();
        assert_eq!(
            both,
            Some(Link { space: 0, store_rate: 3, load_rate: 3, store_latency: 1, load_latency: 1 })
        );
        assert!(matches!(link(&[way("device", "disk")]), Err(BudgetFileError::UnknownLink { .. })));
        assert!(matches!(
            link(&[way("device", "host"), way("device", "host")]),
            Err(BudgetFileError::RepeatedLink { .. })
        ));
    }

    #[test]
    fn an_edge_that_is_listed_twice_is_read_once() {
        let dag =
            read(r#"{"nodes": [{"id": 3, "size": 2, "cost": 5}, {"id": 1, "size": 1}], "edges": [[3, 1], [3, 1]]}"#).unwrap();
        let problem = problem(&dag).unwrap();
        assert_eq!(
            (problem.runs[1].reads.as_slice(), problem.runs[0].cost, problem.links.len()),
            ([0].as_slice(), 5, 0)
        );
        assert_eq!(problem.validate(), Ok(()));
    }
}
