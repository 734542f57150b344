//! Matrix products. Gradients of weights are one product over all rows, not a batch of products with a sum
//! after it, so that a plan can divide the rows.

use memc_edit::{Attributes, int};
use memc_ir::{Attribute, Dim, NodeData, Value};

use super::{CodeRule, Gradients, Site};
use crate::NAME;
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] =
    &[CodeRule::of("Einsum", einsum), CodeRule::of("Gemm", gemm), CodeRule::of("MatMul", matmul)];

/// Returns the matrix behind a Transpose, so that no transposed copy is kept for the gradient.
fn behind_transpose(emit: &Emit<'_>, (value, turned): (Value, bool)) -> (Value, bool) {
    let module = emit.module();
    let data = module.producer(value).map(|node| module.node(node));
    let is_matrix = emit.rank(value).is_ok_and(|rank| rank == 2);
    let swaps = |data: &&NodeData| {
        &*data.operator.name == "Transpose"
            && data.operator.domain.is_empty()
            && data.ints("perm").is_none_or(|order| order == [1, 0])
    };
    let operand = data.filter(swaps).filter(|_| is_matrix).and_then(|data| data.operands().next());
    operand.map_or((value, turned), |operand| (operand, !turned))
}

/// Emits the transposed form of a product of two matrices that a rule made, in place of a Transpose after it.
pub(super) fn turned_product(emit: &mut Emit<'_>, value: Value) -> Option<Value> {
    let node =
        emit.module().producer(value).filter(|node| memc_edit::is_made_by(emit.module(), *node, NAME))?;
    let data = emit.module().node(node).clone();
    let [Some(a), Some(b)] = data.inputs[..] else { return None };
    let (turns_a, turns_b) = (data.int("transA", 0) != 0, data.int("transB", 0) != 0);
    (&*data.operator.name == "Gemm")
        .then(|| product(emit, (b, !turns_b), (a, !turns_a), data.float("alpha", 1.0)))
}

/// Product of two matrices, each perhaps transposed.
fn product(emit: &mut Emit<'_>, a: (Value, bool), b: (Value, bool), alpha: f32) -> Value {
    let (a, b) = (behind_transpose(emit, a), behind_transpose(emit, b));
    let mut attributes = Attributes::new();
    for (name, (_, turned)) in [("transA", a), ("transB", b)] {
        if turned {
            attributes.extend(int(name, 1));
        }
    }
    if alpha != 1.0 {
        attributes.push(("alpha".to_owned(), Attribute::Float(alpha)));
    }
    emit.op_with("Gemm", &[a.0, b.0], attributes)
}

fn gemm(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (a, b, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    let (turns_a, turns_b) = (site.data.int("transA", 0) != 0, site.data.int("transB", 0) != 0);
    let (alpha, beta) = (site.data.float("alpha", 1.0), site.data.float("beta", 1.0));
    let mut gradients = vec![None; 3];
    if site.wants(0) {
        gradients[0] = Some(match turns_a {
            false => product(emit, (gradient, false), (b, !turns_b), alpha),
            true => product(emit, (b, turns_b), (gradient, true), alpha),
        });
    }
    if site.wants(1) {
        gradients[1] = Some(match turns_b {
            false => product(emit, (a, !turns_a), (gradient, false), alpha),
            true => product(emit, (gradient, true), (a, turns_a), alpha),
        });
    }
    if site.wants(2) {
        let summed = emit.unbroadcast(gradient, site.operand(2)?)?;
        let factor = emit.number(f64::from(beta), summed);
        gradients[2] = Some(if beta == 1.0 { summed } else { emit.op("Mul", &[summed, factor]) });
    }
    Ok(gradients)
}

/// Gives a value two axes: all but the last one, and the last one.
fn rows(emit: &mut Emit<'_>, value: Value) -> Result<Value, Refusal> {
    let dims = emit.dims(value)?;
    let (last, lead) = dims.split_last().ok_or_else(|| Refusal::form("a product of scalars"))?;
    let count = lead.iter().fold(Dim::Known(1), |product, dim| product.mul(dim));
    Ok(emit.reshape(value, &[count, last.clone()]))
}

fn matmul(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (a, b, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    let (a_dims, b_dims) = (emit.dims(a)?, emit.dims(b)?);
    // A vector is a matrix of one row, or of one column.
    let (left, right) = (widened(emit, a, &a_dims, true), widened(emit, b, &b_dims, false));
    let mut whole = emit.dims(gradient)?;
    if a_dims.len() == 1 {
        let at = whole.len() - usize::from(b_dims.len() > 1);
        whole.insert(at, Dim::Known(1));
    }
    if b_dims.len() == 1 {
        whole.push(Dim::Known(1));
    }
    let gradient = emit.reshape(gradient, &whole);
    let mut gradients = vec![None, None];
    if emit.rank(right)? == 2 {
        let gradient = rows(emit, gradient)?;
        if site.wants(0) {
            let made = product(emit, (gradient, false), (right, true), 1.0);
            gradients[0] = Some(emit.reshape(made, &a_dims));
        }
        if site.wants(1) {
            let left = rows(emit, left)?;
            let made = product(emit, (left, true), (gradient, false), 1.0);
            gradients[1] = Some(emit.reshape(made, &b_dims));
        }
        return Ok(gradients);
    }
    if site.wants(0) {
        let turned = emit.turned(right)?;
        let made = emit.op("MatMul", &[gradient, turned]);
        let summed = emit.unbroadcast(made, left)?;
        gradients[0] = Some(emit.reshape(summed, &a_dims));
    }
    if site.wants(1) {
        let turned = emit.turned(left)?;
        let made = emit.op("MatMul", &[turned, gradient]);
        let summed = emit.unbroadcast(made, right)?;
        gradients[1] = Some(emit.reshape(summed, &b_dims));
    }
    Ok(gradients)
}

fn widened(emit: &mut Emit<'_>, value: Value, dims: &[Dim], is_left: bool) -> Value {
    match (dims, is_left) {
        ([one], true) => emit.reshape(value, &[Dim::Known(1), one.clone()]),
        ([one], false) => emit.reshape(value, &[one.clone(), Dim::Known(1)]),
        _ => value,
    }
}

/// The gradient of an operand is an Einsum of the result's gradient with the other operands. Axes that only
/// the operand has are broadcast.
fn einsum(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    let equation: String = site.data.string("equation").unwrap_or_default().split_whitespace().collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs.to_owned(), output.to_owned()),
        None => (equation.clone(), implicit(&equation)),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    let is_plain = |term: &str| {
        let repeats = term.char_indices().any(|(at, axis)| term[..at].contains(axis));
        term.chars().all(char::is_alphabetic) && !repeats
    };
    if !terms.iter().chain([&output.as_str()]).all(|term| is_plain(term))
        || terms.len() != site.data.inputs.len()
    {
        return Err(Refusal::form(format!("the equation {equation} has an ellipsis or a repeated axis")));
    }
    let mut gradients = vec![None; terms.len()];
    for (position, term) in terms.iter().enumerate().filter(|(position, _)| site.wants(*position)) {
        let operand = site.operand(position)?;
        let others: Vec<usize> = (0..terms.len()).filter(|other| *other != position).collect();
        let is_bound =
            |axis: char| output.contains(axis) || others.iter().any(|other| terms[*other].contains(axis));
        let kept: String = term.chars().filter(|axis| is_bound(*axis)).collect();
        let mut operands = vec![gradient];
        let mut names = vec![output.clone()];
        for other in &others {
            operands.push(site.operand(*other)?);
            names.push(terms[*other].to_owned());
        }
        let text = format!("{}->{kept}", names.join(","));
        let made =
            emit.op_with("Einsum", &operands, vec![("equation".to_owned(), Attribute::String(text.into()))]);
        let dims = emit.dims(operand)?;
        let open: Vec<usize> =
            term.chars().enumerate().filter(|(_, axis)| !is_bound(*axis)).map(|(at, _)| at).collect();
        let made = if open.is_empty() { made } else { emit.unsqueeze(made, &open) };
        gradients[position] = Some(emit.expand(made, &dims));
    }
    Ok(gradients)
}

/// Returns the result of an equation without one: the axes that occur once, in alphabetical order.
fn implicit(inputs: &str) -> String {
    let mut axes: Vec<char> = inputs.chars().filter(|axis| axis.is_alphabetic()).collect();
    axes.retain(|axis| inputs.matches(*axis).count() == 1);
    axes.sort_unstable();
    axes.into_iter().collect()
}
