//! `cache`: keeps caches that grow in one buffer of full capacity.

mod extents;
mod fill;
mod flow;
mod follow;
mod lengths;
mod pairs;
mod rows;
mod rules;
mod write;

use memc_ir::{Bytes, Diagnostic, Module, Severity, Stage};

use crate::buffer::GrownCache;
use crate::claims::Claim;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

pub use pairs::{is_growing, past_of};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "cache",
    summary: "Keeps caches that grow in one buffer of full capacity, and writes new rows in place.",
    page: include_str!("../../doc/cache.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// Name of the graph input with the number of valid rows of all caches; numbered if the model has it.
pub const COUNT: &str = "cache_length";

/// Replaces every concatenation of a cache with its new rows by a write into the cache, hides rows that
/// are not valid, and binds the dimensions that grow.
fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let named = pairs::named(module, ctx.options);
    if named.is_empty() {
        return Ok(Changed::No);
    }
    let lengths = lengths::Lengths::new(module, ctx)?;
    let caches = pairs::recognize(&lengths, &named)?;
    let edits = follow::follow(&lengths, &caches)?;
    let (written, data) = write::write(&lengths, &caches, &edits)?;
    let count = written.count;
    let name = |value| written.module.value(value).name.clone();
    for cache in &caches.all {
        ctx.said.claims.push(Claim::Cache(GrownCache {
            input: name(cache.old),
            output: name(cache.new),
            axis: cache.axis,
            capacity: caches.capacity,
            rows: caches.most,
            rows_expr: Some(&caches.rows).filter(|rows| rows.as_constant().is_none()).cloned(),
            count: name(count),
            grows: lengths.symbols.iter().map(|(name, extent)| (name.clone(), extent.clone())).collect(),
        }));
    }
    ctx.said.remarks.push(remark(&written.module, &caches, &name(count), lengths.symbols.is_empty()));
    ctx.data = data;
    *module = written.module;
    Ok(Changed::Yes(written.edits.max(1)))
}

/// Remarks on the bytes that are kept once, and on the input with the number of valid rows.
fn remark(module: &Module, caches: &pairs::Caches, count: &str, is_fixed: bool) -> Diagnostic {
    let (capacity, rows) = (caches.capacity, caches.most);
    let bytes =
        caches.all.iter().filter_map(|cache| module.size(cache.new)).fold(Bytes(0), Bytes::saturating_add);
    let copied = Bytes(bytes.0 / capacity.max(1) * rows);
    let writes = if caches.rows.as_constant().is_some() { "writes" } else { "writes at most" };
    let message = format!(
        "{} caches of {capacity} rows are kept once: {bytes}; a run {writes} {copied}. Input `{count}` states the valid rows before the run",
        caches.all.len()
    );
    let help = match is_fixed {
        true => format!(
            "the model has {} rows: its results are those of `{count}` = {}",
            caches.past, caches.past
        ),
        false => "begin with buffers of zeros; pass each one as input and as output".to_owned(),
    };
    Diagnostic::new("W0326", Severity::Remark, message).with_help(help)
}
