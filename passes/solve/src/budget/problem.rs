//! The budget problem: runs, the values that they read and make, memory spaces and the links between
//! them.

use std::borrow::Cow;

use thiserror::Error;

/// A budget problem: execute every run at least once, never hold more bytes in the near space than its
/// capacity, and take as little time as possible.
///
/// Runs are listed in the *given order*, which is valid: each run's operands are made by earlier runs,
/// and its predecessors are listed before it.
///
/// Optional runs give a plan other ways to a value: an optional run makes a value that a run makes too,
/// with equal bytes, or a *code*, a value that only optional runs make and read. A value that is not
/// used for long can thus lie as a small code, made by one optional run and read by another. An optional run
/// that reads no code makes a value from others, such as the result of a run that reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Runs, in the given order; a run is named by its index.
    pub runs: Vec<Run>,
    /// Runs that a plan may leave out, or execute any number of times; their indices follow those of
    /// `runs`.
    pub optional: Vec<Run>,
    /// Values; a value is named by its index.
    pub values: Vec<Value>,
    /// Farther spaces. The near space, in which every run executes, is not listed.
    pub spaces: Vec<Space>,
    /// Links between the near space and a farther space.
    pub links: Vec<Link>,
}

/// An operation that executes once or, if it is repeatable, several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Values that the run reads; each must be in the near space while the run executes.
    pub reads: Vec<u32>,
    /// Values that the run makes; every execution makes all of them.
    pub writes: Vec<u32>,
    /// Runs that must have executed once before this run first executes, in addition to the makers of
    /// its operands.
    pub predecessors: Vec<u32>,
    /// Time of one execution, in the problem's unit.
    pub cost: u64,
    /// Workspace: bytes of the near space that the run needs while it executes, in addition to operands
    /// and results.
    pub scratch: u64,
    /// Whether the run may execute more than once: it is pure, without random numbers and without state.
    pub repeatable: bool,
}

/// Source of a value's first copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A run makes the value.
    #[default]
    Made,
    /// The value is in the near space from the start (an input in near memory). It can be dropped
    /// only if it was stored before.
    Near,
    /// The value is in a farther space, named by its index, from the start to the end (a weight). It can
    /// be loaded at any time.
    Far(u32),
}

/// A buffer: a value together with all views of it, which are live together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Size in bytes.
    pub size: u64,
    /// Source of the first copy.
    pub origin: Origin,
    /// Whether the value is a result: from its first run to the end it stays in the near space, is never
    /// dropped and never recomputed.
    pub kept: bool,
    /// Whether the value may be stored and loaded.
    pub movable: bool,
    /// Operands of the run that makes this value, each at least as large as this value, whose bytes this
    /// value may take over. If that run is the last reader of the operand's copy, the step counts the
    /// bytes of both only once. One value takes over at most one operand.
    pub takes_over: Vec<u32>,
}

/// A farther memory space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Capacity in bytes; `None` for no limit.
    pub capacity: Option<u64>,
}

/// A link between the near space and a farther space, with one engine for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the farther space.
    pub space: u32,
    /// Bytes per unit of time from the near space to the farther one; at least 1.
    pub store_rate: u64,
    /// Bytes per unit of time from the farther space to the near one; at least 1.
    pub load_rate: u64,
    /// Time before the first byte of a store arrives.
    pub store_latency: u64,
    /// Time before the first byte of a load arrives.
    pub load_latency: u64,
}

/// One entry of a plan. Indices name runs, values and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Executes a run, for the first time or again. For all events listed later, its results replace
    /// earlier copies of these values.
    Run(u32),
    /// Copies a value over a link to the farther space. For all events listed later, the near copy no
    /// longer exists; its bytes stay in use until the store and every reader listed before it have
    /// ended.
    Store {
        /// Index of the value.
        value: u32,
        /// Index of the link.
        link: u32,
    },
    /// Copies a value over a link from the farther space. The near copy takes its bytes from the start
    /// of the load.
    Load {
        /// Index of the value.
        value: u32,
        /// Index of the link.
        link: u32,
    },
}

/// A sequence of events, with its peak and its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events, in issue order.
    pub events: Vec<Event>,
    /// Peak of the near space, in bytes.
    pub peak: u64,
    /// Sum of the costs of all runs; a repeated run counts each time.
    pub cost: u64,
    /// End of the last event, with one engine for runs and one for each direction of each link. Equals
    /// `cost` without transfers.
    pub makespan: u64,
}

impl Plan {
    /// Returns the runs in their order; `None` if the plan has transfers.
    pub(super) fn runs(&self) -> Option<Vec<u32>> {
        let run = |event: &Event| if let Event::Run(run) = event { Some(*run) } else { None };
        self.events.iter().map(run).collect()
    }
}

/// Why a problem is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// A named run does not exist.
    #[error("run {run} does not exist")]
    NoSuchRun {
        /// The index that is out of range.
        run: u32,
    },
    /// A named value does not exist.
    #[error("value {value} does not exist")]
    NoSuchValue {
        /// The index that is out of range.
        value: u32,
    },
    /// A named farther space does not exist.
    #[error("space {space} does not exist")]
    NoSuchSpace {
        /// The index that is out of range.
        space: u32,
    },
    /// A link has a rate of 0.
    #[error("link {link} moves no bytes")]
    DeadLink {
        /// Index of the link.
        link: u32,
    },
    /// A run reads a value that no earlier run makes, or is listed before its predecessor.
    #[error("run {run} comes before a run that it needs")]
    TooEarly {
        /// Index of the run.
        run: u32,
    },
    /// A value has two makers besides optional runs, has a maker although its origin is another one, or
    /// has no maker although it needs one; or an optional run makes a value that is kept.
    #[error("value {value} must be written by exactly one run")]
    Maker {
        /// Index of the value.
        value: u32,
    },
    /// A value lists an operand that it cannot take over: the maker does not read the operand, or the
    /// operand is smaller.
    #[error("value {value} cannot take over value {other}")]
    CannotTakeOver {
        /// The value that would take over.
        value: u32,
        /// The value that would be taken over.
        other: u32,
    },
    /// Sizes and workspaces, or costs and latencies, add up to 2^61 or more.
    #[error("the sum of all sizes or times is too large")]
    TooLarge,
}

/// Upper bound of all sums, so that signed differences never overflow.
const MAX_SUM: u64 = 1 << 61;

impl Problem {
    /// Returns the bytes that a run needs at least: its operands, its results except those that may take
    /// over an operand, and its workspace. Returns 0 for an index out of range.
    #[must_use]
    pub fn need(&self, run: usize) -> u64 {
        let Some(run) = self.runs.get(run) else { return 0 };
        let size = |value: &u32| self.values.get(*value as usize).map_or(0, |value| value.size);
        let takes_over = |value: &&u32| {
            self.values.get(**value as usize).is_some_and(|value| !value.takes_over.is_empty())
        };
        let made = run.writes.iter().filter(|value| !takes_over(value)).map(size);
        run.reads.iter().map(size).chain(made).fold(run.scratch, u64::saturating_add)
    }

    /// Returns a run or an optional run by its index.
    #[must_use]
    pub fn run(&self, index: u32) -> Option<&Run> {
        let index = index as usize;
        self.runs.get(index).or_else(|| self.optional.get(index.checked_sub(self.runs.len())?))
    }

    /// Returns all runs, the optional runs last.
    pub fn all_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.optional)
    }

    /// Returns a problem without optional runs whose plans need no more bytes and no more time: each
    /// value that an optional run can make has the least size of the codes of these runs.
    ///
    /// Lower bounds of its plans are lower bounds of the plans of this problem: in place of a value or
    /// its code, the smaller of both is live. A result that may take over a shrunk value shrinks as well,
    /// because the value may end in this problem while its code stays. O(runs + uses).
    #[must_use]
    pub fn relaxed(&self) -> Cow<'_, Self> {
        if self.optional.is_empty() {
            return Cow::Borrowed(self);
        }
        let is_code = self.codes();
        let mut relaxed = self.without_optional();
        for run in &self.optional {
            let codes = run.reads.iter().filter(|value| is_code[**value as usize]);
            let bytes = codes.map(|value| self.values[*value as usize].size).fold(0, u64::saturating_add);
            for &value in &run.writes {
                let size = &mut relaxed.values[value as usize].size;
                *size = bytes.min(*size);
            }
        }
        for &value in self.runs.iter().flat_map(|run| &run.writes) {
            let takes_over = &self.values[value as usize].takes_over;
            let room = takes_over.iter().map(|other| relaxed.values[*other as usize].size).min();
            let size = &mut relaxed.values[value as usize].size;
            *size = room.map_or(*size, |room| room.min(*size));
        }
        Cow::Owned(relaxed)
    }

    /// Returns the problem without optional runs; codes keep their indices and take no bytes.
    #[must_use]
    pub fn without_optional(&self) -> Self {
        let mut plain = Self { optional: Vec::new(), ..self.clone() };
        for (value, _) in plain.values.iter_mut().zip(self.codes()).filter(|(_, is_code)| *is_code) {
            *value = Value { origin: Origin::Near, ..Value::default() };
        }
        plain
    }

    /// Returns, for each value, whether only optional runs make it.
    pub(super) fn codes(&self) -> Vec<bool> {
        let mut is_code = vec![false; self.values.len()];
        self.optional.iter().flat_map(|run| &run.writes).for_each(|value| is_code[*value as usize] = true);
        self.runs.iter().flat_map(|run| &run.writes).for_each(|value| is_code[*value as usize] = false);
        is_code
    }

    /// Checks indices, the given order, makers and sums. O(n + uses).
    ///
    /// # Errors
    /// Returns the first rule that does not hold.
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
        self.validate_optional(&mut made)?;
        match made.iter().position(|made| !made) {
            Some(value) => Err(BudgetError::Maker { value: value as u32 }),
            None => Ok(()),
        }
    }

    /// Checks the optional runs, and marks the values that they make.
    fn validate_optional(&self, made: &mut [bool]) -> Result<(), BudgetError> {
        for &value in self.optional.iter().flat_map(|run| &run.writes) {
            let data = self.values.get(value as usize).ok_or(BudgetError::NoSuchValue { value })?;
            if data.kept || data.origin != Origin::Made {
                return Err(BudgetError::Maker { value });
            }
            made[value as usize] = true;
        }
        for (index, run) in (self.runs.len() as u32..).zip(&self.optional) {
            for &value in &run.reads {
                match made.get(value as usize) {
                    None => return Err(BudgetError::NoSuchValue { value }),
                    Some(false) => return Err(BudgetError::TooEarly { run: index }),
                    Some(true) => {}
                }
            }
            if let Some(&run) = run.predecessors.iter().find(|before| **before as usize >= self.runs.len()) {
                return Err(BudgetError::NoSuchRun { run });
            }
        }
        Ok(())
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
        let scratch = self.all_runs().map(|run| run.scratch);
        let latencies = self.links.iter().flat_map(|link| [link.store_latency, link.load_latency]);
        if is_bounded(sizes.chain(scratch))
            && is_bounded(self.all_runs().map(|run| run.cost).chain(latencies))
        {
            Ok(())
        } else {
            Err(BudgetError::TooLarge)
        }
    }
}

fn is_bounded(mut numbers: impl Iterator<Item = u64>) -> bool {
    numbers.try_fold(0_u64, |sum, each| sum.checked_add(each).filter(|sum| *sum < MAX_SUM)).is_some()
}
