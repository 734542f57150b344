//! Reasons why a model does not fit into a memory.

use memc_ir::Bytes;

use crate::need::Need;

/// Why no plan of a model fits.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FitError {
    /// Several dimensions are open, and none is named.
    #[error("the graph inputs leave {} dimensions open: {}", names.len(), names.join(", "))]
    Open {
        /// Their names.
        names: Vec<String>,
    },
    /// No inputs are named as caches of outputs.
    #[error("no inputs are named as caches of the outputs, so there is nothing that a context may fill")]
    Caches,
    /// The caches have no dimension of their own for their rows.
    #[error("the caches do not grow along one open dimension by another one")]
    Rows,
    /// A node may give other results if the caches have rows that are not valid.
    #[error(
        "`{name}` ({operator}) depends on the number of rows of caches and masks, of which some are not valid in full caches"
    )]
    Valid {
        /// Name of the node.
        name: String,
        /// Its operator.
        operator: String,
    },
    /// The model has no positions for the rows of the context.
    #[error("the table `{table}` has {rows} positions, and the context has {context}")]
    Positions {
        /// Name of the table.
        table: String,
        /// Its rows.
        rows: u64,
        /// The context.
        context: u64,
    },
    /// The smallest extent needs more than there is.
    #[error(
        "{} needs {} of {}: {} of weights, {} of state, {} of inputs and outputs, and an arena of {}",
        smallest.as_deref().unwrap_or("the model"), Bytes(need.in_run()).exact(), Bytes(*ram).exact(), Bytes(need.weights),
        Bytes(need.state), Bytes(need.interface), Bytes(need.arena)
    )]
    Short {
        /// Size of the memory in bytes.
        ram: u64,
        /// Least bytes that a plan was found for.
        need: Need,
        /// The smallest extent, as a user states it.
        smallest: Option<String>,
    },
}

impl FitError {
    /// Stable code, as `memc explain` knows it.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "E0114",
            Self::Caches | Self::Rows | Self::Valid { .. } => "E0366",
            Self::Short { .. } => "E0365",
            Self::Positions { .. } => "E0368",
        }
    }

    /// Exit code of the command.
    pub(crate) fn exit_code(&self) -> u8 {
        if matches!(self, Self::Short { .. }) { 3 } else { 2 }
    }

    /// Next step of the user.
    pub(crate) fn help(&self) -> String {
        match self {
            Self::Open { names } => {
                let first = names.first().map_or("batch", String::as_str);
                format!("bind all but one with `--dim`, or name the one to make large: `--largest {first}=64`")
            }
            Self::Caches => "name the pairs: `--state 'NEW*=OLD*'`".to_owned(),
            Self::Rows => {
                "leave the rows of the caches and the new rows symbolic, or state them with `--dim` instead of `--context`"
                    .to_owned()
            }
            Self::Valid { .. } => {
                "export the decoder with the number of valid rows as a sum over its mask; or bind all dimensions with `--dim`"
                    .to_owned()
            }
            Self::Positions { rows, .. } => format!("`--context {rows}` is the most that the model has positions for"),
            Self::Short { ram, need, .. } => {
                let least = format!("`--ram {}` is enough", need.in_run());
                let step = if need.weights > *ram / 2 {
                    "weights shrink with `--encode-weights int8`, or stay in a farther space with `--weights` and `--link`"
                } else if need.state > *ram / 2 {
                    "a shorter `--context` needs less"
                } else {
                    "a farther space with `--link`, or codes with `--lossy`, need less"
                };
                format!("{least}; {step}")
            }
        }
    }
}
