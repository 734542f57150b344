//! Derives live ranges from the schedule, including reads by bodies, and compares them with the stated
//! ranges.

use memc_ir::Value;

use crate::codes::Kind;
use crate::ctx::{Ctx, Steps};
use crate::findings::{At, Findings, exact};

/// Sorts ranges and joins those that overlap or touch.
pub(crate) fn joined(mut ranges: Vec<Steps>) -> Vec<Steps> {
    ranges.sort_unstable();
    let mut union: Vec<Steps> = Vec::new();
    for (start, end) in ranges {
        match union.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => union.push((start, end)),
        }
    }
    union
}

/// Derives the live range of every value, checks the stated ranges, and stores both in the context.
pub(crate) fn check(ctx: &mut Ctx<'_>, findings: &mut Findings) {
    let mut wider = 0;
    for index in 0..ctx.layout.tensors.len() {
        // If a tensor is listed twice, only the first entry counts.
        if ctx.named.get(ctx.tensor(index).name.as_str()) != Some(&index) {
            continue;
        }
        let stated = stated(ctx, index, findings);
        let derived = match ctx.value_of[index] {
            Some(value) => Some(derive(ctx, value)),
            None => stated.first().copied(),
        };
        if let (Some(value), Some((start, end))) = (ctx.value_of[index], derived) {
            let tensor = ctx.tensor(index);
            let placed = tensor.offset.is_some();
            // A tensor without a place may state the range of its readers, or nothing.
            let needed = if placed { Some((start, end)) } else { readers(ctx, value) };
            let covered = |(start, end): Steps| stated.iter().any(|range| range.0 <= start && end <= range.1);
            let free = !placed && stated.is_empty();
            if !free && ctx.steps() > 0 && !needed.is_none_or(covered) {
                let (start, end) = needed.unwrap_or((start, end));
                let last = end.saturating_sub(1);
                let message = format!(
                    "`{}` ({}) is stated live at {:?}, but needed at steps [{start},{end}): `{}` is at {start}, `{}` at {last}",
                    tensor.name,
                    exact(tensor.bytes),
                    pairs(&stated),
                    ctx.node_at(start as usize),
                    ctx.node_at(last as usize),
                );
                findings.add(
                    Kind::Live,
                    At::node(last as usize, ctx.node_at(last as usize)).of(&tensor.name),
                    message,
                );
            } else if placed && stated != [(start, end)] {
                wider += 1;
            }
        }
        ctx.live[index] = stated;
        ctx.derived[index] = derived;
    }
    if wider > 0 {
        findings.remark(format!("{wider} live ranges are wider than the derived ones"));
    }
}

fn pairs(ranges: &[Steps]) -> String {
    ranges.iter().map(|(start, end)| format!("[{start},{end})")).collect::<Vec<_>>().join(" ")
}

/// Returns the stated ranges, cut to the schedule. Reports malformed ranges.
fn stated(ctx: &Ctx<'_>, index: usize, findings: &mut Findings) -> Vec<Steps> {
    let tensor = ctx.tensor(index);
    let steps = ctx.steps() as u64;
    let mut sound = true;
    let mut last = 0;
    for range in &tensor.live {
        sound &= range.start < range.end && range.end <= steps && last <= range.start;
        last = range.end;
    }
    if tensor.offset.is_some() && tensor.live.len() != 1 && steps > 0 {
        sound = false;
    }
    if !sound {
        let shown =
            pairs(&tensor.live.iter().take(8).map(|range| (range.start, range.end)).collect::<Vec<_>>());
        let message = format!(
            "`{}`: {shown} is not a range within steps [0,{steps}), or not sorted, or not one",
            tensor.name
        );
        findings.add(Kind::LiveForm, At::tensor(&tensor.name), message);
    }
    let cut = tensor
        .live
        .iter()
        .map(|range| (range.start, range.end.min(steps)))
        .filter(|(start, end)| start < end);
    joined(cut.collect())
}

/// Derives the live range of a value: from its producer's step to its last reader, or to the end for a
/// graph output.
fn derive(ctx: &Ctx<'_>, value: Value) -> Steps {
    let start = ctx.produced_at(value).unwrap_or(0);
    let last = ctx.readers[value].last().copied().unwrap_or(start).max(start);
    let end = if ctx.out.is_output[value] { ctx.steps() } else { last + 1 };
    (start as u64, end as u64)
}

/// Returns the range from the first to the last reader, or `None` if nothing reads the value.
fn readers(ctx: &Ctx<'_>, value: Value) -> Option<Steps> {
    let all = &ctx.readers[value];
    Some((*all.first()? as u64, *all.last()? as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_live_ranges_are_merged() {
        assert_eq!(joined(vec![(5, 7), (0, 2), (2, 3), (6, 9)]), [(0, 3), (5, 9)]);
    }
}
