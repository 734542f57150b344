//! Weights of convolutions in blocks of channels, in the layout of ONNX Runtime's kernels.

/// Layout of weights in blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Order {
    /// Output channels in blocks, innermost: for depthwise convolutions and for convolutions that read
    /// images in plain layout.
    Outputs,
    /// Input channels in blocks, with blocks of output channels inside them.
    Both,
}

/// Rounds a number of channels up to whole blocks. `None` on overflow.
pub(super) fn whole(channels: u64, block: u64) -> Option<u64> {
    channels.checked_next_multiple_of(block.max(1))
}

/// Converts binary32 weights `[outputs, inputs, height, width]` to blocks, with zeros for channels that
/// fill up a block.
///
/// Linear in the result. `None` if the number of bytes differs from the extents.
pub(super) fn in_blocks(bytes: &[u8], dims: [usize; 4], block: usize, order: Order) -> Option<Vec<u8>> {
    let [outputs, inputs, height, width] = dims;
    let area = height.checked_mul(width)?;
    let (from, _) = bytes.as_chunks::<4>();
    (from.len() == outputs.checked_mul(inputs)?.checked_mul(area)? && bytes.len() == from.len() * 4)
        .then_some(())?;
    let (each, padded) = match order {
        Order::Outputs => (1, inputs),
        Order::Both => (block, inputs.checked_next_multiple_of(block)?),
    };
    let count = outputs.checked_next_multiple_of(block)?.checked_mul(padded)?.checked_mul(area)?;
    let mut found = Vec::with_capacity(count.checked_mul(4)?);
    for output in (0..outputs).step_by(block) {
        for input in (0..padded).step_by(each) {
            for place in 0..area {
                for inner in input..input + each {
                    for outer in output..output + block {
                        let known = outer < outputs && inner < inputs;
                        let raw = if known { from[(outer * inputs + inner) * area + place] } else { [0; 4] };
                        found.extend_from_slice(&raw);
                    }
                }
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|raw| f32::from_le_bytes(*raw)).collect()
    }

    fn weights(count: u16) -> Vec<u8> {
        (0..count).flat_map(|number| f32::from(number + 1).to_le_bytes()).collect()
    }

    #[test]
    fn output_channels_are_innermost() {
        // Three filters of two taps: blocks of two, the second filled up.
        let found = in_blocks(&weights(6), [3, 1, 1, 2], 2, Order::Outputs);
        assert_eq!(found.map(|bytes| numbers(&bytes)), Some(vec![1.0, 3.0, 2.0, 4.0, 5.0, 0.0, 6.0, 0.0]));
    }

    #[test]
    fn input_channels_lie_outside_of_output_channels() {
        // Two filters over three channels: 1 2 3 and 4 5 6.
        let found = in_blocks(&weights(6), [2, 3, 1, 1], 2, Order::Both);
        assert_eq!(found.map(|bytes| numbers(&bytes)), Some(vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 0.0, 0.0]));
    }

    #[test]
    fn bytes_that_do_not_fit_the_extents_are_refused() {
        assert_eq!(in_blocks(&weights(5), [2, 3, 1, 1], 2, Order::Both), None);
        assert_eq!(in_blocks(&[], [usize::MAX, 3, 1, 1], 2, Order::Both), None);
    }
}
