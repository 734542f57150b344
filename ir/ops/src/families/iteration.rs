//! What operators that run a body again and again share: carried values, collected results.

use memc_ir::{Dim, GraphId, TensorType, ValueType};

use crate::context::{Infer, InferError};
use crate::fact::Fact;
use crate::families::join::{carry_facts, without_shape};

/// How often a body is inferred with types joined exactly before shapes that still change are given up.
const EXACT_ROUNDS: usize = 3;

/// The body in an attribute that the operator must have.
pub(crate) fn required_body(ctx: &Infer<'_>, name: &'static str) -> Result<GraphId, InferError> {
    ctx.body(name).ok_or(InferError::MissingAttribute { name })
}

/// Refuses a body whose numbers of formal inputs and results do not fit its node.
pub(crate) fn check_arity(ctx: &Infer<'_>, body: GraphId, inputs: usize, least_results: usize) -> Result<(), InferError> {
    let (formal, results) = ctx.body_arity(body);
    if formal == inputs && results >= least_results {
        return Ok(());
    }
    let why = format!("{formal} inputs and {results} results, but {inputs} and at least {least_results} are needed");
    Err(InferError::BadAttribute { name: "body", why })
}

/// Facts of carried values that hold at the start of every iteration, and of the body's results under them.
///
/// The formal inputs are `head`, the carried values, `tail`; the carried results begin at `first`. Facts only ever get weaker
/// from round to round and are given up step by step, so this ends after a few rounds whatever the body does; a body inside a
/// body multiplies them, which the limit on nesting bounds.
pub(crate) fn carried(
    ctx: &mut Infer<'_>,
    body: GraphId,
    head: &[Fact],
    initial: Vec<Fact>,
    tail: &[Fact],
    first: usize,
) -> Result<(Vec<Fact>, Vec<Fact>), InferError> {
    let mut state = initial;
    let mut round = 0;
    loop {
        let inputs: Vec<Fact> = head.iter().chain(&state).chain(tail).cloned().collect();
        let results = ctx.infer_body(body, &inputs)?;
        let mut next = Vec::with_capacity(state.len());
        for (position, before) in state.iter().enumerate() {
            let after = results.get(first + position).cloned().unwrap_or_default();
            let joined = carry_facts(before, &after);
            next.push(match round {
                _ if joined == *before => joined,
                0..EXACT_ROUNDS => joined,
                EXACT_ROUNDS => Fact::of(without_shape(&joined.ty)),
                _ => Fact::default(),
            });
        }
        // Unknown may join to a kind without shape again, so the last round counts as stable whatever it finds.
        if next == state || round > EXACT_ROUNDS + 1 {
            return Ok((state, results));
        }
        state = next;
        round += 1;
    }
}

/// A tensor with one more axis, as collected over iterations.
pub(crate) fn collected(element: &ValueType, axis: Option<usize>, count: &Dim) -> Option<Fact> {
    let tensor = element.tensor()?;
    let shape = match (&tensor.shape, axis) {
        (Some(dims), Some(axis)) if axis <= dims.len() => {
            let mut dims = dims.clone();
            dims.insert(axis, count.clone());
            Some(dims)
        }
        _ => None,
    };
    Some(Fact::tensor(TensorType { element: tensor.element, shape }))
}
