//! Inputs that hold special numbers: zeros, infinities, the smallest and the greatest numbers, and ties
//! of roundings, each of both signs, and NaN.

use std::collections::BTreeMap;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{GraphProto, NodeProto};

use crate::arrays::Array;
use crate::error::Error;
use crate::inputs;

/// Layout of the bits of a floating-point type.
#[derive(Clone, Copy)]
struct Bits {
    exponent: u32,
    fraction: u32,
}

/// Makes an array for every graph input without a default. Every second element of a floating-point
/// array is a special number; all other elements are as usual, since indices must stay legal.
///
/// `None` if no input holds floating-point numbers, or if a loop might not end for infinity.
///
/// # Errors
/// As for [`inputs::make`].
pub(crate) fn make(
    model: &ModelFile,
    layout: &Layout,
    seed: u64,
) -> Result<Option<BTreeMap<String, Array>>, Error> {
    if has_loop(model.graph()) {
        return Ok(None);
    }
    let mut made = inputs::make(model, layout, seed)?;
    let mut any = false;
    for array in made.values_mut() {
        let Some(bits) = bits(array.element.data_type()) else { continue };
        let bytes = Array::filled(array.element, array.shape.clone(), |place| {
            place.copy_from_slice(array.bytes());
            write(bits, seed, place);
            Ok(())
        })?;
        if let Some(special) = bytes {
            any = true;
            *array = special;
        }
    }
    Ok(any.then_some(made))
}

/// Whether a graph or one of its bodies holds a Loop.
fn has_loop(graph: &GraphProto) -> bool {
    let bodies = |node: &NodeProto| {
        node.attribute.iter().any(|attribute| {
            attribute.g.as_ref().is_some_and(has_loop) || attribute.graphs.iter().any(has_loop)
        })
    };
    graph.node.iter().any(|node| node.op_type() == "Loop" || bodies(node))
}

fn bits(ty: DataType) -> Option<Bits> {
    let (exponent, fraction) = match ty {
        DataType::Double => (11, 52),
        DataType::Float => (8, 23),
        DataType::Float16 => (5, 10),
        DataType::Bfloat16 => (8, 7),
        _ => return None,
    };
    Some(Bits { exponent, fraction })
}

/// Returns the special numbers of a type, as bits.
fn numbers(bits: Bits) -> Vec<u64> {
    let Bits { exponent, fraction } = bits;
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let one = ((1u64 << (exponent - 1)) - 1) << fraction;
    let (step, half_a_fraction) = (1u64 << fraction, 1u64 << (fraction - 1));
    let least_normal = step;
    let sizes = [
        0,
        infinity,
        1,
        least_normal - 1,
        least_normal,
        infinity - 1,
        one,
        // 0.5, 1.5 and 2.5 lie between two integers.
        one - step,
        one + half_a_fraction,
        one + step + (half_a_fraction >> 1),
    ];
    let sign = 1u64 << (exponent + fraction);
    let signed = sizes.into_iter().flat_map(|size| [size, size | sign]);
    signed.chain([infinity | half_a_fraction]).collect()
}

/// Overwrites every second element, from the first on, with special numbers in turn.
fn write(bits: Bits, seed: u64, place: &mut [u8]) {
    let width = ((bits.exponent + bits.fraction + 1) / 8) as usize;
    let all = numbers(bits);
    let first = usize::try_from(seed % all.len() as u64).unwrap_or(0);
    let elements = place.chunks_exact_mut(width).step_by(2);
    for (element, number) in elements.zip(all.iter().cycle().skip(first)) {
        element.copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_numbers_have_both_signs() {
        let singles: Vec<f32> = numbers(bits(DataType::Float).unwrap_or(Bits { exponent: 0, fraction: 0 }))
            .iter()
            .map(|bits| f32::from_bits(*bits as u32))
            .collect();
        for number in [0.0, f32::INFINITY, f32::MIN_POSITIVE, f32::MAX, 1.0, 0.5, 1.5, 2.5, f32::from_bits(1)]
        {
            let has = |wanted: f32| singles.iter().any(|found| found.to_bits() == wanted.to_bits());
            assert!(has(number) && has(-number), "{number}");
        }
        assert_eq!(singles.iter().filter(|number| number.is_nan()).count(), 1);
    }

    #[test]
    fn every_second_element_is_special() {
        let mut place = [0x55; 4 * 50];
        write(Bits { exponent: 8, fraction: 23 }, 3, &mut place);
        let kept = place.chunks_exact(4).enumerate().filter(|(_, element)| **element == [0x55; 4]);
        assert_eq!(
            kept.map(|(position, _)| position).collect::<Vec<_>>(),
            (0..25).map(|half| 2 * half + 1).collect::<Vec<_>>()
        );
    }
}
