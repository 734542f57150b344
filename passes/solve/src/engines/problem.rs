//! Operations with times and buffers, and the engines that run them.

use thiserror::Error;

use crate::order::{self, OrderError};

/// A scheduling problem: run every operation once, on one of several equal engines, after its predecessors.
///
/// An engine runs one operation at a time. A buffer lives from the start of its first user to the end of
/// its last user; see [`order::Buffer`] for the rest of its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Operations and buffers. The operations are listed in an order that a single engine can run.
    pub order: order::Problem,
    /// Time of each operation, at least 1.
    pub times: Vec<u64>,
    /// Number of engines, at least 1.
    pub engines: u32,
    /// Most bytes that may live at once.
    pub capacity: u64,
}

/// Engine and start of each operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Engine of each operation, from 0.
    pub engines: Vec<u32>,
    /// Time at which each operation starts.
    pub starts: Vec<u64>,
}

/// Reason why a problem is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// Operations or buffers are wrong.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// There is no engine.
    #[error("there is no engine")]
    NoEngine,
    /// There are fewer or more times than operations.
    #[error("{times} times are listed for {operations} operations")]
    Times {
        /// Number of times.
        times: usize,
        /// Number of operations.
        operations: usize,
    },
    /// An operation takes no time, or all together take too much.
    #[error("operation {operation} takes no time, or the times up to it are 2^62 or more together")]
    Time {
        /// The operation.
        operation: usize,
    },
}

/// Exclusive limit of the sum of all times.
const MAX_SUM: u64 = 1 << 62;

impl Problem {
    /// Checks all properties that the solver relies on. O(n + uses).
    ///
    /// # Errors
    /// Returns the first rule that does not hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        self.order.validate()?;
        let operations = self.order.operations.len();
        if self.engines == 0 {
            return Err(EngineError::NoEngine);
        }
        if self.times.len() != operations {
            return Err(EngineError::Times { times: self.times.len(), operations });
        }
        let mut sum = 0_u64;
        for (operation, time) in self.times.iter().enumerate() {
            sum = sum.saturating_add(*time);
            if *time == 0 || sum >= MAX_SUM {
                return Err(EngineError::Time { operation });
            }
        }
        let listed: Vec<u32> = (0..operations as u32).collect();
        Ok(self.order.validate_order(&listed)?)
    }
}

impl Schedule {
    /// Returns the time at which an operation ends.
    #[must_use]
    pub fn end(&self, problem: &Problem, operation: usize) -> u64 {
        self.starts[operation].saturating_add(problem.times[operation])
    }

    /// Returns the time at which the last operation ends. O(n).
    #[must_use]
    pub fn makespan(&self, problem: &Problem) -> u64 {
        (0..self.starts.len()).map(|operation| self.end(problem, operation)).max().unwrap_or(0)
    }

    /// Returns the operations in the order of their starts. Operations that start at once keep their order.
    #[must_use]
    pub fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.starts.len() as u32).collect();
        order.sort_by_key(|operation| self.starts[*operation as usize]);
        order
    }
}
