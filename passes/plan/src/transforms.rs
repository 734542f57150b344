//! All transforms in one table: changes of the model before, during and after the search for a plan.

use memc_ir::Module;
use memc_passes::{
    LeaveOut, Options, Transform, Turn, cache, encode_weights, engines, last_token, mask_blocks, micro_batch,
    nchwc, rows, settle, tie, weight_parts,
};

/// All transforms, in the order in which they run within a turn.
pub const TRANSFORMS: &[Transform] = &[
    Transform {
        pass: &cache::INFO,
        passes: "cache",
        turn: Turn::First,
        applies: |_, options| !options.growing.is_empty(),
        option: Some("--state"),
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &tie::INFO,
        passes: "tie",
        turn: Turn::First,
        applies: |_, _| true,
        option: None,
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &last_token::INFO,
        passes: "last-token",
        turn: Turn::First,
        applies: |_, options| options.last_token,
        option: Some("--last-token"),
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &encode_weights::INFO,
        passes: "encode-weights,dce",
        turn: Turn::Prepared,
        applies: |_, options| options.encode.weights.is_some(),
        option: Some("--encode-weights"),
        // Decoded matrices take memory that the given ones may not.
        leave_out: LeaveOut::IfRefused(|options| options.encode.weights = None),
    },
    Transform {
        pass: &rows::INFO,
        passes: "rows,dce",
        turn: Turn::Prepared,
        applies: |_, options| options.rewrite.enabled && options.rewrite.rows,
        option: None,
        // A cut of a small value may take longer than the rows that it saves.
        leave_out: LeaveOut::IfLate(|options| options.rewrite.rows = false),
    },
    Transform {
        pass: &weight_parts::INFO,
        passes: "weight-parts,dce",
        turn: Turn::Prepared,
        // The check proves parts of known extents only, and kernels may round parts otherwise.
        applies: |module, options| {
            options.weights.is_some()
                && options.rewrite.enabled
                && !options.rewrite.exact
                && module.domain().is_empty()
        },
        option: None,
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &micro_batch::INFO,
        passes: "micro-batch,dce",
        turn: Turn::Prepared,
        // Strategies set the number of parts.
        applies: |_, _| true,
        option: None,
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &nchwc::INFO,
        passes: "nchwc,dce,tie",
        turn: Turn::Laid,
        applies: |_, options| options.rewrite.nchwc.is_some(),
        option: Some("--nchwc"),
        leave_out: LeaveOut::IfBetter(|options| options.rewrite.nchwc = None),
    },
    Transform {
        pass: &mask_blocks::INFO,
        passes: "cse,dce,mask-blocks,dce",
        turn: Turn::Candidate,
        applies: |_, _| true,
        option: None,
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &settle::INFO,
        passes: "settle",
        turn: Turn::Last,
        applies: |module, _| !module.domain().is_empty(),
        option: None,
        leave_out: LeaveOut::Never,
    },
    Transform {
        pass: &engines::INFO,
        passes: "engines",
        turn: Turn::Last,
        applies: |_, options| options.engines > 1,
        option: Some("--engines"),
        leave_out: LeaveOut::Never,
    },
];

/// All transforms that a plan may use.
#[derive(Clone, Copy, Debug)]
pub struct Transforms<'a> {
    /// Those of the caller, which come last in each turn.
    pub own: &'a [&'static Transform],
    /// The options of the plan.
    pub options: &'a Options,
}

impl Transforms<'_> {
    /// Returns the transforms that are of use for a module.
    pub(crate) fn of_use(self, module: &Module) -> Vec<&'static Transform> {
        let all = TRANSFORMS.iter().chain(self.own.iter().copied());
        all.filter(|transform| (transform.applies)(module, self.options)).collect()
    }

    /// Returns the transforms of a turn that are of use for a module.
    pub fn at(self, turn: Turn, module: &Module) -> Vec<&'static Transform> {
        let mut found = self.of_use(module);
        found.retain(|transform| transform.turn == turn);
        found
    }

    /// Returns whether the options ask for a transform of all plans.
    pub(crate) fn are_asked(self, module: &Module) -> bool {
        let for_all = |turn| matches!(turn, Turn::Prepared | Turn::Laid);
        self.of_use(module).iter().any(|transform| for_all(transform.turn) && transform.option.is_some())
    }

    /// Returns the pipeline of the transforms of a turn, each followed by a comma; empty if there are none.
    pub(crate) fn passes_at(self, turn: Turn, module: &Module) -> String {
        self.at(turn, module).iter().map(|transform| format!("{},", transform.passes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn transforms_are_passes_and_run_in_the_order_of_their_turns() {
        assert!(TRANSFORMS.is_sorted_by_key(|transform| transform.turn));
        for transform in TRANSFORMS {
            let name = transform.pass.name;
            assert!(registry::find(name).is_some(), "{name}");
            assert!(transform.passes.split(',').any(|pass| pass == name), "{name}");
        }
    }
}
