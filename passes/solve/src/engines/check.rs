//! The independent checker of schedules for several engines. It shares no code with the solver.

use thiserror::Error;

use super::problem::{Problem, Schedule};

/// Reason why a schedule is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A schedule does not list all operations.
    #[error("the schedule lists {listed} of {operations} operations")]
    Incomplete {
        /// Length of the schedule.
        listed: usize,
        /// Number of operations in the problem.
        operations: usize,
    },
    /// An operation runs on an engine that does not exist.
    #[error("operation {operation} runs on engine {engine}, which does not exist")]
    NoSuchEngine {
        /// The operation.
        operation: usize,
        /// The engine.
        engine: u32,
    },
    /// An engine runs two operations at once.
    #[error("operations {operation} and {other} run on one engine at the same time")]
    Together {
        /// The earlier operation.
        operation: usize,
        /// The later one.
        other: usize,
    },
    /// An operation starts before one of its predecessors has ended.
    #[error("operation {operation} starts before its predecessor {predecessor} has ended")]
    TooEarly {
        /// The operation.
        operation: usize,
        /// The predecessor.
        predecessor: usize,
    },
    /// The stated end differs from that of the schedule.
    #[error("the stated end is {stated}, the last operation ends at {actual}")]
    WrongEnd {
        /// Stated end.
        stated: u64,
        /// Latest end of an operation.
        actual: u64,
    },
}

/// Checks a schedule and its stated end. Bytes are not counted: whoever places the buffers knows them
/// exactly. O(n log n + edges).
///
/// # Errors
/// Returns the first rule that is broken.
pub fn check(problem: &Problem, schedule: &Schedule, stated: u64) -> Result<(), Violation> {
    let operations = problem.times.len();
    let listed = schedule.engines.len().min(schedule.starts.len());
    if listed != operations || schedule.engines.len() != schedule.starts.len() {
        return Err(Violation::Incomplete { listed, operations });
    }
    let end = |operation: usize| schedule.starts[operation].saturating_add(problem.times[operation]);
    for (operation, engine) in schedule.engines.iter().enumerate() {
        if *engine >= problem.engines {
            return Err(Violation::NoSuchEngine { operation, engine: *engine });
        }
        let before = problem.order.operations[operation].predecessors.iter().map(|before| *before as usize);
        if let Some(predecessor) = before.into_iter().find(|before| end(*before) > schedule.starts[operation])
        {
            return Err(Violation::TooEarly { operation, predecessor });
        }
    }
    let mut rows: Vec<usize> = (0..operations).collect();
    rows.sort_by_key(|operation| (schedule.engines[*operation], schedule.starts[*operation]));
    for pair in rows.windows(2) {
        let [operation, other] = [pair[0], pair[1]];
        if schedule.engines[operation] == schedule.engines[other] && end(operation) > schedule.starts[other] {
            return Err(Violation::Together { operation, other });
        }
    }
    let actual = (0..operations).map(end).max().unwrap_or(0);
    if actual == stated { Ok(()) } else { Err(Violation::WrongEnd { stated, actual }) }
}
