//! Rule 2, edges: each operand of a section has one source, both ends of a value state its type and size,
//! and each graph output leaves one section.

use std::collections::BTreeSet;

use memc_ir::{Dim, DimExpr, TensorType};
use memc_layout::devices::Crossing;

use super::Ctx;
use super::given::Sized;
use crate::codes::Kind;
use crate::extents::Extents;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    operands(ctx, findings);
    interfaces(ctx, findings);
    values(ctx, findings);
    let given: Vec<&str> =
        ctx.manifest.values.iter().filter(|value| value.output).map(|value| value.name.as_str()).collect();
    for name in &ctx.whole.outputs {
        if !given.contains(&name.as_str()) {
            findings.add(
                Kind::SectionEdge,
                At::tensor(name),
                format!("no section gives graph output `{name}`"),
            );
        }
    }
}

/// Each operand is made in the section, read from outside, a weight, or a listed integer: one of these.
fn operands(ctx: &Ctx<'_>, findings: &mut Findings) {
    for (position, section) in ctx.manifest.sections.iter().enumerate() {
        let (nodes, given) = (&ctx.nodes[position], ctx.given(position));
        let made: BTreeSet<&str> =
            nodes.iter().flat_map(|node| &given.nodes[*node].makes).map(String::as_str).collect();
        let known: BTreeSet<&str> = section.known.iter().map(String::as_str).collect();
        let read: BTreeSet<&str> =
            nodes.iter().flat_map(|node| &given.nodes[*node].reads).map(String::as_str).collect();
        for name in &read {
            let sources = [
                made.contains(name),
                ctx.inputs[position].contains(name),
                known.contains(name),
                given.weights.contains(*name),
            ];
            let count = sources.into_iter().filter(|has| *has).count();
            if count != 1 {
                let message = format!("{} reads `{name}` from {count} sources", section.name());
                findings.add(Kind::SectionEdge, At::tensor(name), message);
            }
        }
        for name in ctx.inputs[position].iter().chain(&known).filter(|name| !read.contains(*name)) {
            let message = format!("{} is given `{name}` and does not read it", section.name());
            findings.add(Kind::SectionEdge, At::tensor(name), message);
        }
    }
}

/// The planned model of a section has the inputs and outputs that the manifest states.
fn interfaces(ctx: &Ctx<'_>, findings: &mut Findings) {
    for (position, (section, files)) in ctx.manifest.sections.iter().zip(ctx.sections).enumerate() {
        let graph = files.model.graph();
        let weights: BTreeSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
        let inputs: BTreeSet<&str> =
            graph.input.iter().map(|info| info.name()).filter(|name| !weights.contains(name)).collect();
        let outputs: BTreeSet<&str> = graph.output.iter().map(|info| info.name()).collect();
        for (what, stated, found) in
            [("inputs", &ctx.inputs[position], inputs), ("outputs", &ctx.outputs[position], outputs)]
        {
            if let Some(name) = stated.symmetric_difference(&found).next() {
                let message =
                    format!("the {what} of {} are not those of the manifest: `{name}`", section.model);
                findings.add(Kind::SectionEdge, At::tensor(name), message);
            }
        }
    }
}

fn values(ctx: &Ctx<'_>, findings: &mut Findings) {
    for value in &ctx.manifest.values {
        let mut add = |message: String| findings.add(Kind::SectionEdge, At::tensor(&value.name), message);
        if let Some(joined) = &value.joined
            && ctx
                .whole
                .sized
                .get(&value.name)
                .is_none_or(|sized| sized.dims != joined.shape || sized.bytes != joined.bytes)
        {
            add(format!("joined, `{}` is not {:?} with {}", value.name, joined.shape, exact(joined.bytes)));
        }
        let given = if value.once { ctx.whole } else { ctx.part };
        match given.sized.get(&value.name) {
            None => add(format!("the given model has no value `{}` of known size", value.name)),
            Some(known) => {
                let is_same = if known.free.is_empty() {
                    value.shape == known.dims
                } else {
                    covers(ctx.extents, value, known)
                };
                if value.dtype != known.element.onnx_name() || !is_same {
                    let (dtype, dims) = (known.element.onnx_name(), &known.dims);
                    add(format!(
                        "`{}` is {dtype} {dims:?}, not {} {:?}",
                        value.name, value.dtype, value.shape
                    ));
                }
                let bytes = TensorType::fixed(known.element, &value.shape).size().map(|size| size.0);
                if Some(value.bytes) != bytes {
                    let bytes = bytes.unwrap_or(known.bytes);
                    add(format!("`{}` has {}, not {}", value.name, exact(bytes), exact(value.bytes)));
                }
                if let Some(message) = expressions(ctx.extents, value, known) {
                    add(format!("`{}`: {message}", value.name));
                }
            }
        }
        let is_input = ctx.whole.inputs.contains(&value.name);
        if is_input != value.from.is_none() {
            add(format!(
                "`{}` must come from the caller if it is a graph input, and from a section otherwise",
                value.name
            ));
        }
        if value.output != ctx.whole.outputs.contains(&value.name) {
            add(format!(
                "`{}` must be marked as an output if it is a graph output, and only then",
                value.name
            ));
        }
        let readers: Vec<usize> =
            value.to.iter().filter_map(|to| ctx.position.get(to.as_str()).copied()).collect();
        if readers.windows(2).any(|pair| pair[0] >= pair[1]) {
            add(format!("the readers of `{}` are not in the order of the sections", value.name));
        }
        if value.from.as_ref().is_some_and(|from| value.to.contains(from)) {
            add(format!("`{}` goes to the section that makes it", value.name));
        }
    }
}

/// Whether the extents that the manifest states are upper bounds of those of a value with free dimensions.
fn covers(extents: &Extents, value: &Crossing, known: &Sized) -> bool {
    let all = value.shape.iter().zip(&known.free);
    value.shape.len() == known.free.len()
        && all.into_iter().all(|(most, of)| extents.at_most(of, (*most).into()))
}

/// What is wrong with the expressions of a value: they are those of the given model, and there only where an
/// extent is free.
fn expressions(extents: &Extents, value: &Crossing, known: &Sized) -> Option<String> {
    if known.free.is_empty() {
        let has_any = value.shape_expr.is_some() || value.bytes_expr.is_some();
        return has_any.then(|| "its extents are fixed, and the manifest states expressions".to_owned());
    }
    let equals = |text: &String, of: &DimExpr| {
        let stated = DimExpr::parse_quoted(text);
        stated.is_some_and(|stated| stated == *of || extents.simplified(&stated) == extents.simplified(of))
    };
    let stated = value.shape_expr.as_ref().filter(|stated| stated.len() == known.free.len());
    if !stated.is_some_and(|stated| stated.iter().zip(&known.free).all(|(text, of)| equals(text, of))) {
        return Some(format!("its extents are {:?}, not {:?}", known.free, value.shape_expr));
    }
    let dims = known.free.iter().map(|of| Dim::from_expr(of.clone())).collect();
    let bytes = TensorType::new(known.element, dims).size_expr();
    let is_size = match (&value.bytes_expr, &bytes) {
        (Some(text), Some(bytes)) => equals(text, bytes),
        (stated, bytes) => stated.is_none() && bytes.is_none(),
    };
    (!is_size).then(|| format!("its size is {bytes:?}, not {:?}", value.bytes_expr))
}
