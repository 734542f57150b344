//! The main job: plans a model, and derives the model to write and its layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_cost::Measured;
use memc_ir::{Bytes, Diagnostic, DimExpr, Module, Severity};
use memc_onnx_export::{ExportOptions, Exported};
use memc_onnx_import::Imported;
use memc_onnx_proto::{ModelFile, ReadError};
use memc_ops::profile::{Language, SessionNeeds};
use memc_ops::{Profile, is_seeded};
use memc_passes::analysis::near_constants;
use memc_passes::micro_batch::is_divided;
use memc_passes::{
    Budgeted, Claims, Observer, PassContext, PipelineError, Settings, Silent, SolverReport, Turn, cache,
};
use memc_plan::{Entry, Transforms, planned_peak, registry};
use memc_solve::Stop;

use crate::anchor::anchor;
use crate::baseline::baseline;
use crate::buckets::buckets;
use crate::device;
use crate::error::Error;
use crate::external::{ExternalFiles, Weights};
use crate::interface::{added_nodes, extended, interface};
use crate::layout::{Context, layout};
use crate::limits::{keep_budget, keep_weights};
use crate::outside::ExternalData;
use crate::panics::caught;
use crate::planned::Planned;
use crate::planning::{Chosen, Source, unused};
use crate::request::{Request, Resolved};

/// Plans a model.
///
/// ```
/// use memc::{Model, Request, Size, plan};
///
/// let model = Model::open("examples/models/mlp_step.onnx").map_err(memc::Error::from)?;
/// let planned = plan(&model, &Request::new().budget(Size::Percent(100.0)))?;
/// assert!(planned.arena() <= planned.layout.baseline.own_peak["device"]);
/// # Ok::<(), memc::Error>(())
/// ```
///
/// # Errors
/// The request contradicts itself, the model is refused, a pass fails, or no plan keeps the budget. A
/// panic is an error as well.
pub fn plan(model: &ModelFile, request: &Request) -> Result<Planned, Error> {
    plan_watched(model, request, &mut Silent, &mut |_| {})
}

/// Plans a model and reports progress: `tell` receives each candidate as soon as it is judged,
/// `observer` the passes of the chosen plan.
///
/// # Errors
/// As [`plan`].
pub fn plan_watched(
    file: &ModelFile,
    request: &Request,
    observer: &mut dyn Observer,
    tell: &mut dyn FnMut(&Entry),
) -> Result<Planned, Error> {
    caught(|| match request.max_value {
        None => planned(file, request, observer, tell),
        Some(limit) => crate::largest::within(limit, file, request, &mut |request| {
            planned(file, request, observer, tell)
        }),
    })?
}

/// Plans a model; a defect of memc may panic.
fn planned(
    file: &ModelFile,
    request: &Request,
    observer: &mut dyn Observer,
    tell: &mut dyn FnMut(&Entry),
) -> Result<Planned, Error> {
    let timer = Timer::start(request);
    let mut plan = request.options()?;
    plan.stop = timer.stop.clone();
    let mut stated = request.stated();
    let Imported { module: mut given, mut data, mut diagnostics, mut equal } =
        memc_onnx_import::import(file, &request.import)?;
    diagnostics.extend(empty(request));
    if given.graph(given.main()).outputs.is_empty() {
        return Err(Error::NoOutputs { graph: given.graph(given.main()).name.clone() });
    }
    let weights = near_constants(&given);
    plan.state = crate::state::expand(&given, &plan.state)?;
    crate::state::validate(&given, &plan.state)?;
    let original = given.clone();
    let (mut claims, mut first) = (Claims::default(), Vec::new());
    // Caches change the inputs of the model, so they come before everything else.
    if let Some(kept) = crate::caches::keep(file, request, &mut plan, &given)? {
        (given, data, claims, equal) = (kept.module, kept.data, kept.claims, kept.equal);
        diagnostics.extend(kept.remarks);
        first.push(cache::INFO.name);
    }
    if let Some(measurements) = &request.measured {
        let measured = Measured::new(measurements.timings.clone(), &given, &plan.cost.target.machine);
        diagnostics.extend(coverage(&measured));
        plan.cost.measured = Some(Arc::new(measured));
    }
    if let Some(remark) = reproducible(&given, &mut plan) {
        stated.insert("exact".to_owned(), true.to_string());
        diagnostics.push(remark);
    }
    let options = &Resolved { request, plan };
    // A trace names the pass that has already kept the caches.
    let passes = request
        .passes
        .as_deref()
        .map(|text| first.first().and_then(|cache| after(text, cache)).unwrap_or(text));
    let external = ExternalFiles::beside(file.path());
    if passes.is_none() {
        let mut ctx = PassContext { external: Some(&external), ..PassContext::new(&options.plan, data) };
        first.extend(transform(
            Turn::First,
            &mut given,
            &mut ctx,
            request,
            &Settings::default(),
            &mut Silent,
        )?);
        data = ctx.data;
        claims.extend(ctx.said.claims);
        diagnostics.append(&mut ctx.said.remarks);
    }
    let source = Source { file, given: &given, data: &data, external: &external, passes };
    let Chosen { planned, limits, pareto, log, without } = source.plan(options, observer, tell)?;
    diagnostics.extend(unused(&without));
    let (mut module, mut trace, mut engines) = (planned.module, None, planned.said.engines);
    if passes.is_none() {
        let mut ctx =
            PassContext { external: Some(&external), ..PassContext::new(&options.plan, data.clone()) };
        let settings = Settings { limit: limits.room(options), ..Settings::default() };
        let last = transform(Turn::Last, &mut module, &mut ctx, request, &settings, observer)?;
        engines = ctx.said.engines;
        diagnostics.append(&mut ctx.said.remarks);
        let passes: Vec<&str> = first.into_iter().chain([planned.trace.as_str()]).chain(last).collect();
        trace = Some(memc_layout::Trace { strategy: planned.strategy.to_owned(), passes: passes.join(",") });
    }
    let mut all = claims.clone();
    all.extend(planned.said.claims);
    let extended = extended(&original, &all);
    let baseline = baseline(file, &extended, &module, options)?;
    let mut unpinned = Vec::new();
    if request.anchors {
        let limit = limits.room(options).unwrap_or(Bytes(u64::MAX));
        let anchored = anchor(&mut module, &options.plan, baseline.own_peak.min(limit));
        unpinned = anchored.unpinned;
        if request.verify {
            let broken = |violations| PipelineError::Broken { pass: "anchor", violations };
            memc_ir::verify::verify(&module, module.stage).map_err(broken)?;
        }
    }
    if !request.plain.is_none() {
        crate::plain::shape(&mut module, &options.plan, &request.plain);
        if request.verify {
            let broken = |violations| PipelineError::Broken { pass: "plain", violations };
            memc_ir::verify::verify(&module, module.stage).map_err(broken)?;
        }
    }
    diagnostics.extend(planned.said.remarks);
    diagnostics.extend(undivided(&module, &options.plan.rewrite));
    diagnostics.extend(beside_the_peak(&module, options.plan.profile));
    diagnostics.extend(device::remarks(&module, &options.plan));
    if !request.plain.apart {
        diagnostics.extend(merged_by_sessions(&module, options.plan.profile));
    }
    diagnostics.extend(unpinned.iter().map(|node| {
        Diagnostic::new(
            "W0301",
            Severity::Warning,
            "no anchor can pin this node: a runtime that chooses its own order may move it",
        )
        .at_node(&module, *node)
        .with_help("set the runtime to execute nodes in file order, if it has that option")
    }));
    diagnostics.extend(raised(&module, baseline.own_peak, options));

    let passes = trace.as_ref().map_or(planned.trace, |trace| trace.passes.clone());
    let mut context = Context {
        options: &options.plan,
        stated: &stated,
        input_sha256: String::new(),
        output_sha256: String::new(),
        budget: limits.all,
        file_order_peak: baseline.file_order_peak,
        own_peak: baseline.own_peak.0,
        equal: open_equations(&equal, &module.dims),
        weights: weights.0,
        nodes_before: file.graph().node.len() as u64 + added_nodes(&all),
        overhead_lower_bound: planned.said.budgeted.as_ref().map(overhead_bound),
        solvers: planned
            .said
            .reports
            .iter()
            .map(solver)
            .chain(planned.said.budgeted.iter().map(budget_solver))
            .collect(),
        pareto,
        trace,
        engines: engines.as_ref(),
        claims: &all,
        given: &extended,
    };
    let outside = request.external_data.as_ref().map(ExternalData::options);
    let interface = interface(&original, &all);
    let export =
        ExportOptions { metadata: true, value_info: true, outside, interface, ..ExportOptions::default() };
    let model = memc_onnx_export::export(file, &module, &export)?;
    (context.input_sha256, context.output_sha256) = hashes(file, &model);
    let mut plan = layout(&module, &model, &context);
    plan.layouts = buckets(&module, &model, &context, options)?;
    let constants = options.plan.weights.as_ref().map(|_| near_constants(&module));
    keep_budget(&plan, constants.unwrap_or_default(), options.plan.stop.is_due())?;
    keep_weights(&plan, options)?;
    if request.check {
        // Weights that move into another file keep their old place here: they are copied byte for byte.
        let inside = ExportOptions { outside: None, ..export.clone() };
        let moved = request
            .external_data
            .as_ref()
            .map(|_| memc_onnx_export::export(file, &module, &inside))
            .transpose()?;
        prove(file, moved.as_ref().unwrap_or(&model), &plan)?;
    }
    let before = match planned.base.filter(|_| request.compare) {
        Some(base) => {
            let model = memc_onnx_export::export(file, &base, &export)?;
            (context.solvers, context.overhead_lower_bound) = (Vec::new(), None);
            context.pareto.clear();
            (context.trace, context.engines) = (None, None);
            context.claims = &claims;
            Some(layout(&base, &model, &context))
        }
        None => None,
    };
    Ok(Planned {
        module,
        model,
        layout: plan,
        before,
        unpinned,
        claims: all,
        reports: planned.said.reports,
        trace: passes,
        plain: request.plain.clone(),
        strategy: planned.strategy,
        log,
        diagnostics,
    })
}

/// Largest number of violations that an error shows.
const MAX_NOTES: usize = 8;

/// Checks a plan from the bytes to write alone, as `memc check` does.
fn prove(given: &ModelFile, written: &Exported, layout: &memc_layout::Layout) -> Result<(), Error> {
    let mut bytes = Vec::new();
    written.write_to(&mut bytes).map_err(|source| Error::File {
        what: "read",
        path: "the weights of the model".into(),
        source,
    })?;
    let unreadable = |error: ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
    let out = ModelFile::from_bytes(bytes).map_err(unreadable)?;
    let unread =
        |error: memc_layout::ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
    let layout = memc_layout::read(&memc_layout::to_json(layout)?).map_err(unread)?;
    let report = Weights::beside(given, &out).check_new(given, &out, &layout);
    let notes =
        report.violations.iter().take(MAX_NOTES).map(|violation| violation.diagnostic.to_string()).collect();
    if report.holds() { Ok(()) } else { Err(Error::Refuted { violations: report.violations.len(), notes }) }
}

/// Returns the dimensions that equal expressions over free dimensions, with bound ones replaced.
fn open_equations(
    equal: &BTreeMap<String, DimExpr>,
    bound: &BTreeMap<String, u64>,
) -> BTreeMap<String, String> {
    let open = equal.iter().filter_map(|(name, of)| Some((name.clone(), of.bind(bound)?)));
    open.filter(|(_, of)| of.as_constant().is_none()).map(|(name, of)| (name, of.quoted())).collect()
}

/// Ends the searches of a request after its wall-clock time.
struct Timer {
    stop: Stop,
}

impl Timer {
    /// Starts the clock, if the request has a time limit.
    fn start(request: &Request) -> Self {
        let Some(time) = request.time_limit else { return Self { stop: request.stop.clone() } };
        let stop = request.stop.expected();
        let shared = stop.clone();
        // Detached: it holds one flag, and a late request to a search that ended changes nothing.
        std::thread::spawn(move || {
            std::thread::sleep(time);
            shared.request();
        });
        Self { stop }
    }
}

/// Returns the rest of a pipeline that begins with a pass without settings.
fn after<'t>(text: &'t str, first: &str) -> Option<&'t str> {
    text.trim_start().strip_prefix(first)?.trim_start().strip_prefix(',')
}

/// Runs the transforms of a turn; returns their pipelines.
///
/// # Errors
/// A transform fails.
fn transform(
    turn: Turn,
    module: &mut Module,
    ctx: &mut PassContext<'_>,
    request: &Request,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Vec<&'static str>, Error> {
    let own = request.transforms.as_slice();
    let rows = Transforms { own, options: ctx.options }.at(turn, module);
    for row in &rows {
        registry::parse(row.passes, module.stage, own)?.with(settings).run(
            module,
            ctx,
            request.verify,
            observer,
        )?;
    }
    Ok(rows.into_iter().map(|row| row.passes).collect())
}

/// How a search ended, as the layout says it.
fn solver(report: &SolverReport) -> memc_layout::Solver {
    memc_layout::Solver {
        pass: report.pass.to_owned(),
        unit: "bytes".to_owned(),
        value: report.value,
        lower_bound: report.lower_bound,
        stop: report.stop.to_owned(),
        effort: report.effort,
    }
}

/// How the search for a plan within a budget ended, in nanoseconds, as the layout says it.
fn budget_solver(budgeted: &Budgeted) -> memc_layout::Solver {
    memc_layout::Solver {
        pass: "budget".to_owned(),
        unit: "ns".to_owned(),
        value: budgeted.makespan,
        lower_bound: budgeted.lower_bound,
        stop: budgeted.stop.to_owned(),
        effort: budgeted.effort,
    }
}

/// Lower bound of the extra time of every plan within the budget, as a share of the time of all nodes.
fn overhead_bound(budgeted: &Budgeted) -> f64 {
    budgeted.lower_bound.saturating_sub(budgeted.base_cost) as f64 / budgeted.base_cost.max(1) as f64
}

/// Warns that the requested micro-batches had no effect.
fn undivided(module: &Module, rewrite: &memc_passes::Rewriting) -> Option<Diagnostic> {
    let parts = rewrite.micro_batches.filter(|parts| *parts > 1)?;
    let message =
        format!("`--micro-batches {parts}` had no effect: no plan computes the batch in {parts} parts");
    let help = "the first extent of a graph input must be divisible by the number of parts, and sums over parts must fit the budget";
    (!is_divided(module)).then(|| Diagnostic::new("W0303", Severity::Warning, message).with_help(help))
}

/// Warns that an option which adds bytes raises the peak above that of the file order.
fn raised(module: &Module, before: Bytes, options: &Resolved<'_>) -> Option<Diagnostic> {
    let rewrite = &options.plan.rewrite;
    let named = [
        rewrite.nchwc.map(|channels| format!("`--nchwc {channels}`")),
        options.plan.encode.weights.map(|code| format!("`--encode-weights {}`", code.name())),
        rewrite.micro_batches.map(|parts| format!("`--micro-batches {parts}`")),
        (options.plan.engines > 1).then(|| format!("`--engines {}`", options.plan.engines)),
    ];
    let named: Vec<String> = named.into_iter().flatten().collect();
    let peak = planned_peak(module, &options.plan);
    let message = format!("{} raises the peak to {peak}, from {before} in file order", named.join(" with "));
    let help = "leave the option out, unless you need it for another reason than memory";
    (peak > before && !named.is_empty())
        .then(|| Diagnostic::new("W0306", Severity::Warning, message).with_help(help))
}

/// Remarks that kernels keep buffers which no step of the plan counts.
fn beside_the_peak(module: &Module, profile: &Profile) -> Option<Diagnostic> {
    let kept = profile.kept(module);
    let message = format!(
        "integer products keep up to {kept} in each thread of a session from its first run on, in addition to the peak"
    );
    let help = "if the process has a hard limit, reduce the budget by this number of bytes for each thread";
    (kept > Bytes(0)).then(|| Diagnostic::new("W0305", Severity::Remark, message).with_help(help))
}

/// Remarks that a session with default options merges recomputed nodes with the originals.
fn merged_by_sessions(module: &Module, profile: &Profile) -> Option<Diagnostic> {
    let needs = SessionNeeds::default();
    profile.session_options(Language::Python, None, needs)?;
    let again = module.nodes().keys().filter(|node| module.node(*node).recompute_of.is_some()).count();
    let message = format!(
        "a session with default options undoes this plan: it merges the {again} recomputed nodes with the nodes that they repeat"
    );
    let help = "set up the session with `--session python` (or cpp, csharp, rust): both recipes keep recomputed nodes";
    (again > 0).then(|| Diagnostic::new("W0314", Severity::Remark, message).with_help(help))
}

/// Turns on exact results if a random operator has a fixed seed and no option requests otherwise, and
/// remarks on it: a fixed seed asks for repeatable numbers.
fn reproducible(given: &Module, options: &mut memc_passes::Options) -> Option<Diagnostic> {
    let is_encoded = options.encode.weights.is_some();
    let rewrite = &mut options.rewrite;
    let is_asked = rewrite.exact || rewrite.micro_batches.is_some() || rewrite.names_kernels() || is_encoded;
    let seeded = given.nodes().keys().find(|node| !is_asked && is_seeded(given, *node))?;
    rewrite.exact = true;
    let message = "a random operator has a fixed seed, so the plan is made as with `--exact`";
    let help =
        "if results may differ from run to run, remove `seed` from the model, or use `--micro-batches`";
    Some(Diagnostic::new("W0304", Severity::Remark, message).at_node(given, seeded).with_help(help))
}

/// Remarks on dimensions that have an extent of 0: the plan is for empty tensors.
fn empty(request: &Request) -> Option<Diagnostic> {
    let names: Vec<&str> = request
        .import
        .dims
        .iter()
        .filter(|(_, extent)| **extent == 0)
        .map(|(name, _)| name.as_str())
        .collect();
    let first = names.first()?;
    let message = format!(
        "an extent of 0 leaves tensors along `{}` empty: the plan holds for empty inputs only",
        names.join("`, `")
    );
    let help =
        format!("state the extent of real inputs, or a range that includes 0, as in `--dim {first}=0..8`");
    Some(Diagnostic::new("W0109", Severity::Remark, message).with_help(help))
}

/// Warns that a profile lacks nodes of the model.
fn coverage(measured: &Measured) -> Option<Diagnostic> {
    let (found, lacking) = (measured.matched(), measured.unmatched());
    let message = format!("the profile has {found} of the model's {} nodes", found.saturating_add(lacking));
    let help = "measure this model with `memc profile`, with equal `--dim` options";
    (lacking > 0).then(|| Diagnostic::new("W0302", Severity::Warning, message).with_help(help))
}

/// Hashes of the input and of the output, computed in parallel: they take most of the time if the
/// weights are inside.
fn hashes(file: &ModelFile, model: &Exported) -> (String, String) {
    std::thread::scope(|scope| {
        let input = scope.spawn(|| memc_onnx_export::sha256(file.bytes()));
        let output = model.sha256();
        // Hashes here if the thread is lost.
        (input.join().unwrap_or_else(|_| memc_onnx_export::sha256(file.bytes())), output)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_plan_that_fails_its_check_is_an_error() {
        let model = ModelFile::open("examples/models/mlp_step.onnx").unwrap();
        let mut planned = plan(&model, &Request::new()).unwrap();
        prove(&model, &planned.model, &planned.layout).unwrap();
        planned.layout.arenas[0].size -= 1;
        let error = prove(&model, &planned.model, &planned.layout).unwrap_err();
        assert_eq!((error.exit_code(), error.diagnostic().code), (70, "E0905"));
        assert!(!error.diagnostic().notes.is_empty());
    }
}
