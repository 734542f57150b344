//! Workspace of ONNX Runtime's CPU kernels for recurrent layers, with one thread.
//!
//! Source: its `core/providers/cpu/rnn/` (`rnn.cc`, `deep_cpu_gru.cc`, `uni_directional_lstm.cc`),
//! compared with random nodes by `benches/workspace.py`. The size of every buffer is rounded up to a
//! multiple of 64 bytes.

use memc_ir::Bytes;

use crate::families::dims::bytes_in_full;
use crate::info::Typed;

/// Granularity of allocations, in bytes.
const ROUNDING: u64 = 64;

/// Extents of a recurrent layer: data `[S, B, I]`, weights `[D, G, I]` and `[D, G, H]`.
struct Layer<'a> {
    typed: &'a Typed<'a>,
    steps: u64,
    batch: u64,
    input: u64,
    directions: u64,
    gated: u64,
    hidden: u64,
    /// Bytes per element.
    width: u64,
}

impl<'a> Layer<'a> {
    fn read(typed: &'a Typed<'a>) -> Option<Self> {
        let (data, weights, recurrence) = (typed.input_dims(0)?, typed.input_dims(1)?, typed.input_dims(2)?);
        let batch_first = typed.data().int("layout", 0) != 0;
        let (steps, batch) = if batch_first { (*data.get(1)?, *data.first()?) } else { (*data.first()?, *data.get(1)?) };
        Some(Self {
            typed,
            steps,
            batch,
            input: *data.get(2)?,
            directions: *weights.first()?,
            gated: *weights.get(1)?,
            hidden: *recurrence.get(2)?,
            width: bytes_in_full(1, typed.input(0)?.element)?.0,
        })
    }
    fn has(&self, operand: usize) -> bool {
        self.typed.data().inputs.get(operand).is_some_and(Option::is_some)
    }
    fn wants(&self, result: usize) -> bool {
        self.typed.data().outputs.get(result).is_some_and(Option::is_some)
    }
    /// Returns the bytes of a buffer with these extents.
    fn buffer(&self, extents: &[u64]) -> Option<u64> {
        let elements = extents.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))?;
        elements.checked_mul(self.width)?.checked_next_multiple_of(ROUNDING)
    }
    /// Returns the bytes of one state of all sequences.
    fn state(&self) -> Option<u64> {
        self.buffer(&[self.batch, self.hidden])
    }
    /// Returns the bytes of the gates of all steps in one direction.
    fn gates(&self) -> Option<u64> {
        self.buffer(&[self.gated, self.steps, self.batch])
    }
    /// Returns the bytes of reversed data and results, if a direction needs them.
    fn reversed(&self) -> Option<u64> {
        match self.typed.data().string("direction") {
            Some("reverse" | "bidirectional") => {
                let data = self.buffer(&[self.steps, self.batch, self.input])?;
                data.checked_add(self.buffer(&[self.steps, self.batch, self.hidden])?)
            }
            _ => Some(0),
        }
    }
    /// Returns the bytes of the last states (result `result`) if they are not a result: the kernel
    /// computes them in any case.
    fn last(&self, result: usize) -> Option<u64> {
        if self.wants(result) { Some(0) } else { self.buffer(&[self.directions, self.batch, self.hidden]) }
    }
}

fn sum(parts: &[u64]) -> Option<u64> {
    parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part))
}

/// Returns the workspace of RNN: the sums of one direction, and the results that the node omits.
pub(crate) fn rnn(typed: &Typed<'_>) -> Option<Bytes> {
    let layer = Layer::read(typed)?;
    let all = layer.buffer(&[layer.steps, layer.directions, layer.batch, layer.hidden])?;
    sum(&[layer.gates()?, if layer.wants(0) { 0 } else { all }, layer.last(1)?, ROUNDING]).map(Bytes)
}

/// Returns the workspace of GRU: in each direction the gates of all steps, two states, biases for all
/// sequences, and the product before the reset gate.
pub(crate) fn gru(typed: &Typed<'_>) -> Option<Bytes> {
    let layer = Layer::read(typed)?;
    let linear = typed.data().int("linear_before_reset", 0) != 0;
    let biases = if layer.has(3) { 3 + u64::from(linear) } else { 0 };
    let states = layer.state()?.checked_mul(2 + biases + u64::from(linear))?;
    // Lengths of the sequences, rounded like every buffer.
    let lengths = layer.batch.checked_mul(4)?.checked_next_multiple_of(ROUNDING)?;
    let direction = sum(&[layer.gates()?, states, lengths])?;
    sum(&[direction.checked_mul(layer.directions)?, layer.reversed()?, layer.last(1)?]).map(Bytes)
}

/// Returns the workspace of LSTM: in each direction the gates of all steps, three states, two vectors,
/// biases and peepholes.
pub(crate) fn lstm(typed: &Typed<'_>) -> Option<Bytes> {
    let layer = Layer::read(typed)?;
    let vectors = 2 + if layer.has(3) { 4 } else { 0 } + if layer.has(7) { 3 } else { 0 };
    let states = sum(&[layer.state()?.checked_mul(3)?, layer.buffer(&[layer.hidden])?.checked_mul(vectors)?])?;
    let lengths = layer.batch.checked_mul(4)?.checked_next_multiple_of(ROUNDING)?;
    let direction = sum(&[layer.gates()?, states, lengths])?;
    let last = sum(&[layer.last(1)?, layer.last(2)?])?;
    sum(&[direction.checked_mul(layer.directions)?, layer.reversed()?, last]).map(Bytes)
}

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn layer(name: &str, gates: u64, directions: u64, [steps, batch, input, hidden]: [u64; 4]) -> Case {
        let weight = |columns: u64| format!("f32[{directions},{},{columns}]", gates * hidden);
        let direction = if directions == 2 { "bidirectional" } else { "forward" };
        let case = Case::new(name, 17).input(&format!("f32[{steps},{batch},{input}]"));
        case.input(&weight(input)).input(&weight(hidden)).string("direction", direction)
    }

    /// Compares the workspace of a layer with the counted bytes: never less, and at most 5 % plus a few
    /// roundings more.
    fn check(case: Case, counted: u64) {
        let workspace = case.costs().1.map(|bytes| bytes.0).unwrap_or_default();
        assert!((counted..=counted + counted / 20 + 256).contains(&workspace), "{workspace} for {counted}");
    }

    #[test]
    fn layer_workspace_covers_the_counted_bytes() {
        check(layer("RNN", 1, 2, [26, 12, 34, 95]).outputs(2), 118_592);
        check(layer("RNN", 1, 2, [29, 7, 109, 6]).wanted(&[false, true]), 14_720);
        check(layer("GRU", 3, 2, [19, 11, 13, 24]).int("linear_before_reset", 1).wanted(&[false, true]), 158_080);
        check(layer("GRU", 3, 2, [3, 9, 82, 34]).wanted(&[false, true]), 40_000);
        check(layer("LSTM", 4, 1, [15, 2, 7, 48]).input("f32[1,384]").outputs(2), 25_792);
        check(layer("LSTM", 4, 2, [15, 2, 7, 48]).wanted(&[false, true, true]), 55_936);
    }
}
