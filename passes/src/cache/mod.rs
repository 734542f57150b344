//! `cache`: keeps caches that grow in one buffer of full capacity.

mod error;
mod fill;
mod flow;
mod lengths;
mod pairs;
mod rules;
mod write;

use memc_ir::{Bytes, Diagnostic, Module, Severity, Stage};

use crate::pass::{Changed, PassContext, PassError, PassInfo};

pub use error::CacheError;
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

/// A cache that is kept in one buffer, by the names of its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrownCache {
    /// Name of the graph input with the rows so far.
    pub input: String,
    /// Name of the graph output with the rows so far and the new rows.
    pub output: String,
    /// Axis of the rows.
    pub axis: usize,
    /// Number of rows that the buffer holds.
    pub capacity: u64,
    /// Number of rows that a run appends.
    pub rows: u64,
    /// Name of the graph input with the number of valid rows before the run.
    pub count: String,
    /// Dimensions of the given model that grow with the number of rows, with their extents for a full
    /// buffer. Empty if the given model has one number of rows.
    pub grows: Vec<(String, u64)>,
}

/// Replaces every concatenation of a cache with its new rows by a write into the cache, hides rows that
/// are not valid, and binds the dimensions that grow.
fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let named = pairs::named(module, ctx.options);
    if named.is_empty() {
        return Ok(Changed::No);
    }
    let lengths = lengths::Lengths::new(module, ctx)?;
    let caches = pairs::recognize(&lengths, &named)?;
    let edits = flow::follow(&lengths, &caches)?;
    let (written, data) = write::write(&lengths, &caches, &edits)?;
    let count = written.count;
    let name = |value| written.module.value(value).name.clone();
    let grown = caches.all.iter().map(|cache| GrownCache {
        input: name(cache.old),
        output: name(cache.new),
        axis: cache.axis,
        capacity: caches.past + caches.rows,
        rows: caches.rows,
        count: name(count),
        grows: lengths.symbols.iter().map(|(name, extent)| (name.clone(), *extent)).collect(),
    });
    ctx.said.caches = grown.collect();
    ctx.said.remarks.push(remark(&written.module, &caches, &name(count), lengths.symbols.is_empty()));
    ctx.data = data;
    *module = written.module;
    Ok(Changed::Yes(written.edits.max(1)))
}

/// Remarks on the bytes that are kept once, and on the input with the number of valid rows.
fn remark(module: &Module, caches: &pairs::Caches, count: &str, is_fixed: bool) -> Diagnostic {
    let (capacity, rows) = (caches.past + caches.rows, caches.rows);
    let bytes = caches.all.iter().filter_map(|cache| module.ty(cache.new).size()).fold(Bytes(0), Bytes::saturating_add);
    let copied = Bytes(bytes.0 / capacity.max(1) * rows);
    let message = format!(
        "{} caches of {capacity} rows are kept once: {bytes}; a run writes {copied}. Input `{count}` states the valid rows before the run",
        caches.all.len()
    );
    let help = match is_fixed {
        true => format!("the model has {} rows: its results are those of `{count}` = {}", caches.past, caches.past),
        false => "begin with buffers of zeros; pass each one as input and as output".to_owned(),
    };
    Diagnostic::new("W0326", Severity::Remark, message).with_help(help)
}
