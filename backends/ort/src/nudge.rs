//! Weights that are one rounding off: results then move by about as much as kernels move them that add in
//! another order.

use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};
use memc_onnx_proto::onnx::{ModelProto, TensorProto};

/// Moves each 32-bit floating-point weight in the model to a neighbouring number or leaves it, by its
/// position. Zeros, infinities and NaN stay, and so do weights in other files.
pub(crate) fn nudge(model: &mut ModelProto) {
    for tensor in model.graph.iter_mut().flat_map(|graph| &mut graph.initializer) {
        if tensor.data_type() == DataType::Float as i32 && tensor.data_location() != DataLocation::External {
            nudge_elements(tensor);
        }
    }
}

fn nudge_elements(tensor: &mut TensorProto) {
    for (position, number) in tensor.float_data.iter_mut().enumerate() {
        *number = neighbour(*number, position);
    }
    if let Some(raw) = &tensor.raw_data {
        let numbers = raw.chunks_exact(4).enumerate().map(|(position, bytes)| {
            neighbour(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), position)
        });
        let moved: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        tensor.raw_data = Some(moved.into());
    }
}

/// Returns the number above, the number below or the number itself, by a hash of the position.
fn neighbour(number: f32, position: usize) -> f32 {
    // Knuth's multiplicative hash; its upper bits are the mixed ones.
    let hash = (position as u32).wrapping_mul(2_654_435_761) >> 16;
    match hash % 3 {
        _ if number == 0.0 || !number.is_finite() => number,
        0 => number.next_up(),
        1 => number.next_down(),
        _ => number,
    }
}
