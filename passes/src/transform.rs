//! Transforms: passes that change the model itself, with the options that ask for them and the turn at
//! which planning runs them.

use memc_edit::has_made;
use memc_ir::Module;

use crate::options::Options;
use crate::pass::PassInfo;

/// A change of the model that plans start from or choose. Name, page and settings are those of its pass.
#[derive(Debug)]
pub struct Transform {
    /// The pass that makes the change, and its claims.
    pub pass: &'static PassInfo,
    /// The pipeline of the change: the pass, with passes that clean up before and after it.
    pub passes: &'static str,
    /// When planning runs it.
    pub turn: Turn,
    /// Whether the transform is of use for a module under these options.
    pub applies: fn(&Module, &Options) -> bool,
    /// The option that asks for it; `None` if planning runs it without being asked.
    pub option: Option<&'static str>,
    /// When plans do without the transform, although the option asks for it if there is one.
    pub leave_out: LeaveOut,
}

/// When plans do without a transform. The functions take it out of the options.
#[derive(Clone, Copy, Debug)]
pub enum LeaveOut {
    /// Every plan has the transform.
    Never,
    /// Plans without it may win.
    IfBetter(fn(&mut Options)),
    /// Plans without it are sought only if no plan with it keeps the limits.
    IfRefused(fn(&mut Options)),
    /// Plans without it are sought only if all plans with it that keep the byte limit take too long.
    IfLate(fn(&mut Options)),
}

impl Transform {
    /// Returns whether the module has nodes that the transform made. Linear in the nodes of the main graph.
    pub fn is_in(&self, module: &Module) -> bool {
        has_made(module, self.pass.name)
    }
}

/// When planning runs a transform.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Turn {
    /// Once before the search: every plan starts from the result.
    First,
    /// In each form of the nodes, after cleaning: all plans have it.
    Prepared,
    /// In each form, after rules and regions.
    Laid,
    /// In the best forms, as candidates beside them.
    Candidate,
    /// Once after the search, on the chosen plan.
    Last,
}
