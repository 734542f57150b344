//! The budget problem: runs, the values that they read and make, memory spaces and the links between them.

use thiserror::Error;

/// A budget problem: run everything at least once, never hold more bytes in the near space than its capacity, in as little time as possible.
///
/// Runs are listed in the *given order*, which is valid: each run's operands are made by earlier runs, and its predecessors stand before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The runs, in the given order; a run is named by its index.
    pub runs: Vec<Run>,
    /// The values; a value is named by its index.
    pub values: Vec<Value>,
    /// The farther spaces; the near one, where everything is computed, is not listed.
    pub spaces: Vec<Space>,
    /// Ways between the near space and a farther one.
    pub links: Vec<Link>,
}

/// One operation that may run once or, if it is repeatable, several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Values that it reads; each must be in the near space while it runs.
    pub reads: Vec<u32>,
    /// Values that it makes, all of them each time that it runs.
    pub writes: Vec<u32>,
    /// Runs that must have run once before this one first runs, beyond those that make what it reads.
    pub predecessors: Vec<u32>,
    /// Time that it takes, in the problem's unit.
    pub cost: u64,
    /// Bytes of the near space that it needs while it runs, beside operands and results.
    pub scratch: u64,
    /// Whether it may run more than once (pure: no random numbers, no state).
    pub repeatable: bool,
}

/// Where a value's first copy comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A run makes it.
    #[default]
    Made,
    /// It lies in the near space from the start (an input in the same memory). It can be dropped only if it was stored before.
    Near,
    /// It lies in a farther space, named by its index, from the start to the end (a weight): it can be loaded at any time.
    Far(u32),
}

/// Bytes that live together: a value with all views of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Size in bytes.
    pub size: u64,
    /// Where its first copy comes from.
    pub origin: Origin,
    /// A result: from its first run to the end it is in the near space, is never dropped and never made again.
    pub kept: bool,
    /// Whether it may be stored and loaded.
    pub movable: bool,
    /// Values that the run which makes this one reads, not smaller than this one, whose bytes it may take over: if that run is the last reader of
    /// that copy, both count once at its step. One value takes over at most one other.
    pub takes_over: Vec<u32>,
}

/// A farther memory space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// How much it holds; `None` for no limit.
    pub capacity: Option<u64>,
}

/// A way between the near space and a farther one, in both directions, each an engine of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The farther space, by its index.
    pub space: u32,
    /// Bytes a unit of time from the near space; at least 1.
    pub store_rate: u64,
    /// Bytes a unit of time to the near space; at least 1.
    pub load_rate: u64,
    /// Time before the first byte of a store arrives.
    pub store_latency: u64,
    /// Time before the first byte of a load arrives.
    pub load_latency: u64,
}

/// One entry of a plan. Indices name runs, values and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Runs an operation, for the first time or again. What it makes replaces earlier copies of the same values for all events listed after it.
    Run(u32),
    /// Copies a value over a link to the farther space. Ends the near copy for all events listed after it; its bytes stay until the store and every
    /// reader listed before have ended.
    Store {
        /// The value.
        value: u32,
        /// The link.
        link: u32,
    },
    /// Copies a value over a link from the farther space; the near copy's bytes are taken from the start of the load.
    Load {
        /// The value.
        value: u32,
        /// The link.
        link: u32,
    },
}

/// A sequence of events, with what it needs and takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The events, in issue order.
    pub events: Vec<Event>,
    /// The most bytes in the near space at one time.
    pub peak: u64,
    /// Sum of the costs of all runs, repeated ones included.
    pub cost: u64,
    /// End of the last event, with one engine for runs and one for each direction of each link. Equals `cost` without transfers.
    pub makespan: u64,
}

impl Plan {
    /// The runs in their order, where nothing is moved.
    pub(super) fn runs(&self) -> Option<Vec<u32>> {
        let run = |event: &Event| if let Event::Run(run) = event { Some(*run) } else { None };
        self.events.iter().map(run).collect()
    }
}

/// Why something is no budget problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// A run that is named and does not exist.
    #[error("run {run} does not exist")]
    NoSuchRun {
        /// The index that is out of range.
        run: u32,
    },
    /// A value that is named and does not exist.
    #[error("value {value} does not exist")]
    NoSuchValue {
        /// The index that is out of range.
        value: u32,
    },
    /// A farther space that is named and does not exist.
    #[error("space {space} does not exist")]
    NoSuchSpace {
        /// The index that is out of range.
        space: u32,
    },
    /// A link that moves nothing.
    #[error("link {link} moves no bytes")]
    DeadLink {
        /// The link.
        link: u32,
    },
    /// A run that reads what no earlier run makes, or stands before its predecessor.
    #[error("run {run} stands before what it needs")]
    TooEarly {
        /// The run.
        run: u32,
    },
    /// A value that two runs make, or that is made although it has another origin.
    #[error("value {value} has more than one maker, or none")]
    Maker {
        /// The value.
        value: u32,
    },
    /// A value that may take over something that it cannot.
    #[error("value {value} cannot take over value {other}")]
    CannotTakeOver {
        /// The value that would take over.
        value: u32,
        /// The value that would be taken over.
        other: u32,
    },
    /// Sizes, costs or transfer times add up to more than 62 bits hold.
    #[error("sizes or times add up to too much")]
    TooLarge,
}

/// All sums stay below this, so that signed differences never overflow.
const MAX_SUM: u64 = 1 << 61;

impl Problem {
    /// Bytes that a run of that index needs at least: what it reads, what it makes but for what takes over an operand, and its workspace.
    #[must_use]
    pub fn need(&self, run: usize) -> u64 {
        let Some(run) = self.runs.get(run) else { return 0 };
        let size = |value: &u32| self.values.get(*value as usize).map_or(0, |value| value.size);
        let takes_over = |value: &&u32| self.values.get(**value as usize).is_some_and(|value| !value.takes_over.is_empty());
        let made = run.writes.iter().filter(|value| !takes_over(value)).map(size);
        run.reads.iter().map(size).chain(made).fold(run.scratch, u64::saturating_add)
    }

    /// Checks indices, the given order, makers and sums. O(n + uses).
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), BudgetError> {
        self.validate_sums()?;
        self.validate_links()?;
        let mut made = vec![false; self.values.len()];
        for (index, value) in self.values.iter().enumerate() {
            match value.origin {
                Origin::Made => {}
                Origin::Near => made[index] = true,
                Origin::Far(space) if (space as usize) < self.spaces.len() => made[index] = true,
                Origin::Far(space) => return Err(BudgetError::NoSuchSpace { space }),
            }
        }
        for (index, run) in self.runs.iter().enumerate() {
            let run_index = index as u32;
            for &value in &run.reads {
                match made.get(value as usize) {
                    None => return Err(BudgetError::NoSuchValue { value }),
                    Some(false) => return Err(BudgetError::TooEarly { run: run_index }),
                    Some(true) => {}
                }
            }
            for &before in &run.predecessors {
                if before as usize >= self.runs.len() {
                    return Err(BudgetError::NoSuchRun { run: before });
                }
                if before as usize >= index {
                    return Err(BudgetError::TooEarly { run: run_index });
                }
            }
            for &value in &run.writes {
                let made = made.get_mut(value as usize).ok_or(BudgetError::NoSuchValue { value })?;
                if std::mem::replace(made, true) {
                    return Err(BudgetError::Maker { value });
                }
                self.validate_takeovers(value, run)?;
            }
        }
        match made.iter().position(|made| !made) {
            Some(value) => Err(BudgetError::Maker { value: value as u32 }),
            None => Ok(()),
        }
    }

    fn validate_takeovers(&self, value: u32, maker: &Run) -> Result<(), BudgetError> {
        let data = &self.values[value as usize];
        for &other in &data.takes_over {
            let taken = self.values.get(other as usize).ok_or(BudgetError::NoSuchValue { value: other })?;
            if !maker.reads.contains(&other) || taken.size < data.size || other == value {
                return Err(BudgetError::CannotTakeOver { value, other });
            }
        }
        Ok(())
    }

    fn validate_links(&self) -> Result<(), BudgetError> {
        for (index, link) in self.links.iter().enumerate() {
            if link.space as usize >= self.spaces.len() {
                return Err(BudgetError::NoSuchSpace { space: link.space });
            }
            if link.store_rate == 0 || link.load_rate == 0 {
                return Err(BudgetError::DeadLink { link: index as u32 });
            }
        }
        Ok(())
    }

    fn validate_sums(&self) -> Result<(), BudgetError> {
        let sizes = self.values.iter().map(|value| value.size);
        let scratch = self.runs.iter().map(|run| run.scratch);
        let latencies = self.links.iter().flat_map(|link| [link.store_latency, link.load_latency]);
        if is_bounded(sizes.chain(scratch)) && is_bounded(self.runs.iter().map(|run| run.cost).chain(latencies)) {
            Ok(())
        } else {
            Err(BudgetError::TooLarge)
        }
    }
}

fn is_bounded(mut numbers: impl Iterator<Item = u64>) -> bool {
    numbers.try_fold(0_u64, |sum, each| sum.checked_add(each).filter(|sum| *sum < MAX_SUM)).is_some()
}
