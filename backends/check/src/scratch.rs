//! Checks workspace of kernels and of bodies.

use std::collections::{BTreeMap, HashMap};

use memc_ir::{DimExpr, NodeData, TensorType};
use memc_layout::{Class, Tensor};

use crate::bodies;
use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::entries::element;
use crate::findings::{At, Findings, exact};
use crate::kernels::{self, Kernels};

/// Checks every entry that is not a value, and the workspace of each node with bodies.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let step_of: HashMap<&str, usize> = (0..ctx.steps()).map(|step| (ctx.node_at(step), step)).collect();
    for (index, tensor) in ctx.layout.tensors.iter().enumerate() {
        if ctx.value_of[index].is_some() || ctx.named.get(tensor.name.as_str()) != Some(&index) {
            continue;
        }
        match owner(&tensor.name, &step_of) {
            Some((step, part)) => entry(ctx, index, step, part, findings),
            None => {
                let message = format!(
                    "`{}` is neither a value of the output model nor a workspace of a node",
                    tensor.name
                );
                findings.add(Kind::ExtraTensor, At::tensor(&tensor.name), message);
            }
        }
    }
    bodies(ctx, &step_of, findings);
    kernels(ctx, findings);
}

/// Checks that each kernel has the workspace that it takes at the smallest and the largest extents.
fn kernels(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut rows: HashMap<&str, Vec<&Tensor>> = HashMap::new();
    for tensor in &ctx.layout.tensors {
        let parts = tensor.name.strip_prefix("scratch:").and_then(|name| name.rsplit_once(':'));
        if let Some((node, _)) = parts.filter(|(_, part)| *part != "body") {
            rows.entry(node).or_default().push(tensor);
        }
    }
    let (kernels, ends, none) = (Kernels::of(ctx.layout), ctx.out.extents.ends(), Vec::new());
    for step in 0..ctx.steps() {
        let node = ctx.out.rows[ctx.order[step]].node;
        let rows = rows.get(ctx.node_at(step)).unwrap_or(&none);
        for extents in &ends {
            let Some(least) = kernels::least(&ctx.out.module, node, extents, kernels) else { continue };
            let mut bytes = rows.iter().map(|tensor| bytes_at(tensor, extents));
            let has = bytes.try_fold(0u64, |sum, bytes| sum.checked_add(bytes?)).unwrap_or(0);
            if has < least {
                let (name, has, least) = (ctx.node_at(step), exact(has), exact(least));
                let message = format!(
                    "step {step}: the kernel of `{name}` takes {least} of workspace; the layout states {has}"
                );
                findings.add(Kind::Kernel, At::node(step, name), message);
                break;
            }
        }
    }
}

/// Returns the bytes of a tensor at some extents.
fn bytes_at(tensor: &Tensor, extents: &BTreeMap<String, u64>) -> Option<u64> {
    tensor.bytes_expr.as_deref().map_or(Some(tensor.bytes), |text| bound(text, extents))
}

/// Returns the number that an expression has at some extents.
fn bound(text: &str, extents: &BTreeMap<String, u64>) -> Option<u64> {
    u64::try_from(DimExpr::parse_quoted(text)?.bind(extents)?.as_constant()?).ok()
}

/// Parses `scratch:<node>:<part>` into step and part; `None` for other names. Node names may contain
/// colons.
fn owner<'n>(name: &'n str, step_of: &HashMap<&str, usize>) -> Option<(usize, &'n str)> {
    let (node, part) = name.strip_prefix("scratch:")?.rsplit_once(':')?;
    let numbered = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (part == "body" || numbered).then_some(())?;
    Some((*step_of.get(node)?, part))
}

fn entry(ctx: &Ctx<'_>, index: usize, step: usize, part: &str, findings: &mut Findings) {
    let tensor = ctx.tensor(index);
    let at = At::node(step, ctx.node_at(step)).of(&tensor.name);
    let mut refuse = |why: String| findings.add(Kind::Scratch, at, format!("`{}`: {why}", tensor.name));
    if tensor.class != Class::Scratch {
        refuse(format!("its class is {}, not scratch", tensor.class.as_str()));
    }
    if tensor.step != Some(step as u64) {
        refuse(format!("its node runs at step {step}"));
    }
    if tensor.live.len() != 1 || tensor.live[0].start != step as u64 || tensor.live[0].end != step as u64 + 1
    {
        refuse(format!("it must be live at step {step} only"));
    }
    if tensor.alias.is_some() {
        refuse("it must own its bytes".to_owned());
    }
    let data = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node);
    if part == "body" && data.bodies().next().is_none() {
        refuse("its node has no bodies".to_owned());
    }
    let size = element(&tensor.dtype).and_then(|element| TensorType::fixed(element, &tensor.shape).size());
    if size.map(|size| size.0) != Some(tensor.bytes) {
        refuse(format!("{}{:?} does not have {}", tensor.dtype, tensor.shape, exact(tensor.bytes)));
    }
    over_extents(ctx, tensor, at, findings);
}

/// Checks a size over free dimensions: canonical, equal to the shape, and at most the stated bytes.
fn over_extents(ctx: &Ctx<'_>, tensor: &Tensor, at: At<'_>, findings: &mut Findings) {
    let Some(text) = &tensor.bytes_expr else {
        if tensor.shape_expr.is_some() {
            findings.add(
                Kind::Expression,
                at,
                format!("`{}` has a shape over free dimensions and a fixed size", tensor.name),
            );
        }
        return;
    };
    let bytes =
        DimExpr::parse_quoted(text).filter(|bytes| bytes.as_constant().is_none() && bytes.quoted() == *text);
    let Some(bytes) = bytes.filter(|_| tensor.shape_expr.as_deref() == Some(std::slice::from_ref(text)))
    else {
        let message =
            format!("`{}`: its size of {text} is no canonical expression, or not its shape", tensor.name);
        return findings.add(Kind::Expression, at, message);
    };
    if !ctx.out.extents.at_most(&bytes, tensor.bytes.into()) {
        let message =
            format!("`{}`: its size of {text} is not provably at most {}", tensor.name, exact(tensor.bytes));
        findings.add(Kind::UpperBound, at, message);
    }
}

/// Returns what is wrong if the workspace of bodies holds less at some extents than one of their steps needs.
fn short(ctx: &Ctx<'_>, row: &Tensor, data: &NodeData, extents: &BTreeMap<String, u64>) -> Option<String> {
    let kernels = Kernels::of(ctx.layout);
    let all = data.bodies().map(|(_, body)| bodies::least(&ctx.out.module, body, extents, kernels));
    let (least, has) = (all.max()?, bytes_at(row, extents).unwrap_or(0));
    let stated: Vec<String> = extents.iter().map(|(name, extent)| format!("{name} = {extent}")).collect();
    (has < least).then(|| {
        let (name, at, has, least) = (&row.name, stated.join(", "), exact(has), exact(least));
        format!("`{name}` holds {has} at {at}; {least} are live at one step of a body of `{}`", data.name)
    })
}

fn bodies(ctx: &Ctx<'_>, step_of: &HashMap<&str, usize>, findings: &mut Findings) {
    let mut listed: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for row in &ctx.layout.subgraphs {
        listed.entry(&row.node).or_default().insert(&row.graph, row.arena_bytes);
        if !step_of.contains_key(row.node.as_str()) {
            findings.add(
                Kind::Body,
                At::default(),
                format!("`subgraphs` names `{}`, which is not a node", row.node),
            );
        }
    }
    let (kernels, ends) = (Kernels::of(ctx.layout), ctx.out.extents.ends());
    let none = BTreeMap::new();
    for step in 0..ctx.steps() {
        let data = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node);
        let rows = listed.get(data.name.as_str()).unwrap_or(&none);
        let at = At::node(step, &data.name);
        let mut known = 0;
        let mut largest = 0;
        for (attribute, body) in data.bodies() {
            let name = ctx.out.module.graph(body).name.as_str();
            match rows.get(attribute).or_else(|| rows.get(name)) {
                Some(bytes) => {
                    largest = largest.max(*bytes);
                    let least = ends
                        .iter()
                        .map(|extents| bodies::least(&ctx.out.module, body, extents, kernels))
                        .max();
                    if let Some(least) = least.filter(|least| *least > *bytes) {
                        let (least, bytes) = (exact(least), exact(*bytes));
                        let message = format!(
                            "{least} are live at one step of body `{attribute}`; its row states {bytes}"
                        );
                        findings.add(Kind::Body, at, message);
                    }
                }
                None => findings.add(
                    Kind::Body,
                    at,
                    format!("body `{attribute}` of `{}` has no row in `subgraphs`", data.name),
                ),
            }
            known += 1;
        }
        if known == 0 {
            if !rows.is_empty() {
                findings.add(
                    Kind::Body,
                    at,
                    format!("`subgraphs` lists bodies of `{}`, which has none", data.name),
                );
            }
            continue;
        }
        let name = format!("scratch:{}:body", data.name);
        let row = ctx.named.get(name.as_str()).map(|index| ctx.tensor(*index));
        if row.is_none_or(|row| row.bytes < largest) {
            let largest = exact(largest);
            let message = format!("`{name}` must hold {largest} for the bodies of `{}`", data.name);
            findings.add(Kind::Body, at, message);
        }
        let followed = row.filter(|row| row.bytes_expr.is_some());
        let short = followed.and_then(|row| {
            ctx.out.extents.points().into_iter().find_map(|point| short(ctx, row, data, &point))
        });
        if let Some(message) = short {
            findings.add(Kind::Body, at, message);
        }
    }
}
