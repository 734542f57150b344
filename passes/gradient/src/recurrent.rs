//! Unrolls recurrent layers: an LSTM, GRU or RNN that a trainable parameter reaches becomes the nodes of its
//! steps, whose gradients are known. The products with the sequence are one product for all steps.

use memc_ir::{Attribute, Dim, NodeData, SecondaryMap, Value};

use crate::emit::Emit;
use crate::error::{GradientError, Refusal};
use crate::walk::label;

/// Most steps that are unrolled: each one becomes a dozen nodes, and its gradient as many again.
const MOST_STEPS: u64 = 2048;

/// Activations that layers may have; they take no numbers.
const ACTIVATIONS: &[&str] = &["Relu", "Sigmoid", "Tanh"];

/// Kind of a recurrent layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Lstm,
    Gru,
    Rnn,
}

impl Cell {
    fn of(data: &NodeData) -> Option<Self> {
        let name = if data.operator.domain.is_empty() { &*data.operator.name } else { "" };
        match name {
            "LSTM" => Some(Self::Lstm),
            "GRU" => Some(Self::Gru),
            "RNN" => Some(Self::Rnn),
            _ => None,
        }
    }

    /// Number of gates, whose weights follow one another.
    fn gates(self) -> u64 {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Rnn => &["Tanh"],
        }
    }
}

/// A layer that can be unrolled.
struct Layer {
    cell: Cell,
    steps: u64,
    batch: Dim,
    hidden: u64,
    /// Activations of each direction; their number is that of the directions.
    activations: Vec<Vec<&'static str>>,
    /// Whether the first direction goes from the last step to the first.
    is_reverse: bool,
    /// Whether the batch comes before the steps.
    is_batch_first: bool,
    /// Whether a GRU multiplies the reset gate after its product.
    resets_late: bool,
}

/// Weights of one direction; those of products are transposed.
struct Weights {
    input: Value,
    hidden: Value,
    /// Biases of the product with the sequence, and with the state.
    biases: Option<[Value; 2]>,
    /// Weights of an LSTM's state in the input, output and forget gate.
    peepholes: Option<Vec<Value>>,
}

/// Why a layer is not unrolled; the rule of its operator refuses it for this reason.
///
/// # Errors
/// The reason.
pub(crate) fn refused(emit: &Emit<'_>, data: &NodeData) -> Result<(), Refusal> {
    match Cell::of(data) {
        Some(cell) => layer(emit, data, cell).map(|_| ()),
        None => Ok(()),
    }
}

/// Unrolls all recurrent layers of the main graph that depend on a trainable value. Layers of a form that is
/// not covered stay.
pub(crate) fn expand(emit: &mut Emit<'_>, trainable: &[Value]) -> Result<(), GradientError> {
    let mut depends: SecondaryMap<Value, bool> = SecondaryMap::default();
    trainable.iter().for_each(|value| depends.set(*value, true));
    let nodes = emit.module().graph(emit.module().main()).nodes.clone();
    for node in nodes {
        if !emit.module().reads(node).into_iter().any(|value| depends[value]) {
            continue;
        }
        let data = emit.module().node(node).clone();
        data.results().for_each(|value| depends.set(value, true));
        let Some(cell) = Cell::of(&data) else { continue };
        let Ok(layer) = layer(emit, &data, cell) else { continue };
        let place = label(emit.module(), node);
        let hint = data.results().next().map(|value| emit.name(value).to_owned()).unwrap_or_default();
        emit.set_place(hint, place.clone());
        emit.before = Some(node);
        let results = unrolled(emit, &data, &layer);
        emit.before = None;
        let results =
            results.map_err(|refusal| GradientError::Defect { node: place, why: refusal.to_string() })?;
        for (old, new) in data.outputs.iter().zip(results) {
            let Some(old) = *old else { continue };
            let name = emit.name(old).to_owned();
            emit.maker.replace_uses(old, new);
            depends.set(new, true);
            let fresh = emit.maker.fresh_name(&format!("{name}_layer"));
            emit.maker.rename(old, fresh);
            emit.maker.rename(new, name);
        }
        emit.maker.erase(node);
    }
    Ok(())
}

/// Returns the form of a layer.
fn layer(emit: &Emit<'_>, data: &NodeData, cell: Cell) -> Result<Layer, Refusal> {
    let operand = |position: usize| data.inputs.get(position).copied().flatten();
    let needed = |position: usize| {
        operand(position).ok_or_else(|| Refusal::form(format!("operand {position} is left out")))
    };
    let (x, w, r) = (needed(0)?, needed(1)?, needed(2)?);
    let is_batch_first = data.int("layout", 0) != 0;
    let dims = emit.dims(x)?;
    let [first, second, _] = dims.as_slice() else {
        return Err(Refusal::form("its sequence has not three axes"));
    };
    let (steps, batch) = if is_batch_first { (second, first) } else { (first, second) };
    let steps = steps
        .known()
        .ok_or_else(|| Refusal::form("the number of its steps is not known: state it with `--dim`"))?;
    if steps == 0 || steps > MOST_STEPS {
        return Err(Refusal::form(format!("it has {steps} steps, and 1 to {MOST_STEPS} are unrolled")));
    }
    let (directions, hidden) = match emit.extents(r)?.as_slice() {
        [directions, rows, hidden] if rows == &(cell.gates() * hidden) => (*directions, *hidden),
        _ => return Err(Refusal::form("its recurrent weights do not fit its gates")),
    };
    emit.extents(w)?;
    if data.attributes.iter().any(|(name, _)| name == "clip") || data.int("input_forget", 0) != 0 {
        return Err(Refusal::form("`clip` and `input_forget` are not covered"));
    }
    if let Some(lengths) = operand(4) {
        let all = emit.ints_of(lengths).unwrap_or_default();
        if all.is_empty() || all.iter().any(|length| u64::try_from(*length) != Ok(steps)) {
            return Err(Refusal::form("sequences of several lengths are not covered"));
        }
    }
    let is_reverse = match data.string("direction") {
        None | Some("forward") if directions == 1 => false,
        Some("reverse") if directions == 1 => true,
        Some("bidirectional") if directions == 2 => false,
        _ => return Err(Refusal::form("its weights do not fit its direction")),
    };
    let layer = Layer {
        cell,
        steps,
        batch: batch.clone(),
        hidden,
        activations: activations(data, cell, directions as usize)?,
        is_reverse,
        is_batch_first,
        resets_late: data.int("linear_before_reset", 0) != 0,
    };
    Ok(layer)
}

/// Returns the activations of each direction.
fn activations(data: &NodeData, cell: Cell, directions: usize) -> Result<Vec<Vec<&'static str>>, Refusal> {
    let usual = cell.activations();
    if data.attributes.iter().any(|(name, _)| name.starts_with("activation_")) {
        return Err(Refusal::form("activations with numbers are not covered"));
    }
    let Some((_, Attribute::Strings(names))) = data.attributes.iter().find(|(name, _)| name == "activations")
    else {
        return Ok(vec![usual.to_vec(); directions]);
    };
    let known = |name: &[u8]| ACTIVATIONS.iter().copied().find(|known| known.as_bytes() == name);
    let all: Option<Vec<&'static str>> = names.iter().map(|name| known(name)).collect();
    match all.filter(|all| all.len() == usual.len() * directions) {
        Some(all) => Ok(all.chunks(usual.len()).map(<[_]>::to_vec).collect()),
        None => Err(Refusal::form(format!("of activations, {} are covered", ACTIVATIONS.join(", ")))),
    }
}

/// Emits the steps; returns the results of the node, those of an LSTM's state last.
fn unrolled(emit: &mut Emit<'_>, data: &NodeData, layer: &Layer) -> Result<Vec<Value>, Refusal> {
    let operand = |position: usize| data.inputs.get(position).copied().flatten();
    let missing = || Refusal::form("an operand is left out");
    let mut x = operand(0).ok_or_else(missing)?;
    if layer.is_batch_first {
        x = emit.transpose(x, &[1, 0, 2]);
    }
    let directions = layer.activations.len();
    let hidden = Dim::Known(layer.hidden);
    let mut runs = Vec::new();
    for direction in 0..directions {
        let weights = weights(emit, data, layer, direction)?;
        let state = |emit: &mut Emit<'_>, position: usize| {
            let Some(given) = operand(position) else {
                let element = emit.element(x);
                return Ok(emit.zeros(&[Dim::Known(1), layer.batch.clone(), hidden.clone()], element));
            };
            let given = if layer.is_batch_first { emit.transpose(given, &[1, 0, 2]) } else { given };
            Ok(parts(emit, given, 0, &vec![1; directions])[direction])
        };
        let mut states = vec![state(emit, 5)?];
        if layer.cell == Cell::Lstm {
            states.push(state(emit, 6)?);
        }
        runs.push(run(emit, layer, direction, x, &weights, states)?);
    }
    // All states of a direction: the axis of directions comes after that of steps.
    let mut all = Vec::new();
    for (states, _) in &runs {
        let joined = join(emit, states, 0);
        let dims = [Dim::Known(layer.steps), Dim::Known(1), layer.batch.clone(), hidden.clone()];
        all.push(emit.reshape(joined, &dims));
    }
    let mut results = vec![join(emit, &all, 1)];
    for position in 0..runs[0].1.len() {
        let last: Vec<Value> = runs.iter().map(|(_, last)| last[position]).collect();
        results.push(join(emit, &last, 0));
    }
    if layer.is_batch_first {
        results[0] = emit.transpose(results[0], &[2, 0, 1, 3]);
        for last in &mut results[1..] {
            *last = emit.transpose(*last, &[1, 0, 2]);
        }
    }
    // Each result is a value of its own, since it takes the name of the node's result.
    for result in &mut results {
        if runs.iter().any(|(states, last)| states.contains(result) || last.contains(result)) {
            *result = emit.op("Identity", &[*result]);
        }
    }
    Ok(results)
}

/// Returns the weights of a direction.
fn weights(
    emit: &mut Emit<'_>,
    data: &NodeData,
    layer: &Layer,
    direction: usize,
) -> Result<Weights, Refusal> {
    let directions = layer.activations.len();
    let own = |emit: &mut Emit<'_>, position: usize| {
        let value = data.inputs.get(position).copied().flatten();
        let value = value.map(|value| parts(emit, value, 0, &vec![1; directions])[direction]);
        let Some(value) = value else { return Ok(None) };
        let dims = emit.dims(value)?;
        Ok(Some(emit.reshape(value, &dims[1..])))
    };
    let missing = || Refusal::form("an operand is left out");
    let (input, hidden) = (own(emit, 1)?.ok_or_else(missing)?, own(emit, 2)?.ok_or_else(missing)?);
    let (input, hidden) = (emit.turned(input)?, emit.turned(hidden)?);
    let rows = layer.cell.gates() * layer.hidden;
    let biases = own(emit, 3)?.map(|both| parts(emit, both, 0, &[rows, rows]));
    let peepholes = if layer.cell == Cell::Lstm { own(emit, 7)? } else { None };
    let peepholes = peepholes.map(|all| parts(emit, all, 0, &[layer.hidden; 3]));
    let biases = biases.map(|both| [both[0], both[1]]);
    Ok(Weights { input, hidden, biases, peepholes })
}

/// Emits the steps of a direction; returns the state after each step, in the order of the sequence, and the
/// last states.
fn run(
    emit: &mut Emit<'_>,
    layer: &Layer,
    direction: usize,
    x: Value,
    weights: &Weights,
    mut states: Vec<Value>,
) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    let names = &layer.activations[direction];
    let late = layer.cell == Cell::Gru && layer.resets_late;
    let mut projected = emit.op("MatMul", &[x, weights.input]);
    if let Some([input, hidden]) = weights.biases {
        let bias = if late { input } else { emit.op("Add", &[input, hidden]) };
        projected = emit.op("Add", &[projected, bias]);
    }
    let projected = parts(emit, projected, 0, &vec![1; layer.steps as usize]);
    // An early reset reads the state's weights in two parts.
    let split = if layer.cell == Cell::Gru && !late {
        Some(parts(emit, weights.hidden, 1, &[2 * layer.hidden, layer.hidden]))
    } else {
        None
    };
    let mut steps: Vec<usize> = (0..projected.len()).collect();
    let is_backward = direction == 1 || layer.is_reverse;
    if is_backward {
        steps.reverse();
    }
    let mut all = vec![x; projected.len()];
    for step in steps {
        let given = projected[step];
        match (layer.cell, &split) {
            (Cell::Lstm, _) => states = lstm(emit, layer, names, given, weights, &states),
            (Cell::Gru, Some(split)) => states[0] = gru(emit, layer, names, given, split, states[0]),
            (Cell::Gru, None) => states[0] = late_gru(emit, layer, names, given, weights, states[0]),
            (Cell::Rnn, _) => {
                let own = emit.op("MatMul", &[states[0], weights.hidden]);
                let sum = emit.op("Add", &[given, own]);
                states[0] = emit.op(names[0], &[sum]);
            }
        }
        all[step] = states[0];
    }
    Ok((all, states))
}

/// Emits a step of an LSTM; returns its states.
fn lstm(
    emit: &mut Emit<'_>,
    layer: &Layer,
    names: &[&'static str],
    given: Value,
    weights: &Weights,
    states: &[Value],
) -> Vec<Value> {
    let (before, cell) = (states[0], states[1]);
    let own = emit.op("MatMul", &[before, weights.hidden]);
    let sum = emit.op("Add", &[given, own]);
    let gates = parts(emit, sum, 2, &[layer.hidden; 4]);
    let gate = |emit: &mut Emit<'_>, gate: Value, peephole: usize, cell: Value| {
        let looks = weights.peepholes.as_ref().map(|all| all[peephole]);
        let looked = looks.map(|looks| emit.op("Mul", &[cell, looks]));
        let sum = looked.map_or(gate, |looked| emit.op("Add", &[gate, looked]));
        emit.op(names[0], &[sum])
    };
    let (takes, forgets) = (gate(emit, gates[0], 0, cell), gate(emit, gates[2], 2, cell));
    let fresh = emit.op(names[1], &[gates[3]]);
    let (kept, added) = (emit.op("Mul", &[forgets, cell]), emit.op("Mul", &[takes, fresh]));
    let cell = emit.op("Add", &[kept, added]);
    let gives = gate(emit, gates[1], 1, cell);
    let shown = emit.op(names[2], &[cell]);
    vec![emit.op("Mul", &[gives, shown]), cell]
}

/// Emits a step of a GRU that resets the state before its product.
fn gru(
    emit: &mut Emit<'_>,
    layer: &Layer,
    names: &[&'static str],
    given: Value,
    hidden: &[Value],
    before: Value,
) -> Value {
    let given = parts(emit, given, 2, &[2 * layer.hidden, layer.hidden]);
    let own = emit.op("MatMul", &[before, hidden[0]]);
    let sum = emit.op("Add", &[given[0], own]);
    let both = emit.op(names[0], &[sum]);
    let gates = parts(emit, both, 2, &[layer.hidden; 2]);
    let reset = emit.op("Mul", &[gates[1], before]);
    let own = emit.op("MatMul", &[reset, hidden[1]]);
    let sum = emit.op("Add", &[given[1], own]);
    let fresh = emit.op(names[1], &[sum]);
    between(emit, gates[0], before, fresh)
}

/// Emits a step of a GRU that resets the product of the state.
fn late_gru(
    emit: &mut Emit<'_>,
    layer: &Layer,
    names: &[&'static str],
    given: Value,
    weights: &Weights,
    before: Value,
) -> Value {
    let mut own = emit.op("MatMul", &[before, weights.hidden]);
    if let Some([_, bias]) = weights.biases {
        own = emit.op("Add", &[own, bias]);
    }
    let sizes = [2 * layer.hidden, layer.hidden];
    let (given, own) = (parts(emit, given, 2, &sizes), parts(emit, own, 2, &sizes));
    let sum = emit.op("Add", &[given[0], own[0]]);
    let both = emit.op(names[0], &[sum]);
    let gates = parts(emit, both, 2, &[layer.hidden; 2]);
    let reset = emit.op("Mul", &[gates[1], own[1]]);
    let sum = emit.op("Add", &[given[1], reset]);
    let fresh = emit.op(names[1], &[sum]);
    between(emit, gates[0], before, fresh)
}

/// Emits `gate * before + (1 - gate) * fresh`, as `fresh + gate * (before - fresh)`.
fn between(emit: &mut Emit<'_>, gate: Value, before: Value, fresh: Value) -> Value {
    let change = emit.op("Sub", &[before, fresh]);
    let kept = emit.op("Mul", &[gate, change]);
    emit.op("Add", &[fresh, kept])
}

/// Cuts a value into parts along an axis.
fn parts(emit: &mut Emit<'_>, value: Value, axis: usize, sizes: &[u64]) -> Vec<Value> {
    if sizes.len() == 1 {
        return vec![value];
    }
    let numbers: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
    let sizes = emit.ints(&numbers);
    emit.node("Split", &[Some(value), Some(sizes)], memc_edit::int("axis", axis as i64), numbers.len())
}

/// Joins values along an axis.
fn join(emit: &mut Emit<'_>, values: &[Value], axis: usize) -> Value {
    match values {
        [one] => *one,
        _ => emit.op_with("Concat", values, memc_edit::int("axis", axis as i64)),
    }
}
