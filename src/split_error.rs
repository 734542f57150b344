//! Reasons why a model cannot be divided over devices.

/// Most devices of a division.
pub(crate) const MAX_DEVICES: usize = 1024;

/// Why a model cannot be divided as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The number of devices is 0 or too large.
    #[error("{count} devices: a model is divided over 1 to {MAX_DEVICES}")]
    Count {
        /// The number given.
        count: usize,
    },
    /// The model has fewer pieces than devices.
    #[error("{devices} devices for a model of {pieces} pieces that can be apart")]
    TooManyDevices {
        /// Number of devices.
        devices: usize,
        /// Number of pieces.
        pieces: usize,
    },
    /// The number of budgets is neither 1 nor that of the devices.
    #[error("{budgets} budgets for {devices} devices")]
    Budgets {
        /// Number of budgets.
        budgets: usize,
        /// Number of devices.
        devices: usize,
    },
    /// A budget in percent: a device has bytes.
    #[error("`--device-budget` takes bytes, not a percentage")]
    Percentage,
    /// A link names a device that does not exist.
    #[error("a link names device d{rank}, and there are {devices} devices")]
    NoDevice {
        /// Rank in the link.
        rank: usize,
        /// Number of devices.
        devices: usize,
    },
    /// Links are stated, but not between neighbors.
    #[error("no link joins d{from} and d{to}")]
    NoLink {
        /// A rank.
        from: usize,
        /// The next rank.
        to: usize,
    },
    /// An option has no meaning for sections.
    #[error("`memc split` does not support {option}")]
    Unsupported {
        /// What was asked for.
        option: &'static str,
    },
    /// A piece needs more than every device has.
    #[error("{piece} alone needs {needs}, and the largest device has {budget}")]
    Piece {
        /// The node, or the run of nodes that cannot be apart.
        piece: String,
        /// Bytes that it needs, as text.
        needs: String,
        /// Largest budget, as text.
        budget: String,
    },
    /// No division keeps the budgets.
    #[error(
        "no division over {devices} devices keeps the budgets: the largest section of the most even one needs {needs}"
    )]
    Budget {
        /// Number of devices.
        devices: usize,
        /// Bytes of that section, as text.
        needs: String,
    },
    /// A graph output that is a weight.
    #[error("graph output `{name}` is a weight: no section makes it")]
    Unmade {
        /// The output.
        name: String,
    },
    /// A value of unknown size would cross, or a graph input has one.
    #[error("the size of `{name}` is unknown, and every section would need it")]
    Unsized {
        /// The value.
        name: String,
    },
    /// No graph input has a batch that can be divided.
    #[error("{}", batch_text(*parts, *batch))]
    Batch {
        /// Number of parts.
        parts: u64,
        /// First extent of the graph inputs; `None` if no input has one.
        batch: Option<u64>,
    },
    /// A node reads values of all parts.
    #[error("the batch cannot be divided: {node} needs all of `{value}`, not a part at a time")]
    Undivided {
        /// The node.
        node: String,
        /// A value that it reads.
        value: String,
    },
    /// An output that parts do not make.
    #[error(
        "the batch cannot be divided: parts of `{name}` are no sum, no mean and no positions of the whole"
    )]
    Unjoined {
        /// The value.
        name: String,
    },
    /// A sum over parts of a type that is not added.
    #[error(
        "the batch cannot be divided: `{name}` is a sum over parts, and numbers of type {element} are not added"
    )]
    Unadded {
        /// The value.
        name: String,
        /// Its element type.
        element: String,
    },
    /// The batch cannot be divided over devices.
    #[error("{0}")]
    Batched(Box<SplitError>),
    /// A node that all devices would run, each with another result.
    #[error("all devices would run {node}, which draws random numbers, keeps state or is unknown")]
    Unrepeated {
        /// The node.
        node: String,
    },
    /// A pipeline of a model without a loss.
    #[error("a pipeline needs a training step: no output is a loss, a single number")]
    NoLoss,
    /// A pipeline of a model without gradients.
    #[error("a pipeline needs a training step: nothing but `{loss}` is computed")]
    NoBackward {
        /// The output that is taken for the loss.
        loss: String,
    },
    /// A section cannot be written.
    #[error("a section cannot be made: {cause}")]
    Section {
        /// Reason, in words.
        cause: String,
    },
    /// The solver rejects the problem.
    #[error("the division cannot be solved: {cause}")]
    Solver {
        /// Reason, in words.
        cause: String,
    },
}

/// Says that a batch is not so many equal parts.
fn batch_text(parts: u64, batch: Option<u64>) -> String {
    match batch {
        Some(batch) => format!("a batch of {batch} is not {parts} equal parts"),
        None => format!("no graph input has a batch, which {parts} micro-batches would divide"),
    }
}

impl SplitError {
    /// Whether memory is lacking, as opposed to a request that makes no sense.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Self::Piece { .. } | Self::Budget { .. })
    }

    /// Advice on the next action.
    pub(crate) fn help(&self) -> String {
        match self {
            Self::Count { .. } => "write `--devices 2`".to_owned(),
            Self::TooManyDevices { pieces, .. } => format!("use at most `--devices {pieces}`"),
            Self::Budgets { devices, .. } => {
                format!("write one budget for all devices, or {devices} with commas between them")
            }
            Self::Percentage => "write bytes with a unit: `--device-budget 2GiB`".to_owned(),
            Self::NoDevice { devices, .. } => format!("devices are d0 to d{}", devices.saturating_sub(1)),
            Self::NoLink { from, to } => {
                format!("add `--link d{from}-d{to}=10GB/s,20us`, or leave out all links for equal ones")
            }
            Self::Unsupported { .. } => {
                "leave the option out, or plan each section with `memc optimize`".to_owned()
            }
            Self::Piece { .. } => {
                "raise the largest `--device-budget`, or bind smaller dimensions with `--dim`".to_owned()
            }
            Self::Budget { .. } => "raise `--device-budget`, or use more devices".to_owned(),
            Self::Unmade { .. } => "leave the output out of the model: its value is in the file".to_owned(),
            Self::Unsized { .. } => {
                "bind its dimensions with `--dim`, or state its size with `--assume`".to_owned()
            }
            Self::Batch { parts, batch } => {
                let fewer =
                    (1..*parts).rev().find(|parts| batch.is_some_and(|batch| batch.is_multiple_of(*parts)));
                format!("write `--micro-batches {}`", fewer.unwrap_or(1))
            }
            Self::Batched(cause) => match &**cause {
                Self::Batch { parts, batch } => {
                    let fewer = (1..*parts)
                        .rev()
                        .find(|parts| batch.is_some_and(|batch| batch.is_multiple_of(*parts)));
                    format!("write `--devices {}`", fewer.unwrap_or(1))
                }
                Self::Undivided { .. } | Self::Unjoined { .. } | Self::Unadded { .. } => {
                    "`--schedule 1f1b` with `--micro-batches 1` keeps the batch whole".to_owned()
                }
                cause => cause.help(),
            },
            Self::Unrepeated { .. } => "`--schedule 1f1b` runs each node on one device".to_owned(),
            Self::Undivided { .. } | Self::Unjoined { .. } | Self::Unadded { .. } => {
                "`--micro-batches 1` keeps the batch whole".to_owned()
            }
            Self::NoLoss | Self::NoBackward { .. } => {
                "`memc train` makes a step of a forward model; without `--schedule`, any model is divided"
                    .to_owned()
            }
            Self::Section { .. } | Self::Solver { .. } => {
                "`memc optimize` plans the model as a whole".to_owned()
            }
        }
    }
}
