//! Workspace of ONNX Runtime's CPU kernels for recurrent layers, with one thread.
//!
//! Source: its `core/providers/cpu/rnn/` (`rnn.cc`, `deep_cpu_gru.cc`, `uni_directional_lstm.cc`),
//! compared with random nodes by `benches/workspace.py`. The size of every buffer is rounded up to a
//! whole allocation.

use crate::size::{Counted, GRANULARITY, Size};

/// Extents of a recurrent layer: data `[S, B, I]`, weights `[D, G, I]` and `[D, G, H]`.
struct Layer<'a> {
    node: &'a Counted<'a>,
    steps: Size,
    batch: Size,
    input: Size,
    directions: Size,
    gated: Size,
    hidden: Size,
}

impl<'a> Layer<'a> {
    fn read(node: &'a Counted<'a>) -> Option<Self> {
        let [data, weights, recurrence] = [0, 1, 2].map(|operand| node.dims(node.input(operand)));
        let (data, weights, recurrence) = (data?, weights?, recurrence?);
        let (steps, batch) = if node.data().int("layout", 0) == 0 { (0, 1) } else { (1, 0) };
        Some(Self {
            node,
            steps: data.get(steps)?.clone(),
            batch: data.get(batch)?.clone(),
            input: data.get(2)?.clone(),
            directions: weights.first()?.clone(),
            gated: weights.get(1)?.clone(),
            hidden: recurrence.get(2)?.clone(),
        })
    }
    fn wants(&self, result: usize) -> bool {
        self.node.data().outputs.get(result).is_some_and(Option::is_some)
    }
    /// Returns the bytes of a buffer with these extents.
    fn buffer(&self, extents: &[&Size]) -> Size {
        (Size::product(extents.iter().copied()) * Size::width_in_full(self.node.input(0))).rounded()
    }
    /// Returns the bytes of one state of all sequences.
    fn state(&self) -> Size {
        self.buffer(&[&self.batch, &self.hidden])
    }
    /// Returns the bytes of the gates of all steps in one direction.
    fn gates(&self) -> Size {
        self.buffer(&[&self.gated, &self.steps, &self.batch])
    }
    /// Returns the bytes of the lengths of all sequences.
    fn lengths(&self) -> Size {
        (&self.batch * 4).rounded()
    }
    /// Returns the bytes of reversed data and results, if a direction needs them.
    fn reversed(&self) -> Size {
        match self.node.data().string("direction") {
            Some("reverse" | "bidirectional") => {
                let data = self.buffer(&[&self.steps, &self.batch, &self.input]);
                data + self.buffer(&[&self.steps, &self.batch, &self.hidden])
            }
            _ => Size::from(0),
        }
    }
    /// Returns the bytes of the last states (result `result`) if they are not a result: the kernel
    /// computes them in any case.
    fn last(&self, result: usize) -> Size {
        if self.wants(result) {
            Size::from(0)
        } else {
            self.buffer(&[&self.directions, &self.batch, &self.hidden])
        }
    }
}

/// Returns the workspace of RNN: the sums of one direction, and the results that the node omits.
pub(crate) fn rnn(node: &Counted<'_>) -> Option<Size> {
    let layer = Layer::read(node)?;
    let all = || layer.buffer(&[&layer.steps, &layer.directions, &layer.batch, &layer.hidden]);
    let omitted = if layer.wants(0) { Size::from(0) } else { all() };
    Some(layer.gates() + omitted + layer.last(1) + GRANULARITY)
}

/// Returns the workspace of GRU: in each direction the gates of all steps, two states, biases for all
/// sequences, and the product before the reset gate.
pub(crate) fn gru(node: &Counted<'_>) -> Option<Size> {
    let layer = Layer::read(node)?;
    let linear = u64::from(node.data().int("linear_before_reset", 0) != 0);
    let biases = if node.has(3) { 3 + linear } else { 0 };
    let direction = layer.gates() + layer.state() * (2 + biases + linear) + layer.lengths();
    Some(direction * &layer.directions + layer.reversed() + layer.last(1))
}

/// Returns the workspace of LSTM: in each direction the gates of all steps, three states, two vectors,
/// biases and peepholes.
pub(crate) fn lstm(node: &Counted<'_>) -> Option<Size> {
    let layer = Layer::read(node)?;
    let vectors = 2 + if node.has(3) { 4 } else { 0 } + if node.has(7) { 3 } else { 0 };
    let states = layer.state() * 3 + layer.buffer(&[&layer.hidden]) * vectors;
    let direction = layer.gates() + states + layer.lengths();
    Some(direction * &layer.directions + layer.reversed() + layer.last(1) + layer.last(2))
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
        check(
            layer("GRU", 3, 2, [19, 11, 13, 24]).int("linear_before_reset", 1).wanted(&[false, true]),
            158_080,
        );
        check(layer("GRU", 3, 2, [3, 9, 82, 34]).wanted(&[false, true]), 40_000);
        check(layer("LSTM", 4, 1, [15, 2, 7, 48]).input("f32[1,384]").outputs(2), 25_792);
        check(layer("LSTM", 4, 2, [15, 2, 7, 48]).wanted(&[false, true, true]), 55_936);
    }
}
