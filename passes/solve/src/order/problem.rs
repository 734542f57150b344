//! The ordering problem: operations, the buffers that they use, and the rules for counting live bytes.

use thiserror::Error;

use crate::basics::topological::topological;

/// An ordering problem: run every operation once, after its predecessors, with as few live bytes at the
/// worst step as possible.
///
/// A buffer lives from its first user to its last user, both included. A step counts all live buffers
/// and the scratch of its operation. A buffer that takes over the bytes of another buffer is counted
/// once with it (see [`Buffer::takes_over`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The operations. Their indices name them.
    pub operations: Vec<Operation>,
    /// The buffers. Their indices name them.
    pub buffers: Vec<Buffer>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Operations that must run before this one. Sharing a buffer does not order its users.
    pub predecessors: Vec<u32>,
    /// Bytes that live only during this step.
    pub scratch: u64,
}

/// Bytes that live together: a value, or an alias group (a value with all its views) that the caller
/// merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Size in bytes.
    pub size: u64,
    /// All operations that write or read the buffer or one of its views. The first to run allocates it,
    /// the last to run frees it.
    pub users: Vec<u32>,
    /// Whether the buffer lives before the first step (an input in this memory).
    pub live_from_start: bool,
    /// Whether the buffer lives to the end, after its last user (a result).
    pub kept: bool,
    /// Buffers whose bytes this one may take over; none of them is smaller. If the step that allocates
    /// this buffer is the last user of the other buffer, both are counted once at that step. A buffer
    /// takes over at most one other, and is taken over at most once.
    pub takes_over: Vec<u32>,
}

/// Reason why a problem is invalid, or why a sequence is not an order of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// A predecessor or user names an operation that does not exist.
    #[error("operation {operation} does not exist")]
    NoSuchOperation {
        /// The index that is out of range.
        operation: u32,
    },
    /// A buffer names a buffer that does not exist.
    #[error("buffer {buffer} does not exist")]
    NoSuchBuffer {
        /// The index that is out of range.
        buffer: u32,
    },
    /// A buffer lists itself or a smaller buffer among the buffers it may take over.
    #[error(
        "buffer {buffer} cannot take over buffer {other}: they are one buffer, or the other one is smaller"
    )]
    CannotTakeOver {
        /// The buffer that would take over.
        buffer: u32,
        /// The buffer that would be taken over.
        other: u32,
    },
    /// The operations depend on each other in a cycle.
    #[error("operation {operation} depends on itself")]
    Cycle {
        /// An operation on the cycle, or one that depends on it.
        operation: u32,
    },
    /// The sum of all sizes is 2^61 bytes or more.
    #[error("the sum of all sizes is too large")]
    TooLarge,
    /// There are more operations or buffers than 32-bit indices can name.
    #[error("{count} operations or buffers exceed the limit of {}", u32::MAX / 2)]
    TooMany {
        /// Number of operations or buffers.
        count: usize,
    },
    /// An order does not list all operations.
    #[error("the order lists {listed} of {operations} operations")]
    Incomplete {
        /// Length of the order.
        listed: usize,
        /// Number of operations in the problem.
        operations: usize,
    },
    /// An order lists an operation twice.
    #[error("the order lists operation {operation} twice")]
    Repeated {
        /// The operation.
        operation: u32,
    },
    /// An order runs an operation before one of its predecessors.
    #[error("operation {operation} runs before its predecessor {predecessor}")]
    TooEarly {
        /// The operation.
        operation: u32,
        /// The predecessor.
        predecessor: u32,
    },
}

/// Exclusive limit of the sum of all sizes, in bytes. It keeps signed differences from overflowing.
const MAX_SUM: u64 = 1 << 61;

impl Problem {
    /// Checks indices and sizes. Cycles are found later, by [`Problem::topological_order`]. O(n + uses).
    ///
    /// # Errors
    /// Returns the first rule that does not hold.
    pub fn validate(&self) -> Result<(), OrderError> {
        let count = self.operations.len().max(self.buffers.len());
        if count > (u32::MAX / 2) as usize {
            return Err(OrderError::TooMany { count });
        }
        let known = |operation: &u32| (*operation as usize) < self.operations.len();
        let named = self
            .operations
            .iter()
            .flat_map(|operation| &operation.predecessors)
            .chain(self.buffers.iter().flat_map(|buffer| &buffer.users));
        if let Some(&operation) = named.into_iter().find(|operation| !known(operation)) {
            return Err(OrderError::NoSuchOperation { operation });
        }
        self.validate_sizes()?;
        for (index, buffer) in self.buffers.iter().enumerate() {
            for &other in &buffer.takes_over {
                let taken =
                    self.buffers.get(other as usize).ok_or(OrderError::NoSuchBuffer { buffer: other })?;
                if other as usize == index || taken.size < buffer.size {
                    return Err(OrderError::CannotTakeOver { buffer: index as u32, other });
                }
            }
        }
        Ok(())
    }

    fn validate_sizes(&self) -> Result<(), OrderError> {
        let sizes = self
            .buffers
            .iter()
            .map(|buffer| buffer.size)
            .chain(self.operations.iter().map(|operation| operation.scratch));
        let sum =
            sizes.into_iter().try_fold(0_u64, |sum, size| sum.checked_add(size).filter(|sum| *sum < MAX_SUM));
        sum.map(|_| ()).ok_or(OrderError::TooLarge)
    }

    /// Checks that an order lists each operation once and after its predecessors. O(n + edges).
    ///
    /// # Errors
    /// Returns the first rule that the order breaks.
    pub fn validate_order(&self, order: &[u32]) -> Result<(), OrderError> {
        let operations = self.operations.len();
        if order.len() != operations {
            return Err(OrderError::Incomplete { listed: order.len(), operations });
        }
        let mut done = vec![false; operations];
        for &operation in order {
            match done.get(operation as usize) {
                None => return Err(OrderError::NoSuchOperation { operation }),
                Some(true) => return Err(OrderError::Repeated { operation }),
                Some(false) => {}
            }
            let early = self.operations[operation as usize]
                .predecessors
                .iter()
                .find(|before| !done.get(**before as usize).copied().unwrap_or(false));
            if let Some(&predecessor) = early {
                return Err(OrderError::TooEarly { operation, predecessor });
            }
            done[operation as usize] = true;
        }
        Ok(())
    }

    /// Returns a topological order: of the ready operations, the smallest index runs first. O((n +
    /// edges) log n).
    ///
    /// # Errors
    /// Fails if the problem is invalid or the operations depend on each other in a cycle.
    pub fn topological_order(&self) -> Result<Vec<u32>, OrderError> {
        self.validate()?;
        let before = |operation: u32| self.operations[operation as usize].predecessors.as_slice();
        topological(self.operations.len(), before, |operation| operation)
            .map_err(|operation| OrderError::Cycle { operation })
    }
}
