//! Common parts of operators that run a body repeatedly: carried values, collected results.

use memc_ir::{Dim, GraphId, TensorType, ValueType};

use crate::context::{Infer, InferError};
use crate::fact::Fact;
use crate::families::join::{carry_facts, without_shape};

/// Number of inference rounds over a body with exactly joined types; after these, shapes that still
/// change become unknown.
const EXACT_ROUNDS: usize = 3;

/// Returns the body in a required attribute.
pub(crate) fn required_body(ctx: &Infer<'_>, name: &'static str) -> Result<GraphId, InferError> {
    ctx.body(name).ok_or(InferError::MissingAttribute { name })
}

/// Rejects a body whose numbers of formal inputs and results do not fit its node.
pub(crate) fn check_arity(
    ctx: &Infer<'_>,
    body: GraphId,
    inputs: usize,
    least_results: usize,
) -> Result<(), InferError> {
    let (formal, results) = ctx.body_arity(body);
    if formal == inputs && results >= least_results {
        return Ok(());
    }
    let why = format!(
        "{formal} inputs and {results} results, but {inputs} and at least {least_results} are needed"
    );
    Err(InferError::BadAttribute { name: "body", why })
}

/// Returns the facts of the carried values that hold at the start of every iteration, and the facts of
/// the body's results under them.
///
/// The formal inputs are `head`, the carried values, `tail`; the carried results begin at position
/// `first`. Facts only become weaker from round to round and are dropped in stages, so the function ends
/// after a few rounds for every body. Nested bodies multiply the number of rounds, which the nesting
/// limit bounds.
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
        // Unknown may join to a type without shape again, so the last round counts as stable in any
        // case.
        if next == state || round > EXACT_ROUNDS + 1 {
            return Ok((state, results));
        }
        state = next;
        round += 1;
    }
}

/// Returns the type of values collected over iterations: the element type with one more axis of extent
/// `count`.
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
