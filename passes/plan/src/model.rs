//! The model that is planned, and a module of it on its way to a plan.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Value};
use memc_passes::analysis::near_constants;
use memc_passes::analysis::windows::KnownData;
use memc_passes::window;
use memc_passes::{Budgeted, Changed, ExternalData, Memo, Options, PassContext, Pipeline, PipelineError, Said, Settings, Silent};

use crate::registry::REGISTRY;
use crate::score::Score;
use crate::{Goal, peak};

/// A model with its small elements, its readable weights and its options.
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
    /// Verify the module after every pass.
    pub verify: bool,
    /// Memory of earlier runs on this model.
    pub memo: Memo,
}

impl Model<'_> {
    /// Modelled time of the module as it was given, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.options.total_nanos(self.module)
    }

    /// Nodes of the main graph.
    pub(crate) fn nodes(&self) -> usize {
        self.module.graph(self.module.main()).nodes.len()
    }
}

/// A module on its way to a plan: what passes made of it until now, and the pipeline that repeats that.
#[derive(Clone, Debug)]
pub(crate) struct Form<'m> {
    pub(crate) module: Module,
    pub(crate) ctx: PassContext<'m>,
    verify: bool,
    trace: Vec<String>,
}

impl<'m> Form<'m> {
    /// The module as it was given.
    pub(crate) fn given(model: &'m Model<'_>) -> Self {
        let ctx = PassContext {
            external: model.external,
            memo: model.memo.clone(),
            ..PassContext::new(model.options, model.data.clone())
        };
        Self { module: model.module.clone(), ctx, verify: model.verify, trace: Vec::new() }
    }

    /// Runs passes, each with those of the settings that it reads.
    ///
    /// # Errors
    /// The first pass that fails.
    pub(crate) fn run(&mut self, passes: &str, settings: &Settings) -> Result<Changed, PipelineError> {
        let pipeline = Pipeline::parse(passes, self.module.stage, REGISTRY)?.with(settings);
        self.trace.push(pipeline.to_string());
        let changed = pipeline.run(&mut self.module, &mut self.ctx, self.verify, &mut Silent);
        changed.map_err(|error| error.traced(|| self.trace()))
    }

    /// The form that passes make of this one.
    ///
    /// # Errors
    /// The first pass that fails.
    pub(crate) fn then(&self, passes: &str, settings: &Settings) -> Result<Self, PipelineError> {
        let mut form = self.clone();
        form.run(passes, settings)?;
        Ok(form)
    }

    /// A plan, so that passes go on from it.
    pub(crate) fn of_plan(model: &'m Model<'_>, plan: &Planned) -> Self {
        let given = Self::given(model);
        Self { module: plan.module.clone(), trace: vec![plan.trace.clone()], ..given }
    }

    /// Form whose modules the verifier skips.
    pub(crate) fn unverified(self) -> Self {
        Self { verify: false, ..self }
    }

    /// Numbers of the sub-views of some nodes and parts among those that the module could have.
    pub(crate) fn numbers_of(&self, named: &BTreeSet<(Node, Value)>) -> BTreeSet<usize> {
        let candidates = window::candidates(&self.module, &self.ctx).into_iter().enumerate();
        let is_named = |(_, view): &(usize, memc_passes::analysis::windows::SubView)| named.contains(&(view.node, view.part));
        candidates.filter(is_named).map(|(number, _)| number).collect()
    }

    /// The pipeline that makes it of the module as it was given.
    pub(crate) fn trace(&self) -> String {
        self.trace.join(",")
    }

    /// The plan that this form has become.
    pub(crate) fn planned(self) -> Planned {
        let trace = self.trace();
        Planned::of(self.module, &self.ctx, trace)
    }
}

/// A plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The module at stage `planned`.
    pub module: Module,
    /// What the passes said that made it.
    pub said: Said,
    /// Node and part of the sub-views that it has.
    pub windows: BTreeSet<(Node, Value)>,
    /// The pipeline that makes it of the module as it was given.
    pub trace: String,
    /// The file's order under the rules of this plan, where a better order was found.
    pub base: Option<Module>,
    /// The strategy that found it.
    pub strategy: &'static str,
    /// The form that it was made of, in the words of the log.
    pub form: &'static str,
}

impl Planned {
    /// The plan that a pipeline left, of the module as it was given.
    pub fn of(module: Module, ctx: &PassContext<'_>, trace: String) -> Self {
        let windows = window::taken(&module, ctx);
        Self { module, said: ctx.said.clone(), windows, trace, base: None, strategy: "", form: "file's order" }
    }

    /// Bytes of the first space: its arena, and constants where the plan says which of them lie there.
    pub fn need(&self, options: &Options) -> Bytes {
        need(&self.module, options)
    }

    /// Modelled time in nanoseconds: of all nodes, and to the end of the last transfer where there are any.
    pub fn nanos(&self, options: &Options) -> u64 {
        let moves = !options.farther.is_empty();
        let makespan = self.budgeted().filter(|_| moves).map(|budgeted| budgeted.makespan);
        makespan.unwrap_or_else(|| options.total_nanos(&self.module))
    }

    /// What keeping a limit took, where something is recomputed or moved for it.
    pub fn budgeted(&self) -> Option<&Budgeted> {
        self.said.budgeted.as_ref()
    }

    pub(crate) fn score(&self, goal: &Goal, options: &Options) -> Score {
        goal.score(self.need(options), self.nanos(options), self.module.graph(self.module.main()).nodes.len())
    }
}

/// Bytes of the first space that a planned module needs.
pub(crate) fn need(module: &Module, options: &Options) -> Bytes {
    let arena = arena(module);
    let constants = options.weights.as_ref().map(|_| near_constants(module));
    arena.saturating_add(constants.unwrap_or_default())
}

/// The arena of the first space.
pub(crate) fn arena(module: &Module) -> Bytes {
    module.plan.arenas.first().map(|arena| arena.size).unwrap_or_default()
}

/// Whether a plan needs no more than another one, arena and peak, whatever sizes open values turn out to have.
pub(crate) fn is_no_worse(plan: &Module, than: &Module, options: &Options) -> bool {
    use memc_passes::analysis::open::{has_open, never_needs_more};
    arena(plan) <= arena(than)
        && peak::planned_peak(plan, options) <= peak::planned_peak(than, options)
        && (!has_open(plan, options) || never_needs_more(plan, than, options))
}
