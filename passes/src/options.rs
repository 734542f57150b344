//! Options of planning, in one struct.

use std::collections::BTreeMap;

use memc_cost::{CostModel, Target};
use memc_ir::{Bytes, Module, Node, SpaceData};
use memc_ops::Profile;

use crate::tuning::PassTuning;

/// What the arena holds beside transients and scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// Graph outputs; inputs are the caller's.
    #[default]
    Outputs,
    /// Graph outputs and inputs.
    Arena,
    /// Neither: outputs are the caller's too.
    External,
}

impl Io {
    /// Name in options and in the layout file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outputs => "outputs",
            Self::Arena => "arena",
            Self::External => "external",
        }
    }
}

/// What rewriting may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewriting {
    /// Whether the default plan tries it.
    pub enabled: bool,
    /// Only rules that change no bit of any result.
    pub exact: bool,
    /// Only operators of the ONNX standard.
    pub standard: bool,
    /// Integer kernels for operators between integers that stand for numbers.
    pub integer_kernels: bool,
    /// Channels of a block, where images are laid out in blocks of channels.
    pub nchwc: Option<u32>,
    /// Equal parts in which the batch is computed, one after another; without, as many as are worth their time.
    pub micro_batches: Option<u64>,
    /// What less memory may cost where nothing limits it: hundredths of a per cent of the modelled time.
    pub slowdown: u32,
}

impl Rewriting {
    /// Whether kernels are asked for that need more workspace than those of the given operators.
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
            nchwc: None,
            micro_batches: None,
            slowdown: 0,
        }
    }
}

/// Everything that passes are told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who runs the result.
    pub profile: &'static Profile,
    /// What the arena holds.
    pub io: Io,
    /// The space that holds the arena and in which everything is computed: the target's first.
    pub space: SpaceData,
    /// The target's other spaces, in its order: index `k` here is space `k + 1` of the target's links.
    pub farther: Vec<SpaceData>,
    /// What nodes and transfers cost, and the target with its links.
    pub cost: CostModel,
    /// What rewriting may do.
    pub rewrite: Rewriting,
    /// A fold never makes a constant larger than this.
    pub max_fold_bytes: Bytes,
    /// All weights that are computed anew take at most this together.
    pub max_weight_bytes: Bytes,
    /// Search nodes that each exact solver may visit.
    pub effort: u64,
    /// Numbers that steer the passes that choose.
    pub tuning: PassTuning,
    /// Asks searches to end before their effort does.
    pub stop: memc_solve::Stop,
    /// Limits of the arenas of farther spaces, by name.
    pub far_budgets: BTreeMap<String, Bytes>,
    /// New values of graph inputs take the storage of the old ones, where both are the caller's: all pairs that are found.
    pub alias_state: bool,
    /// Pairs of a graph output and the graph input whose new value it is, by name: they share storage whether or not they would be found.
    pub state: Vec<StateNames>,
    /// The farther space in which constants lie that find no room in the first one; `None` where all are the caller's affair.
    pub weights: Option<String>,
}

/// Names of a graph output and of the graph input whose new value it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateNames {
    /// The graph output.
    pub new: String,
    /// The graph input.
    pub old: String,
}

impl Options {
    /// Whether any new value takes the storage of an old one.
    pub fn shares_state(&self) -> bool {
        self.alias_state || !self.state.is_empty()
    }

    /// The defaults for one runtime on the default target.
    pub fn for_profile(profile: &'static Profile) -> Self {
        Self::on(profile, Target::default())
    }

    /// The defaults for one runtime on a target.
    ///
    /// Offsets are aligned as the target says, or else as the runtime does, but never finer than the runtime rounds its buffers. Where
    /// the runtime obeys the layout, the target also says what its kernels need.
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
        let unlimited = || SpaceData { name: "device".to_owned(), capacity: None, alignment: profile.alignment };
        let space = spaces.next().unwrap_or_else(unlimited);
        let farther = spaces.collect();
        let effort = memc_solve::Limit::default().nodes;
        let cost = CostModel { target, measured: None };
        Self {
            profile,
            io: Io::default(),
            space,
            farther,
            cost,
            rewrite: Rewriting::default(),
            max_fold_bytes: Bytes(64 << 10),
            max_weight_bytes: Bytes(512 << 20),
            effort,
            tuning: PassTuning::default(),
            stop: memc_solve::Stop::default(),
            far_budgets: BTreeMap::new(),
            alias_state: false,
            state: Vec::new(),
            weights: None,
        }
    }

    /// A size rounded up to the arena's alignment.
    pub fn aligned(&self, bytes: Bytes) -> Bytes {
        Bytes(bytes.0.checked_next_multiple_of(self.space.alignment.max(1)).unwrap_or(u64::MAX))
    }

    /// Modelled time of all nodes of the main graph in whole nanoseconds.
    pub fn total_nanos(&self, module: &Module) -> u64 {
        self.cost.total_nanos(module).0.round() as u64
    }

    /// Modelled time of a node in whole nanoseconds, at least one.
    pub fn nanos(&self, module: &Module, node: Node) -> u64 {
        // Saturates, and what is not finite becomes 0: a cast of a float is defined.
        (self.cost.nanos(module, node).0.round() as u64).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::for_profile(&Profile::ARENA)
    }
}
