//! Rules 5 and 7, state: new values that lie in the storage of old ones are those of the layouts, and nothing
//! on their device needs the old value afterwards.

use std::collections::BTreeSet;

use memc_layout::devices::{Carried, Event, Updated};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    rows(ctx, findings);
    for (row, device) in
        ctx.manifest.state.iter().flat_map(|row| ctx.devices(&row.section).iter().map(move |own| (row, own)))
    {
        if let Some(message) = overwritten(ctx, row, device) {
            let message =
                format!("{}: `{}` takes the storage of `{}`, {message}", row.section, row.result, row.tensor);
            findings.add(Kind::EventOrder, At::tensor(&row.result), message);
        }
    }
}

/// The rows are those of the layouts, each once.
fn rows(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut found: BTreeSet<Updated> = BTreeSet::new();
    for (section, files) in ctx.manifest.sections.iter().zip(ctx.sections) {
        let own = files.layout.state.iter().map(|row| Updated {
            section: section.name().to_owned(),
            tensor: row.tensor.clone(),
            result: row.result.clone(),
        });
        found.extend(own);
    }
    let stated: BTreeSet<Updated> = ctx.manifest.state.iter().cloned().collect();
    if stated.len() != ctx.manifest.state.len() {
        findings.add(Kind::SectionLayout, At::default(), "a row of `state` is listed twice".to_owned());
    }
    for row in stated.symmetric_difference(&found) {
        let (which, other) =
            if found.contains(row) { ("its layout", "`state`") } else { ("`state`", "its layout") };
        let message = format!(
            "{}: by {which} `{}` takes the storage of `{}`, not by {other}",
            row.section, row.result, row.tensor
        );
        findings.add(Kind::SectionLayout, At::tensor(&row.result), message);
    }
}

/// What needs the old value once the new one is written over it; `None` if nothing does.
fn overwritten(ctx: &Ctx<'_>, row: &Updated, device: &str) -> Option<String> {
    let position = *ctx.position.get(row.section.as_str())?;
    if !ctx.outputs[position].contains(row.result.as_str()) {
        return Some("and the manifest does not state that the section makes it".to_owned());
    }
    let is_weight = ctx.whole.weights.contains(&row.tensor);
    if is_weight && ctx.runs_on(position, device).len() != 1 {
        return Some("which a later run reads".to_owned());
    }
    let reads = |at: usize| match is_weight {
        true => ctx.nodes[at].iter().any(|node| ctx.whole.nodes[*node].reads.contains(&row.tensor)),
        false => ctx.inputs[at].contains(row.tensor.as_str()),
    };
    // Keys of the old value that were written over, and of those among them the ones that are no more held.
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let mut held: BTreeSet<u64> = BTreeSet::new();
    for event in ctx.manifest.program.get(device).into_iter().flatten() {
        match event {
            Event::Run { micro_batch, section } => {
                let Some(at) = ctx.section_of(device, section.as_ref()) else { continue };
                let (_, old) = ctx.key(&row.tensor, at, *micro_batch);
                let is_lost = if is_weight { !written.is_empty() } else { written.contains(&old) };
                if reads(at) && is_lost {
                    return Some(format!("which {} reads later", ctx.manifest.sections[at].name()));
                }
                if at == position {
                    written.insert(old);
                    held.insert(ctx.key(&row.result, at, *micro_batch).1);
                }
            }
            Event::Free(Carried { value, micro_batch }) if *value == row.result => {
                held.remove(micro_batch);
            }
            Event::Free(Carried { value, micro_batch })
                if *value == row.tensor && held.contains(micro_batch) =>
            {
                return Some("which is freed before".to_owned());
            }
            Event::Send { value, micro_batch, .. }
                if *value == row.tensor && written.contains(micro_batch) =>
            {
                return Some("which is sent later".to_owned());
            }
            _ => {}
        }
    }
    None
}
