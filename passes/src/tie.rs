//! `tie`: keeps one of several equal weights.

use std::collections::HashMap;

use memc_ir::{
    Bytes, ConstOrigin, Definition, Diagnostic, Module, Payload, Rewriter, Severity, Stage, Value,
};

use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "tie",
    summary: "Keeps one copy of equal weights.",
    page: include_str!("../doc/tie.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// Minimum size of an examined weight, in bytes. Scalars and short vectors take little memory, and `cse`
/// merges those.
const MIN_BYTES: usize = 64;
/// Size of each sample, in bytes. Samples from the beginning, middle and end separate weights before a
/// full comparison: most weights differ there, so the rest of the file is not read.
const SAMPLE: usize = 64;
/// Maximum number of full comparisons of one weight with others of equal samples, so that a hostile file
/// costs no more than a few readings.
const MAX_COMPARED: usize = 8;
/// Minimum number of saved bytes for a remark.
const MIN_REMARKED: u64 = 1024;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let mut rewriter = Rewriter::new(module);
    let (mut saved, mut count, mut remarked, mut first) = (0u64, 0u64, 0u64, None);
    for group in equal_weights(&rewriter) {
        // Keep a pinned weight if there is one: a body reads it, or it is an output, so its name must
        // stay.
        let kept = group.iter().copied().find(|value| rewriter.is_pinned(*value)).or(group.first().copied());
        let Some(kept) = kept else { continue };
        for value in group {
            if value == kept || rewriter.is_pinned(value) {
                continue;
            }
            rewriter.replace_uses(value, kept);
            count += 1;
            // The remark is about weights of the file.
            if is_new(&rewriter, value) {
                continue;
            }
            remarked += 1;
            saved = saved.saturating_add(rewriter.module().ty(value).size().map_or(0, |size| size.0));
            first.get_or_insert_with(|| {
                [value, kept].map(|value| rewriter.module().value(value).name.clone())
            });
        }
    }
    if count > 0 {
        rewriter.drop_unused_constants();
    }
    if let Some([value, kept]) = first.filter(|_| saved >= MIN_REMARKED) {
        let (more, verb) = match remarked - 1 {
            0 => (String::new(), "equals"),
            more => (format!(" and {more} more weights"), "equal"),
        };
        let others = if remarked == 1 { format!("`{kept}`") } else { format!("others, as `{kept}`") };
        let message = format!("`{value}`{more} {verb} {others}: this saves {} of weights", Bytes(saved));
        ctx.said.remarks.push(Diagnostic::new("W0308", Severity::Remark, message));
    }
    Ok(Changed::edits(rewriter.finish()))
}

/// Whether a pass made the weight.
fn is_new(rewriter: &Rewriter<'_>, value: Value) -> bool {
    let constant = rewriter.module().constant_of(value);
    constant.is_some_and(|constant| rewriter.module().constant(constant).origin == ConstOrigin::New)
}

/// Key by which weights may be equal; equal keys do not imply equal elements.
#[derive(PartialEq, Eq, Hash)]
enum Key<'m> {
    /// Elements in the model's own file: type, length in bytes, and samples.
    Raw { ty: String, length: usize, samples: [&'m [u8]; 3] },
    /// A range in another file, which is not opened.
    External { ty: String, location: &'m str, offset: u64, length: Option<u64> },
}

/// Returns groups of at least two equal initializers of the main graph. Groups and members are in the
/// module's order.
fn equal_weights(rewriter: &Rewriter<'_>) -> Vec<Vec<Value>> {
    let module = rewriter.module();
    let mut alike: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
    let mut groups: Vec<Vec<Value>> = Vec::new();
    for value in &module.graph(module.main()).constants {
        let Definition::Constant(_, constant) = module.value(*value).definition else { continue };
        let data = module.constant(constant);
        let (key, raw) = match &data.payload {
            Payload::Raw(raw) if raw.len() >= MIN_BYTES => {
                let middle = (raw.len() / 2).saturating_sub(SAMPLE / 2);
                let samples = [0, middle, raw.len().saturating_sub(SAMPLE)]
                    .map(|start| &raw[start..raw.len().min(start + SAMPLE)]);
                (Key::Raw { ty: data.ty.to_string(), length: raw.len(), samples }, Some(raw))
            }
            Payload::External { location, offset, length } => {
                (Key::External { ty: data.ty.to_string(), location, offset: *offset, length: *length }, None)
            }
            _ => continue,
        };
        let is_equal = |group: &&usize| {
            let other = groups[**group]
                .first()
                .and_then(|value| module.constant_of(*value))
                .map(|other| module.constant(other));
            match (raw, other.map(|other| &other.payload)) {
                (Some(raw), Some(Payload::Raw(other))) => raw == other,
                (None, Some(_)) => true,
                _ => false,
            }
        };
        let known = alike.entry(key).or_default();
        match known.iter().take(MAX_COMPARED).find(is_equal).copied() {
            Some(group) => groups[group].push(*value),
            None => {
                known.push(groups.len());
                groups.push(vec![*value]);
            }
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}
