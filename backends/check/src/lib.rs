//! Re-derives and verifies a plan from the files alone.
//!
//! [`check`] takes the input model, the output model and the layout. It compares the layout with facts
//! derived from the two models: schedule, types, live ranges, places, aliases, transfers,
//! recomputation, meaning, and every claimed number. It uses the importer, the operator table and the
//! types of the layout file, but no part of the planner.
//!
//! [`devices::check`] verifies a model that is divided over devices, from its manifest; [`joint::check`]
//! several models in one memory, from their joint file.
//!
//! All violations are collected. Layouts are untrusted: names may be wrong, numbers absurd, aliases
//! cyclic.

mod added;
mod alias;
mod baseline;
mod bodies;
mod boundary;
mod caches;
mod claims;
mod codec;
pub mod codes;
mod content;
mod ctx;
pub mod devices;
pub mod empty;
mod encodings;
mod engines;
mod entries;
mod extents;
mod fetches;
mod findings;
mod flat;
mod form;
mod formula;
mod header;
mod in_place;
mod interface;
mod inverses;
pub mod joint;
mod kernels;
mod last_rows;
mod levels;
mod liveness;
mod meaning;
mod numbering;
mod order_bound;
mod overlap;
mod placement;
mod positions;
mod repeat;
mod report;
mod rows;
mod scanned;
mod schedule;
mod scratch;
mod shaped;
mod side;
mod state;
mod stated;
mod transfers;
mod unchanged;
mod views;
mod weights;

use std::collections::BTreeMap;

use bytes::Bytes;
use memc_layout::Layout;
use memc_onnx_import::ImportError;
use memc_onnx_proto::ModelFile;

use crate::ctx::Ctx;
use crate::extents::Extents;
use crate::findings::{At, Findings};
use crate::side::Side;

pub use codes::Kind;
pub use findings::{MAX_VIOLATIONS, Violation};
pub use form::form;
pub use last_rows::with_last_rows;
pub use numbering::fused::ACTIVATIONS;
pub use numbering::turned::PLACELESS;
pub use report::{BaselineSummary, Report, SpaceSummary, Summary};

/// Checks in addition to the plan itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether to compare the values that the two models compute.
    pub equivalence: bool,
    /// Whether outputs that are not provably equal are violations instead of a remark.
    pub exact: bool,
    /// Whether the files that both models name are the same files, so that their contents need no comparison.
    pub one_folder: bool,
    /// Whether to compare the hashes of the files; a caller that has just computed them need not.
    pub hashes: bool,
    /// Whether the caller has just planned the input model, and asks for violations alone: the model is not
    /// tried at points of its ranges again, and all outputs without proof count as unproven, also those that
    /// only add in another order.
    pub is_new: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { equivalence: true, exact: false, one_folder: true, hashes: true, is_new: false }
    }
}

/// Verifies a layout against the input model and the output model.
///
/// Takes O(n log n) time in nodes and tensors, plus one pass over the model files for their hashes.
pub fn check(given: &ModelFile, out: &ModelFile, layout: &Layout, options: Options) -> Report {
    check_with(given, out, layout, options, &|_, _, _, _| None)
}

/// One of the two models of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The input model.
    Given,
    /// The output model.
    Out,
}

/// Verifies a layout as [`check`] does. If the models lie in two folders, or the output model keeps weights
/// in files that the input model does not name, constants are compared by content: `weights` returns the
/// bytes of a file beside one of the models, by location, offset and length, or `None` if it cannot be read.
pub fn check_with(
    given: &ModelFile,
    out: &ModelFile,
    layout: &Layout,
    options: Options,
    weights: &dyn Fn(Which, &str, u64, u64) -> Option<Bytes>,
) -> Report {
    let mut findings = Findings::default();
    let mut summary = Summary::default();
    header::check(out, layout, &mut findings);
    if options.hashes {
        header::hashes(given, out, layout, &mut findings);
    }
    let extended = added::extended(given, layout, &mut findings);
    let given = extended.as_ref().unwrap_or(given);
    let cut = with_last_rows(given, layout).unwrap_or_else(|(output, why)| {
        let message = format!("the input model has no last row of output `{output}`: {why}");
        findings.add(Kind::LastRow, At::tensor(&output), message);
        None
    });
    let given = cut.as_ref().unwrap_or(given);
    let extents = Extents::of(layout, &mut findings);
    let sides = extents
        .as_ref()
        .and_then(|extents| import(given, out, layout, extents, options.is_new, &mut findings));
    if let Some((mut given, mut out)) = sides {
        if !options.one_folder || !out.locations().is_subset(&given.locations()) {
            given.take_outside(|location, offset, length| weights(Which::Given, location, offset, length));
            out.take_outside(|location, offset, length| weights(Which::Out, location, offset, length));
        }
        run(&given, &mut out, layout, options, &mut findings, &mut summary);
    }
    summary.violations = findings.counts();
    let (violations, remarks) = findings.finish();
    Report { violations, remarks, summary }
}

fn import<'f>(
    given: &'f ModelFile,
    out: &'f ModelFile,
    layout: &Layout,
    extents: &'f Extents,
    fits: bool,
    findings: &mut Findings,
) -> Option<(Side<'f>, Side<'f>)> {
    let dims = &layout.model.dims;
    let open =
        |file: &'f ModelFile, dims: &BTreeMap<String, u64>, fits: bool| Side::open(file, dims, extents, fits);
    let unbound = |file: &ModelFile| {
        if dims.is_empty() {
            return Ok(BTreeMap::new());
        }
        let open = memc_onnx_import::open_dimensions(file)?;
        Ok(dims
            .iter()
            .filter(|(name, _)| open.contains(*name))
            .map(|(name, extent)| (name.clone(), *extent))
            .collect())
    };
    let given = open(given, dims, fits);
    // Report the open symbols, then continue with the extents that the plan bound.
    let out = unbound(out).and_then(|left: BTreeMap<String, u64>| {
        for (name, extent) in &left {
            let message =
                format!("the plan holds only for `{name}` = {extent}, but an input of the output model leaves `{name}` unbound");
            findings.add(Kind::Unbound, At::default(), message);
        }
        for (name, symbol) in interface::unbound(out, dims) {
            let message = format!("`{name}` of the output model states `{symbol}`, although the plan bound it");
            findings.add(Kind::Unbound, At::tensor(&name), message);
        }
        let is_bound = !dims.is_empty() && left.is_empty();
        if layout.model.bound != is_bound {
            let (stated, found) = if is_bound { ("leave", "state") } else { ("state", "do not state") };
            let message = format!("by `model.bound`, the inputs {stated} the extents of the plan; they {found} them");
            findings.add(Kind::ModelHeader, At::default(), message);
        }
        open(out, &left, false)
    });
    let mut readable = |side: Result<Side<'f>, ImportError>, which: &str| match side {
        Ok(side) => Some(side),
        Err(error) => {
            let cause = error.diagnostic();
            findings.add(
                Kind::Model,
                At::default(),
                format!("the {which} model cannot be read: {}", cause.message),
            );
            None
        }
    };
    let (given, out) = (readable(given, "input"), readable(out, "output"));
    given.zip(out)
}

/// Runs all checks that need both models.
fn run(
    given: &Side<'_>,
    out: &mut Side<'_>,
    layout: &Layout,
    options: Options,
    findings: &mut Findings,
    summary: &mut Summary,
) {
    let Some(order) = schedule::order(out, layout, findings) else {
        findings.remark("stopped early: nothing more can be checked without a valid schedule".to_owned());
        return;
    };
    summary.unverified_shapes = entries::adopt_types(out, layout);
    if summary.unverified_shapes > 0 {
        findings.remark(format!(
            "{} shapes are taken from the layout: the model does not state them",
            summary.unverified_shapes
        ));
    }
    let mut ctx = Ctx::new(given, out, layout, order, findings);
    schedule::check(&ctx, findings);
    entries::check(&ctx, findings);
    scratch::check(&ctx, findings);
    empty::check(&ctx, findings);
    liveness::check(&mut ctx, findings);
    alias::resolve(&mut ctx, findings);
    alias::check(&ctx, findings);
    placement::check(&ctx, findings);
    overlap::check(&ctx, findings);
    engines::check(&ctx, findings);
    formula::check(layout, ctx.out.extents, findings);
    transfers::check(&ctx, findings);
    state::check(&ctx, findings);
    caches::check(&ctx, findings);
    fetches::check(&ctx, findings);
    stated::check(&ctx, findings);
    weights::check(&ctx, findings);
    boundary::check(&ctx, findings);
    let recomputed = meaning::check(&ctx, options, findings, summary);
    claims::check(&ctx, recomputed, findings, summary);
}
