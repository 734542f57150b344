//! Rule 2, edges: each operand of a section has one source, both ends of a value state its type and size,
//! and each graph output leaves one section.

use std::collections::BTreeSet;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    operands(ctx, findings);
    interfaces(ctx, findings);
    values(ctx, findings);
    let given: Vec<&str> = ctx.manifest.values.iter().filter(|value| value.output).map(|value| value.name.as_str()).collect();
    for name in &ctx.whole.outputs {
        if !given.contains(&name.as_str()) {
            findings.add(Kind::SectionEdge, At::tensor(name), format!("no section gives graph output `{name}`"));
        }
    }
}

/// Each operand is made in the section, read from outside, a weight, or a listed integer: one of these.
fn operands(ctx: &Ctx<'_>, findings: &mut Findings) {
    for (position, section) in ctx.manifest.sections.iter().enumerate() {
        let (nodes, given) = (&ctx.nodes[position], ctx.given(position));
        let made: BTreeSet<&str> = nodes.iter().flat_map(|node| &given.nodes[*node].makes).map(String::as_str).collect();
        let known: BTreeSet<&str> = section.known.iter().map(String::as_str).collect();
        let read: BTreeSet<&str> = nodes.iter().flat_map(|node| &given.nodes[*node].reads).map(String::as_str).collect();
        for name in &read {
            let sources =
                [made.contains(name), ctx.inputs[position].contains(name), known.contains(name), given.weights.contains(*name)];
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
        let inputs: BTreeSet<&str> = graph.input.iter().map(|info| info.name()).filter(|name| !weights.contains(name)).collect();
        let outputs: BTreeSet<&str> = graph.output.iter().map(|info| info.name()).collect();
        for (what, stated, found) in [("inputs", &ctx.inputs[position], inputs), ("outputs", &ctx.outputs[position], outputs)] {
            if let Some(name) = stated.symmetric_difference(&found).next() {
                let message = format!("the {what} of {} are not those of the manifest: `{name}`", section.model);
                findings.add(Kind::SectionEdge, At::tensor(name), message);
            }
        }
    }
}

fn values(ctx: &Ctx<'_>, findings: &mut Findings) {
    for value in &ctx.manifest.values {
        let mut add = |message: String| findings.add(Kind::SectionEdge, At::tensor(&value.name), message);
        if let Some(joined) = &value.joined
            && ctx.whole.sized.get(&value.name).is_none_or(|sized| sized.dims != joined.shape || sized.bytes != joined.bytes)
        {
            add(format!("joined, `{}` is not {:?} with {}", value.name, joined.shape, exact(joined.bytes)));
        }
        let given = if value.once { ctx.whole } else { ctx.part };
        match given.sized.get(&value.name) {
            None => add(format!("the given model has no value `{}` of known size", value.name)),
            Some(known) => {
                if value.dtype != known.element.onnx_name() || value.shape != known.dims {
                    let (dtype, dims) = (known.element.onnx_name(), &known.dims);
                    add(format!("`{}` is {dtype} {dims:?}, not {} {:?}", value.name, value.dtype, value.shape));
                }
                if value.bytes != known.bytes {
                    add(format!("`{}` has {}, not {}", value.name, exact(known.bytes), exact(value.bytes)));
                }
            }
        }
        let is_input = ctx.whole.inputs.contains(&value.name);
        if is_input != value.from.is_none() {
            add(format!("`{}` must come from the caller if it is a graph input, and from a section otherwise", value.name));
        }
        if value.output != ctx.whole.outputs.contains(&value.name) {
            add(format!("`{}` must be marked as an output if it is a graph output, and only then", value.name));
        }
        let readers: Vec<usize> = value.to.iter().filter_map(|to| ctx.position.get(to.as_str()).copied()).collect();
        if readers.windows(2).any(|pair| pair[0] >= pair[1]) {
            add(format!("the readers of `{}` are not in the order of the sections", value.name));
        }
        if value.from.as_ref().is_some_and(|from| value.to.contains(from)) {
            add(format!("`{}` goes to the section that makes it", value.name));
        }
    }
}
