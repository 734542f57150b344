//! The default plan: several pipelines on one module, the best result kept, never worse than the file's own order.

use memc_ir::{Bytes, Module};

use crate::analysis::{Liveness, buffers, classes, peak};
use crate::options::{Io, Options};
use crate::pass::{PassContext, SolverReport};
use crate::pipeline::{DEFAULT, FILE_ORDER, Observer, Pipeline, PipelineError, Silent};

/// The best plan, and what it is measured against.
#[derive(Debug)]
pub struct Planned {
    /// The module at stage `Planned`.
    pub module: Module,
    /// Solvers' reports for the plan that was kept.
    pub reports: Vec<SolverReport>,
    /// Remarks of the pipeline that was kept.
    pub remarks: Vec<memc_ir::Diagnostic>,
    /// Pipeline that was kept.
    pub pipeline: &'static str,
    /// Peak and arena of the file's own order under the same rules.
    pub file_order: (Bytes, Bytes),
}

/// The default pipeline without merging of equal nodes: a merged value lives longer, which can raise the peak.
const WITHOUT_CSE: &str = "fold,dce,view,schedule,in-place,place";

/// Plans a typed module in several ways and keeps the one with the smallest arena (then peak, then fewest nodes).
///
/// `context` makes a fresh context for a module (options and inferred elements are shared).
///
/// # Errors
/// The first pipeline that fails.
pub fn plan<'o>(
    module: &Module,
    context: impl Fn(&Module) -> PassContext<'o>,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<Planned, PipelineError> {
    let run = |text: &'static str, observer: &mut dyn Observer| -> Result<Planned, PipelineError> {
        let mut module = module.clone();
        let mut ctx = context(&module);
        Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, verify, observer)?;
        let file_order = value(&module, ctx.options);
        Ok(Planned { module, reports: ctx.reports, remarks: ctx.remarks, pipeline: text, file_order })
    };
    let base = run(FILE_ORDER, &mut Silent)?;
    let file_order = base.file_order;
    let mut best = run(DEFAULT, observer)?;
    let plain = run(WITHOUT_CSE, &mut Silent)?;
    if rank(&plain) < rank(&best) {
        best = plain;
    }
    let (peak, arena) = best.file_order;
    if peak > file_order.0 || arena > file_order.1 {
        // The order of the file, with no bound of its own.
        best = base;
    }
    Ok(Planned { file_order, ..best })
}

fn rank(planned: &Planned) -> (Bytes, Bytes, usize) {
    let (peak, arena) = planned.file_order;
    (arena, peak, planned.module.graph(planned.module.main()).nodes.len())
}

/// Peak and arena of a planned module.
pub fn value(module: &Module, options: &Options) -> (Bytes, Bytes) {
    let liveness = Liveness::of(module, module.main());
    let buffers = buffers(module, &liveness, &classes(module), options.io);
    let arena = module.plan.arenas.iter().map(|arena| arena.size).max().unwrap_or_default();
    (peak(module, &buffers, liveness.steps).0, arena)
}

/// Peak of a module in its own order, views aliased and nothing in place: the number that plans are compared with.
pub fn file_order_peak(module: &Module, options: &Options, io: Io) -> Bytes {
    let liveness = Liveness::of(module, module.main());
    let buffers = buffers(module, &liveness, &classes(module), io);
    let mut module = module.clone();
    module.plan.scratch = crate::analysis::scratch::scratch(&module, options);
    peak(&module, &buffers, liveness.steps).0
}
