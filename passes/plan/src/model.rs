//! The model to plan, a module on its way to a plan, and finished plans.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use memc_cost::timeline;
use memc_ir::{Bytes, Module, Node, SecondaryMap, Value};
use memc_passes::analysis::near_constants;
use memc_passes::analysis::windows::KnownData;
use memc_passes::{
    Budgeted, Changed, ExternalData, Memo, Options, PassContext, PipelineError, Said, Settings, Silent,
    Transform,
};
use memc_passes::{view, window};

use crate::score::Score;
use crate::transforms::Transforms;
use crate::trial::at_small;
use crate::{Goal, peak, registry};

/// A model with its small constant elements, its readable weights and its options.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    /// The typed module.
    pub module: &'a Module,
    /// Elements of small tensors.
    pub data: &'a KnownData,
    /// Bytes of constants in other files.
    pub external: Option<&'a dyn ExternalData>,
    /// Options of all passes.
    pub options: &'a Options,
    /// Transforms of the caller.
    pub transforms: &'a [&'static Transform],
    /// Whether to verify the module after every pass.
    pub verify: bool,
    /// Cached solver answers of earlier runs on this model.
    pub memo: Memo,
}

impl Model<'_> {
    /// Returns the modelled time of the input module, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.options.total_nanos(self.module)
    }

    /// Returns the transforms that plans may use.
    pub(crate) fn transforms(&self) -> Transforms<'_> {
        Transforms { own: self.transforms, options: self.options }
    }

    /// Returns whether rules may rewrite the model.
    pub(crate) fn may_rewrite(&self) -> bool {
        self.options.rewrite.enabled
    }

    /// Returns whether regions may be split into parts: kernels may then sum in another order.
    pub(crate) fn may_split(&self) -> bool {
        self.may_rewrite() && !self.options.rewrite.exact
    }

    /// Returns the number of nodes of the main graph.
    pub(crate) fn nodes(&self) -> usize {
        self.module.graph(self.module.main()).nodes.len()
    }
}

/// A module on its way to a plan, with the pipeline that produced it from the input module.
#[derive(Clone, Debug)]
pub(crate) struct Form<'m> {
    pub(crate) module: Module,
    pub(crate) ctx: PassContext<'m>,
    verify: bool,
    trace: Vec<String>,
    own: &'m [&'static Transform],
}

impl<'m> Form<'m> {
    /// Returns the input module as a form with an empty trace.
    pub(crate) fn given(model: &'m Model<'_>) -> Self {
        let ctx = PassContext {
            external: model.external,
            memo: model.memo.clone(),
            ..PassContext::new(model.options, model.data.clone())
        };
        Self {
            module: model.module.clone(),
            ctx,
            verify: model.verify,
            trace: Vec::new(),
            own: model.transforms,
        }
    }

    /// Runs passes; each pass takes the settings that it reads.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn run(&mut self, passes: &str, settings: &Settings) -> Result<Changed, PipelineError> {
        let pipeline = registry::parse(passes, self.module.stage, self.own)?.with(settings);
        self.trace.push(pipeline.to_string());
        let changed = pipeline.run(&mut self.module, &mut self.ctx, self.verify, &mut Silent);
        changed.map_err(|error| error.traced(|| self.trace()))
    }

    /// Runs passes on a copy of this form and returns the copy.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn then(&self, passes: &str, settings: &Settings) -> Result<Self, PipelineError> {
        let mut form = self.clone();
        form.run(passes, settings)?;
        Ok(form)
    }

    /// Returns the module of a plan as a form, so that further passes can run on it.
    pub(crate) fn of_plan(model: &'m Model<'_>, plan: &Planned) -> Self {
        let mut form =
            Self { module: plan.module.clone(), trace: vec![plan.trace.clone()], ..Self::given(model) };
        form.ctx.said =
            Said { remarks: plan.said.remarks.clone(), claims: plan.said.claims.clone(), ..Said::default() };
        form
    }

    /// Returns this form with verification after each pass switched off.
    pub(crate) fn unverified(self) -> Self {
        Self { verify: false, ..self }
    }

    /// Returns the candidate numbers of the sub-views with the given nodes and parts.
    pub(crate) fn numbers_of(&self, named: &BTreeSet<(Node, Value)>) -> BTreeSet<usize> {
        let candidates = window::candidates(&self.module, &self.ctx).into_iter().enumerate();
        let is_named = |(_, view): &(usize, memc_passes::analysis::windows::SubView)| {
            named.contains(&(view.node, view.part))
        };
        candidates.filter(is_named).map(|(number, _)| number).collect()
    }

    /// Returns the pipeline that makes this form from the input module.
    pub(crate) fn trace(&self) -> String {
        self.trace.join(",")
    }

    /// Returns the plan that this form has become.
    pub(crate) fn planned(self) -> Planned {
        let trace = self.trace();
        Planned::of(self.module, &self.ctx, trace)
    }
}

/// A plan: a module at stage `planned`, with the passes' remarks and the trace that repeats it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The module at stage `planned`.
    pub module: Module,
    /// Remarks and reports of the passes.
    pub said: Said,
    /// Node and part of each sub-view in the plan.
    pub windows: BTreeSet<(Node, Value)>,
    /// Pipeline that makes the plan from the input module.
    pub trace: String,
    /// The file order under the rules of this plan, if a better order was found.
    pub base: Option<Module>,
    /// Name of the strategy that found the plan.
    pub strategy: &'static str,
    /// Form of the plan, in the words of the log.
    pub form: &'static str,
    /// Need at small extents, once it is known.
    pub(crate) small: OnceLock<u64>,
}

impl Planned {
    /// Returns the plan in `module`, which the pipeline `trace` made from the input module.
    pub fn of(module: Module, ctx: &PassContext<'_>, trace: String) -> Self {
        let windows = window::taken(&module, ctx);
        Self {
            module,
            said: ctx.said.clone(),
            windows,
            trace,
            base: None,
            strategy: "",
            form: "file's order",
            small: OnceLock::new(),
        }
    }

    /// Returns the need of the first space, in bytes: its arena, and its constants if the plan places
    /// weights.
    pub fn need(&self, options: &Options) -> Bytes {
        need(&self.module, options)
    }

    /// Returns the modelled time in nanoseconds: the end of the last node or transfer if the plan may have
    /// transfers, else the sum over all nodes. The number of the `budget` pass leaves out nodes that only
    /// make views.
    pub fn nanos(&self, options: &Options) -> u64 {
        if options.farther.is_empty() || self.budgeted().is_none() {
            return options.total_nanos(&self.module);
        }
        let ends = timeline(&self.module, &options.cost).into_iter().map(|span| span.end.0.round() as u64);
        ends.max().unwrap_or(0)
    }

    /// Returns the report of the `budget` pass, or `None` if that pass changed nothing.
    pub fn budgeted(&self) -> Option<&Budgeted> {
        self.said.budgeted.as_ref()
    }

    pub(crate) fn score(&self, goal: &Goal, options: &Options) -> Score {
        let small = *self.small.get_or_init(|| at_small(&self.module, options));
        goal.ranged(
            self.need(options),
            self.nanos(options),
            self.module.graph(self.module.main()).nodes.len(),
            small,
        )
    }
}

/// Locks shared content. A thread that panicked leaves it whole: every change is one step.
pub(crate) fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the need of a planned module in the first space, in bytes.
pub(crate) fn need(module: &Module, options: &Options) -> Bytes {
    let arena = arena(module);
    let constants = options.weights.as_ref().map(|_| near_constants(module));
    arena.saturating_add(constants.unwrap_or_default())
}

/// Returns the arena size of the first space.
pub(crate) fn arena(module: &Module) -> Bytes {
    module.plan.arenas.first().map(|arena| arena.size).unwrap_or_default()
}

/// Returns whether the written weights of a plan grow by no more than its arena saves, against the file
/// order in which nothing is in place. Rules and parts make new weights, which a caller must store and load.
pub(crate) fn pays_for_weights(plan: &Module, file_order: &Module, options: &Options) -> bool {
    let (weights, given) = (near_constants(plan), near_constants(file_order));
    let most = || given.saturating_add(without_in_place(file_order, options));
    weights <= given || weights.saturating_add(arena(plan)) <= most()
}

/// Returns the peak of a planned module in its order, with views and nothing in place: the peak that reports
/// compare with. Takes O(n + uses).
fn without_in_place(module: &Module, options: &Options) -> Bytes {
    let mut module = module.clone();
    module.plan.alias = SecondaryMap::default();
    // The pass that makes views refuses no module.
    match (view::INFO.run)(&mut module, &mut PassContext::new(options, SecondaryMap::default())) {
        Ok(_) => peak::own_peak(&module, options, options.profile, |_| true, |_| true),
        Err(_) => Bytes(0),
    }
}

/// Returns whether a plan needs no more than another plan, in arena and peak, for every possible size of
/// values without a known size.
pub(crate) fn is_no_worse(plan: &Module, than: &Module, options: &Options) -> bool {
    use memc_passes::analysis::open::{has_open, never_needs_more};
    arena(plan) <= arena(than)
        && peak::planned_peak(plan, options) <= peak::planned_peak(than, options)
        && (!has_open(plan, options) || never_needs_more(plan, than, options))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Plans a chain in place, with a constant of a number of elements.
    fn planned(extent: u64) -> Module {
        let numbers = vec!["1.0"; extent as usize].join(", ");
        let source = format!(
            "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n  input %x : f32[1024]\n  const %w : f32[{extent}] = [{numbers}]\n  \
            const %axes : i64[1] = [0]\n  %a = Exp(%x) : f32[1024]\n  %m = ReduceMax(%w, %axes) {{keepdims = 0}} : f32[]\n  \
            %b = Add(%a, %m) : f32[1024]\n  %y = Exp(%b) : f32[1024]\n  return %y\n}}\n"
        );
        let mut module = memc_ir::text::parse(&source).unwrap();
        let options = Options::default();
        let mut ctx = PassContext::new(&options, SecondaryMap::default());
        let pipeline = registry::parse("view,in-place,place", module.stage, &[]).unwrap();
        pipeline.run(&mut module, &mut ctx, true, &mut Silent).unwrap();
        module
    }

    #[test]
    fn in_place_writes_of_the_file_order_leave_room_for_new_weights() {
        let (options, file_order) = (Options::default(), planned(8));
        let room = without_in_place(&file_order, &options).0 - arena(&file_order).0;
        assert!(room >= 4096, "{room}: the model does not show what the test is about");
        for (extent, pays) in [(4, true), (8, true), (9, true), (8 + room / 4, true), (9 + room / 4, false)] {
            let plan = planned(extent);
            assert_eq!(arena(&plan), arena(&file_order));
            assert_eq!(pays_for_weights(&plan, &file_order, &options), pays, "{extent}");
        }
    }
}
