//! Judges trial modules: a heuristic order, its peak, and the steps of the peak.
//!
//! A trial asks whether a module keeps a number of bytes, so heuristics stop at the first order that
//! does, and a bound may answer before they start. Nothing is placed: the arena is nearly always as
//! large as the peak, and finished plans are compared by their arenas.

use std::collections::BTreeMap;

use memc_edit::is_made_by;
use memc_ir::{Bytes, ConstData, ConstOrigin, Module, Node, Payload, Rewriter, SecondaryMap, Use, Value};
use memc_rewrite::Measure;
use memc_solve::order;

use memc_passes::Options;
use memc_passes::analysis::scratch::{scratch, scratch_expr};
use memc_passes::analysis::{Memory, corners};
use memc_passes::schedule::problem;
use memc_passes::{PassContext, PassError};
use memc_passes::{dce, view};

use crate::score::small_need;

/// A module in its heuristic order.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The module, ordered, without nodes that rules made from constants alone.
    pub(crate) module: Module,
    /// Its peak in bytes.
    pub(crate) peak: u64,
    /// Modelled time in nanoseconds.
    pub(crate) nanos: u64,
    /// Live bytes by step.
    pub(crate) profile: Vec<u64>,
    /// Whether `peak` and `profile` only count the need of each node by itself, instead of all live
    /// bytes.
    pub(crate) is_alone: bool,
}

/// Orders a module by heuristics, until an order needs at most `enough` bytes; `None` if the module
/// cannot be ordered. Takes O((n + uses) log n).
pub(crate) fn judge(mut module: Module, options: &Options, enough: u64) -> Option<Judged> {
    without_constants(&mut module);
    clean(&mut module, options).ok()?;
    module.plan.scratch = scratch(&module, options);
    let problem = problem(&module, options);
    let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
    let outcome = order::portfolio(&problem, &given, enough).ok()?;
    let (best, peak) = (outcome.solution?, outcome.value?);
    let profile = order::profile(&problem, &best).ok()?;
    let nanos = options.total_nanos(&module);
    let main = module.main();
    let nodes = &module.graph(main).nodes;
    let schedule: Vec<Node> = best.iter().map(|position| nodes[*position as usize]).collect();
    let mut rewriter = Rewriter::new(&mut module);
    rewriter.set_schedule(main, schedule);
    rewriter.finish();
    Some(Judged { module, peak, nanos, profile, is_alone: false })
}

/// Returns the needs of a module in its own order at small extents of its domain, as one number; see
/// [`small_need`]. Zero without ranges. Takes O(n + uses) a point.
pub(crate) fn at_small(module: &Module, options: &Options) -> u64 {
    let points = corners::small(module.domain());
    if points.is_empty() {
        return 0;
    }
    let groups = Memory::of(module, options).buffers;
    let expr = |owner: Value| {
        module.ty(owner).tensor().filter(|_| !module.assumed.contains_key(&owner))?.size_expr()
    };
    let mut all: Vec<_> = groups.iter().map(|group| (group.bytes.0, expr(group.owner))).collect();
    all.extend(
        module.plan.scratch.iter().map(|scratch| (scratch.bytes.0, scratch_expr(module, scratch, options))),
    );
    let mut problem = problem(module, options);
    let order: Vec<u32> = (0..problem.operations.len() as u32).collect();
    let steps: BTreeMap<Node, usize> = module.graph(module.main()).nodes.iter().copied().zip(0..).collect();
    let mut peak = |sizes: &Vec<u64>| {
        problem.operations.iter_mut().for_each(|operation| operation.scratch = 0);
        let (values, workspace) = sizes.split_at(groups.len().min(sizes.len()));
        problem.buffers.iter_mut().zip(values).for_each(|(buffer, size)| buffer.size = *size);
        for (scratch, size) in module.plan.scratch.iter().zip(workspace) {
            if let Some(operation) =
                steps.get(&scratch.node).and_then(|step| problem.operations.get_mut(*step))
            {
                operation.scratch = operation.scratch.saturating_add(*size);
            }
        }
        order::peak(&problem, &order).ok()
    };
    let peaks: Option<Vec<u64>> = corners::sizes(&points, &all).iter().map(&mut peak).collect();
    peaks.map_or(0, |peaks| small_need(&peaks))
}

/// Modelled time of a module at the smallest extents of its domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtLeast {
    /// Time of all nodes, in nanoseconds.
    nanos: u64,
    /// Time of the nodes that make no elements there, in nanoseconds.
    nothing: u64,
}

impl AtLeast {
    /// Measures a module; zero without ranges. Linear in values and nodes.
    pub(crate) fn of(module: &Module, options: &Options) -> Self {
        let domain = module.domain();
        if domain.is_empty() {
            return Self::default();
        }
        let module =
            module.at(&domain.ranges.iter().map(|(name, range)| (name.clone(), range.min)).collect());
        let nodes = &module.graph(module.main()).nodes;
        let nothing = nodes.iter().filter(|node| memc_cost::makes_nothing(&module, **node));
        let nothing: f64 = nothing.map(|node| options.cost.nanos(&module, *node).0).sum();
        Self { nanos: options.total_nanos(&module), nothing: nothing.round() as u64 }
    }

    /// Returns whether parts that run on nothing take too long, compared with the module before the parts.
    pub(crate) fn is_slow(&self, before: &Self, options: &Options) -> bool {
        self.nothing.saturating_sub(before.nothing) > options.tuning.split.overhead_at_least.of(before.nanos)
    }
}

/// Measures a fragment by itself; a fragment that cannot be ordered gets the largest peak and time.
pub(crate) fn alone(piece: &Module, options: &Options) -> Measure {
    let judged = judge(piece.clone(), options, 0);
    let measure =
        judged.map(|judged| Measure { peak: Bytes(judged.peak), nanos: memc_ir::Nanos(judged.nanos as f64) });
    measure.unwrap_or(Measure { peak: Bytes(u64::MAX), nanos: memc_ir::Nanos(f64::MAX) })
}

/// Erases dead nodes, and lets views share bytes.
fn clean(module: &mut Module, options: &Options) -> Result<(), PassError> {
    let mut ctx = PassContext::new(options, SecondaryMap::default());
    (dce::INFO.run)(module, &mut ctx)?;
    (view::INFO.run)(module, &mut ctx)?;
    Ok(())
}

/// Replaces nodes that rules made from constants alone by constants without elements, since a runtime
/// computes them before the run.
fn without_constants(module: &mut Module) {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        let data = rewriter.module().node(node);
        let is_known = |value: Value| rewriter.module().constant_of(value).is_some();
        if !is_made_by(rewriter.module(), node, memc_rewrite::NAME)
            || data.operands().next().is_none()
            || !data.operands().all(is_known)
        {
            continue;
        }
        let results: Vec<Value> = data.results().collect();
        for value in results {
            let is_output = rewriter.uses(value).iter().any(|site| matches!(site, Use::Output(..)));
            if let Some(ty) = rewriter.module().ty(value).tensor().filter(|_| !is_output).cloned() {
                let constant =
                    rewriter.constant(ConstData { ty, payload: Payload::Elided, origin: ConstOrigin::New });
                rewriter.make_initializer(value, constant);
            }
        }
        rewriter.erase(node);
    }
    rewriter.finish();
}
