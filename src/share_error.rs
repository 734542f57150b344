//! Reasons why planned models cannot share a memory.

use memc_ir::Bytes;

/// Why members cannot share a memory as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// Fewer than two layouts.
    #[error("{count} layouts: two or more models share a memory")]
    Few {
        /// Number of layouts.
        count: usize,
    },
    /// A member runs on several engines at once.
    #[error(
        "`{name}` is planned for {engines} engines: only its waits order uses of its bytes, not its steps"
    )]
    Engines {
        /// Name of the member.
        name: String,
        /// Number of engines.
        engines: u64,
    },
    /// Two members have one name.
    #[error("{one} and {other} are both named `{name}`")]
    OneName {
        /// The name.
        name: String,
        /// One layout.
        one: String,
        /// The other layout.
        other: String,
    },
    /// A name that no member has.
    #[error("there is no member `{name}`; there are {known}")]
    NoMember {
        /// The name given.
        name: String,
        /// Names of the members.
        known: String,
    },
    /// A name that is none of a member and one of its tensors.
    #[error("`{name}` is no tensor of a member; members are {known}")]
    NoTensor {
        /// The name given.
        name: String,
        /// Names of the members.
        known: String,
    },
    /// Two tensors cannot be one value.
    #[error("`--handoff {pair}`: {why}")]
    Handoff {
        /// The pair, as it is written.
        pair: String,
        /// Reason, in words.
        why: String,
    },
    /// A member would have to change its offsets, and must not.
    #[error("`{name}` cannot keep its offsets: a value that is handed over lies elsewhere than its input")]
    Rigid {
        /// Name of the member.
        name: String,
        /// Whether its plan for ranges of dimensions forbids other offsets.
        is_ranged: bool,
    },
    /// A guest fits nowhere.
    #[error(
        "`{guest}` fits into no hole of `{host}`: it needs {} in {space}, the largest hole has {}, and {} are missing",
        Bytes(*needs).exact(), Bytes(*hole).exact(), Bytes(needs.saturating_sub(*hole)).exact()
    )]
    Guest {
        /// Name of the guest.
        guest: String,
        /// Name of the host.
        host: String,
        /// Bytes of the guest's arena.
        needs: u64,
        /// Largest hole across a boundary of the host.
        hole: u64,
        /// Space of the arena.
        space: String,
    },
    /// The host moves values into the space of a guest while it computes.
    #[error("`{host}` moves values to and from {space} at any time: a guest has no safe place there")]
    Transfers {
        /// Name of the host.
        host: String,
        /// Space of the guest's arena.
        space: String,
    },
    /// More or fewer than two members that would run at once.
    #[error("{count} layouts: `--phased` takes two members that run at once")]
    NotTwo {
        /// Number of members.
        count: usize,
    },
    /// A member that would run at once with another one moves values while its steps run.
    #[error(
        "`{name}` moves values between spaces while its steps run: no wait orders its bytes and those of another member"
    )]
    Moves {
        /// Name of the member.
        name: String,
    },
    /// The planned model, or the given one, is not beside the layout.
    #[error(
        "the {which} model of `{name}` was not found: no file beside {folder} has the hash in its layout"
    )]
    NoModel {
        /// `given` or `planned`.
        which: &'static str,
        /// Name of the member.
        name: String,
        /// Layout of the member, as text.
        folder: String,
    },
    /// The planned model is not the one of the layout.
    #[error("{model} is not the model of `{name}`: its layout names another hash")]
    OtherModel {
        /// Name of the member.
        name: String,
        /// The model.
        model: String,
    },
    /// A file cannot be named relative to the joint file.
    #[error("{path} has no path from {folder}")]
    NoPath {
        /// The file.
        path: String,
        /// Folder of the joint file.
        folder: String,
    },
    /// The solver rejects the problem.
    #[error("the members cannot be placed: {cause}")]
    Solver {
        /// Reason, in words.
        cause: String,
    },
}

impl ShareError {
    /// Whether memory is lacking, as opposed to a request that makes no sense.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Self::Guest { .. })
    }

    /// Whether the files are not those that belong together.
    pub(crate) fn is_of_files(&self) -> bool {
        matches!(self, Self::NoModel { .. } | Self::OtherModel { .. } | Self::NoPath { .. })
    }

    /// Advice on the next action.
    pub(crate) fn help(&self) -> String {
        match self {
            Self::Few { .. } => {
                "name the layouts that `memc optimize` wrote: `memc share a.layout.json b.layout.json`"
                    .to_owned()
            }
            Self::Engines { .. } => "plan the member without `--engines`".to_owned(),
            Self::OneName { name, other, .. } => format!("give one of them another name: `{name}2={other}`"),
            Self::NoMember { .. } => {
                "members have the names of their layouts, or those before `=`".to_owned()
            }
            Self::NoTensor { .. } => {
                "write MEMBER.OUTPUT=MEMBER.INPUT; `memc print MODEL` shows inputs and outputs".to_owned()
            }
            Self::Handoff { .. } => {
                "leave the handoff out, and copy the value; or plan the members anew".to_owned()
            }
            Self::Rigid { is_ranged: true, .. } => {
                "plan the member with fixed extents, or with `--io outputs`".to_owned()
            }
            Self::Rigid { .. } => "leave out `--keep-offsets`".to_owned(),
            Self::Guest { .. } => {
                "run one after the other with `--serial`, or plan the guest with a smaller `--budget`"
                    .to_owned()
            }
            Self::Transfers { .. } => {
                "plan the host without `--link`, or the guest in the first space only".to_owned()
            }
            Self::NotTwo { .. } => {
                "name two layouts, or put the members one after another with `--serial`".to_owned()
            }
            Self::Moves { .. } => {
                "plan the member without farther spaces (`--link`), or use `--serial`".to_owned()
            }
            Self::NoModel { which: "given", name, .. } => format!("name it: `--given {name}=MODEL.onnx`"),
            Self::NoModel { .. } => {
                "put OUT.onnx beside OUT.layout.json, as `memc optimize` wrote them".to_owned()
            }
            Self::OtherModel { .. } => {
                "plan again, or name the layout that was written with this model".to_owned()
            }
            Self::NoPath { .. } => "write the joint file on the drive of the models".to_owned(),
            Self::Solver { .. } => "use `--keep-offsets`".to_owned(),
        }
    }
}
