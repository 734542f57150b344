//! Checks aliases: chains end at an owner, alias and owner have matching places, and every view follows
//! from an operator.

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::{in_place, views};
use memc_ir::DimExpr;
use memc_layout::{Alias, AliasKind};
use petgraph::unionfind::UnionFind;

/// Follows each alias to its owner and groups the entries that are views of one another. Reports
/// aliases of unknown values and cycles of aliases.
pub(crate) fn resolve(ctx: &mut Ctx<'_>, findings: &mut Findings) {
    for (index, tensor) in ctx.layout.tensors.iter().enumerate() {
        let Some(alias) = &tensor.alias else { continue };
        let of = ctx.named.get(alias.of.as_str()).copied().filter(|of| ctx.value_of[*of].is_some());
        match of {
            // `entries` has already reported workspace that is an alias.
            Some(of) if ctx.value_of[index].is_some() => ctx.target[index] = Some(of),
            Some(_) => {}
            None => {
                let message = format!(
                    "`{}` is an alias of `{}`, which is not a value with an entry",
                    tensor.name, alias.of
                );
                findings.add(Kind::AliasTarget, At::tensor(&tensor.name), message);
            }
        }
    }
    ctx.root = roots(&ctx.target);
    ctx.first = firsts(ctx);
    for index in 0..ctx.root.len() {
        if ctx.root[index].is_none() {
            let tensor = ctx.tensor(index);
            let message = format!("the aliases of `{}` form a cycle", tensor.name);
            findings.add(Kind::AliasCycle, At::tensor(&tensor.name), message);
        }
    }
    group(ctx);
}

/// Returns the last entry of each chain of aliases, or `None` for a chain that runs in a cycle.
fn roots(target: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<Option<usize>>> = vec![None; target.len()];
    for start in 0..target.len() {
        let mut path = Vec::new();
        let mut at = start;
        let end = loop {
            if let Some(known) = found[at] {
                break known;
            }
            // Mark the entry as cyclic until the end of its chain is known: reaching the entry again
            // means a cycle.
            found[at] = Some(None);
            path.push(at);
            match target[at] {
                Some(next) => at = next,
                None => break Some(at),
            }
        };
        for index in path {
            found[index] = Some(end);
        }
    }
    found.into_iter().map(Option::flatten).collect()
}

/// Returns the first byte of each entry in the entry that owns its bytes; `None` if an alias in between
/// states a byte that no operator defines, or has no owner.
fn firsts(ctx: &Ctx<'_>) -> Vec<Option<DimExpr>> {
    let step = |index: usize| -> Option<DimExpr> {
        let alias = ctx.tensor(index).alias.as_ref()?;
        let of = ctx.target[index]?;
        if alias.kind == AliasKind::InPlace {
            return Some(DimExpr::constant(0));
        }
        let legal = views::offsets(ctx.out, ctx.value_of[index]?, ctx.value_of[of]?);
        legal.into_iter().find(|first| begins_at(ctx, alias, first))
    };
    let steps: Vec<Option<DimExpr>> = (0..ctx.target.len()).map(step).collect();
    let first = |index: usize| -> Option<DimExpr> {
        ctx.root[index]?;
        let (mut at, mut sum) = (index, DimExpr::constant(0));
        while let Some(of) = ctx.target[at] {
            sum = sum.add(steps[at].as_ref()?)?;
            at = of;
        }
        Some(sum)
    };
    (0..ctx.target.len()).map(first).collect()
}

/// Numbers the sets of entries that `view` aliases connect.
fn group(ctx: &mut Ctx<'_>) {
    let count = ctx.target.len();
    let mut groups = UnionFind::new(count);
    for index in 0..count {
        let view = ctx.tensor(index).alias.as_ref().is_some_and(|alias| alias.kind == AliasKind::View);
        if let (Some(of), true) = (ctx.target[index], view) {
            groups.union(index, of);
        }
    }
    ctx.group = groups.into_labeling();
    ctx.members = vec![Vec::new(); count];
    for (index, group) in ctx.group.iter().enumerate() {
        ctx.members[*group].push(index);
    }
}

/// Checks that every alias has a matching place and is legal.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    for index in 0..ctx.target.len() {
        let (Some(of), Some(value)) = (ctx.target[index], ctx.value_of[index]) else { continue };
        let (Some(alias), Some(whole)) = (&ctx.tensor(index).alias, ctx.value_of[of]) else { continue };
        place(ctx, index, of, alias.alias_offset, findings);
        let legal = views::offsets(ctx.out, value, whole);
        let begins = legal.contains(&DimExpr::constant(0));
        let (name, other) = (&ctx.tensor(index).name, &ctx.tensor(of).name);
        match alias.kind {
            AliasKind::InPlace => in_place::check(ctx, index, of, begins, findings),
            AliasKind::View if legal.is_empty() => {
                let message = format!("`{name}` is neither a reshape nor a contiguous part of `{other}`");
                findings.add(Kind::View, At::tensor(name), message);
            }
            AliasKind::View if !legal.iter().any(|first| begins_at(ctx, alias, first)) => {
                let places: Vec<String> = legal.iter().map(ToString::to_string).collect();
                let message = format!(
                    "`{name}` begins at byte {} of `{other}`; its entry states byte {}",
                    places.join(" or "),
                    alias.alias_offset_expr.clone().unwrap_or_else(|| alias.alias_offset.to_string())
                );
                findings.add(Kind::ViewOffset, At::tensor(name), message);
            }
            AliasKind::View => {}
        }
    }
}

/// Whether an entry states this first byte: as a number, or as an expression with an upper bound.
fn begins_at(ctx: &Ctx<'_>, alias: &Alias, first: &DimExpr) -> bool {
    match (first.as_constant(), &alias.alias_offset_expr) {
        (Some(first), None) => u64::try_from(first) == Ok(alias.alias_offset),
        (None, Some(text)) => {
            first.quoted() == *text && ctx.out.extents.at_most(first, alias.alias_offset.into())
        }
        _ => false,
    }
}

fn place(ctx: &Ctx<'_>, index: usize, of: usize, alias_offset: u64, findings: &mut Findings) {
    let (tensor, owner) = (ctx.tensor(index), ctx.tensor(of));
    let at = At::tensor(&tensor.name);
    // Without an offset, neither the owner nor its alias has a place.
    let expected = owner.offset.map(|offset| offset.saturating_add(alias_offset));
    if tensor.space != owner.space || tensor.offset != expected {
        let message = format!(
            "`{}` lies at {}; its owner `{}` implies {}",
            tensor.name,
            shown(tensor.space.as_deref(), tensor.offset),
            owner.name,
            shown(owner.space.as_deref(), expected)
        );
        findings.add(Kind::AliasPlace, at, message);
    }
    let end = alias_offset.saturating_add(tensor.bytes);
    if end > owner.bytes {
        let size = exact(owner.bytes);
        let message = format!("`{}` ends at byte {end} of `{}`, which has {size}", tensor.name, owner.name);
        findings.add(Kind::AliasPlace, at, message);
    }
}

fn shown(space: Option<&str>, offset: Option<u64>) -> String {
    match (space, offset) {
        (Some(space), Some(offset)) => format!("{space}:{offset}"),
        _ => "no place".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_chains_end_at_owners_and_alias_cycles_have_none() {
        let target = [None, Some(0), Some(1), Some(4), Some(5), Some(4)];
        assert_eq!(roots(&target), [Some(0), Some(0), Some(0), None, None, None]);
    }
}
