//! Options of planning, in one struct.

use std::collections::BTreeMap;

use memc_cost::{CostModel, Target};
use memc_ir::{Bytes, DimExpr, Module, Node, SpaceData, matches};
use memc_ops::Profile;

use crate::threads::Threads;
use crate::tuning::PassTuning;

/// Storage of graph inputs and outputs: which of them the arena holds in addition to transients and
/// scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// The arena holds graph outputs; inputs are the caller's.
    #[default]
    Outputs,
    /// The arena holds graph outputs and inputs.
    Arena,
    /// The arena holds neither; inputs and outputs are the caller's.
    External,
}

impl Io {
    /// Returns the name in options and in the layout file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outputs => "outputs",
            Self::Arena => "arena",
            Self::External => "external",
        }
    }
}

/// Bits of encoded weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WeightCode {
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

impl WeightCode {
    /// Returns the name in options and in the layout file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// Returns the bits of one weight.
    pub fn bits(self) -> u32 {
        match self {
            Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }
}

/// Permissions and requests for rewriting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewriting {
    /// Whether the default plan tries rewriting.
    pub enabled: bool,
    /// Whether only rules that change no bit of any result apply.
    pub exact: bool,
    /// Whether only operators of the ONNX standard may appear.
    pub standard: bool,
    /// Whether integer kernels replace operators between quantized integers.
    pub integer_kernels: bool,
    /// Whether only the positions that readers need are computed. No option takes it back, but planning does
    /// if the cuts take more time than is allowed.
    pub rows: bool,
    /// Channels of a block, if images use a layout in blocks of channels.
    pub nchwc: Option<u32>,
    /// Number of equal parts of the batch, computed in turn. `None`: the number that is worth its time.
    pub micro_batches: Option<u64>,
    /// Time that less memory may cost without a limit, in hundredths of a percent of the modelled time.
    pub slowdown: u32,
}

impl Rewriting {
    /// Returns whether the options request kernels that need more workspace than the kernels of the
    /// original operators.
    pub fn names_kernels(&self) -> bool {
        self.integer_kernels || self.nchwc.is_some()
    }
}

impl Default for Rewriting {
    fn default() -> Self {
        Self {
            enabled: true,
            exact: false,
            standard: false,
            integer_kernels: false,
            rows: true,
            nchwc: None,
            micro_batches: None,
            slowdown: 0,
        }
    }
}

/// A lossy form of codes, which the user must request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lossy {
    /// Numbers of type FLOAT16: half of the bytes, 11 bits of precision, up to 65,504.
    F16,
    /// Numbers of type BFLOAT16: half of the bytes, 8 bits of precision, the range of FLOAT.
    BF16,
    /// Integers of 8 bits with a scale for each row: about a quarter of the bytes.
    Int8,
    /// Values computed back from results, which rounds them: no bytes of their own.
    Inverse,
}

impl Lossy {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::F16, Self::BF16, Self::Int8, Self::Inverse];

    /// Returns the name in options and in the layout file.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::Int8 => "int8",
            Self::Inverse => "inverse",
        }
    }
}

/// Codes that values may have between two uses, and codes of weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoding {
    /// Whether codes that keep every bit are used.
    pub exact: bool,
    /// Lossy forms for values of the forward part of a training step, read again by gradients.
    pub lossy: Vec<Lossy>,
    /// Patterns of value names without lossy codes; `*` stands for any text.
    pub keep_wide: Vec<String>,
    /// Code of the weights of matrix products, if they are written in few bits.
    pub weights: Option<WeightCode>,
}

impl Encoding {
    /// Returns whether a value of this name must not have a lossy code.
    pub fn keeps_wide(&self, name: &str) -> bool {
        self.keep_wide.iter().any(|pattern| matches(pattern, name))
    }

    /// Returns an option that rounds values or weights, as the user states it.
    pub fn rounds(&self) -> Option<String> {
        let lossy = self.lossy.first().map(|form| format!("--lossy {}", form.name()));
        lossy.or_else(|| self.weights.map(|code| format!("--encode-weights {}", code.name())))
    }
}

impl Default for Encoding {
    fn default() -> Self {
        Self { exact: true, lossy: Vec::new(), keep_wide: Vec::new(), weights: None }
    }
}

/// Everything that passes are told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Profile of the runtime that runs the result.
    pub profile: &'static Profile,
    /// Storage of graph inputs and outputs.
    pub io: Io,
    /// Space that holds the arena and in which all nodes compute: the target's first space.
    pub space: SpaceData,
    /// The target's other spaces, in its order: index `k` here is space `k + 1` of the target's links.
    pub farther: Vec<SpaceData>,
    /// Costs of nodes and transfers, and the target with its links.
    pub cost: CostModel,
    /// Permissions and requests for rewriting.
    pub rewrite: Rewriting,
    /// Codes that values may have between two uses, and codes of weights.
    pub encode: Encoding,
    /// Maximum size of a constant made by folding, in bytes.
    pub max_fold_bytes: Bytes,
    /// Maximum size of all newly computed weights together, in bytes.
    pub max_weight_bytes: Bytes,
    /// Number of search nodes that each exact solver may visit.
    pub effort: u64,
    /// Tuning numbers of the search passes.
    pub tuning: PassTuning,
    /// Signal that asks searches to stop before their effort is spent.
    pub stop: memc_solve::Stop,
    /// Threads for independent searches.
    pub threads: Threads,
    /// Pipelines of the caller, whose plans compete with those of the strategies.
    pub pipelines: Vec<String>,
    /// Limits of the arenas of farther spaces, in bytes, by name of the space.
    pub far_budgets: BTreeMap<String, Bytes>,
    /// Whether new values of graph inputs take the storage of the old values if both are the caller's,
    /// for every pair found.
    pub alias_state: bool,
    /// Pairs of a graph output and the graph input that it updates, by name. They share storage even if
    /// the pair would not be found.
    pub state: Vec<StateNames>,
    /// Unbound symbols that grow with the rows of caches, with their extents for full buffers.
    pub growing: BTreeMap<String, DimExpr>,
    /// Name of the farther space for constants that do not fit in the first space; `None` if the caller
    /// stores all constants.
    pub weights: Option<String>,
    /// Whether outputs with a row for each token keep only the last one.
    pub last_token: bool,
    /// Number of equal engines that run the nodes, at least 1.
    pub engines: u32,
}

/// Names of a graph output and of the graph input that it updates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateNames {
    /// Name of the graph output.
    pub new: String,
    /// Name of the graph input.
    pub old: String,
}

impl Options {
    /// Returns whether any new value takes the storage of an old value.
    pub fn shares_state(&self) -> bool {
        self.alias_state || !self.state.is_empty()
    }

    /// Returns the defaults for a runtime on the default target.
    pub fn for_profile(profile: &'static Profile) -> Self {
        Self::on(profile, Target::default())
    }

    /// Returns the defaults for a runtime on a target.
    ///
    /// The target's alignment of offsets takes precedence over the runtime's, but is never finer than
    /// the runtime's rounding of buffers. If the runtime obeys the layout, the target also decides
    /// whether kernels need workspace.
    pub fn on(profile: &'static Profile, target: Target) -> Self {
        let profile = if profile.name == Profile::ARENA.name && !target.kernels.workspace {
            &Profile::ARENA_WITHOUT_WORKSPACE
        } else {
            profile
        };
        let mut spaces = target.spaces.iter().map(|space| SpaceData {
            name: space.name.clone(),
            capacity: space.capacity,
            alignment: space.alignment.unwrap_or(profile.alignment).max(profile.rounding),
        });
        let unlimited =
            || SpaceData { name: "device".to_owned(), capacity: None, alignment: profile.alignment };
        let space = spaces.next().unwrap_or_else(unlimited);
        let farther = spaces.collect();
        let effort = memc_solve::Limit::default().nodes;
        let cost = CostModel { target, measured: None, scratch: None };
        Self {
            profile,
            io: Io::default(),
            space,
            farther,
            cost,
            rewrite: Rewriting::default(),
            encode: Encoding::default(),
            max_fold_bytes: Bytes(64 << 10),
            max_weight_bytes: Bytes(512 << 20),
            effort,
            tuning: PassTuning::default(),
            stop: memc_solve::Stop::default(),
            threads: Threads::default(),
            pipelines: Vec::new(),
            far_budgets: BTreeMap::new(),
            alias_state: false,
            state: Vec::new(),
            growing: BTreeMap::new(),
            weights: None,
            last_token: false,
            engines: 1,
        }
    }

    /// Rounds a size up to the arena's alignment.
    pub fn aligned(&self, bytes: Bytes) -> Bytes {
        Bytes(bytes.0.checked_next_multiple_of(self.space.alignment.max(1)).unwrap_or(u64::MAX))
    }

    /// Returns the modelled time of all nodes of the main graph, in whole nanoseconds.
    pub fn total_nanos(&self, module: &Module) -> u64 {
        self.cost.total_nanos(module).0.round() as u64
    }

    /// Returns the modelled time of a node in whole nanoseconds, at least 1.
    pub fn nanos(&self, module: &Module, node: Node) -> u64 {
        // The cast saturates, and turns NaN into 0.
        (self.cost.nanos(module, node).0.round() as u64).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::for_profile(&Profile::ARENA)
    }
}
