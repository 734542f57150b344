//! Sparse initializers as sessions see them: dense, with zeros between the values.

use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};
use memc_onnx_proto::onnx::{SparseTensorProto, TensorProto};

use crate::element::Element;
use crate::error::Error;
use crate::memory::Block;

/// Returns name and dense type of a sparse initializer, without its elements.
pub(crate) fn described(sparse: &SparseTensorProto) -> TensorProto {
    let values = sparse.values.as_ref();
    TensorProto {
        name: Some(name(sparse).to_owned()),
        dims: sparse.dims.clone(),
        data_type: values.and_then(|values| values.data_type),
        data_location: Some(DataLocation::External as i32),
        ..TensorProto::default()
    }
}

fn name(sparse: &SparseTensorProto) -> &str {
    sparse.values.as_ref().map(TensorProto::name).unwrap_or_default()
}

/// Returns the values and the indices of a sparse initializer.
///
/// # Errors
/// Values or indices are missing, or the indices are not 64-bit integers.
pub(crate) fn parts(sparse: &SparseTensorProto) -> Result<(&TensorProto, &TensorProto), Error> {
    match (&sparse.values, &sparse.indices) {
        (Some(values), Some(indices)) if indices.data_type() == DataType::Int64 as i32 => {
            Ok((values, indices))
        }
        (Some(_), Some(_)) => Err(wrong(sparse, "it is sparse and its indices are not 64-bit integers")),
        _ => Err(wrong(sparse, "it is sparse and has no values or no indices")),
    }
}

/// Returns shape and elements in dense order. `values` and `indices` are bytes as stored in memory,
/// `form` is the shape of the indices.
///
/// # Errors
/// Values, indices and shape contradict each other.
pub(crate) fn dense(
    sparse: &SparseTensorProto,
    element: Element,
    values: &[u8],
    (form, indices): (&[u64], &[u8]),
) -> Result<(Vec<u64>, Block), Error> {
    let wrong = |reason| wrong(sparse, reason);
    let shape = sparse.dims.iter().map(|extent| u64::try_from(*extent)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| wrong("a dimension is negative"))?;
    let size = element.bytes(&shape).ok_or_else(|| wrong("its size is impossible"))?;
    let width = element.bytes(&[1]).filter(|width| element.bytes(&[2]) == Some(2 * width));
    let width = width.ok_or_else(|| wrong("it is sparse and its elements have less than 8 bits"))?;
    let positions = positions(indices, form, &shape);
    let positions = positions.ok_or_else(|| wrong("it is sparse and has indices beyond its shape"))?;
    if values.len() as u64 != positions.len() as u64 * width {
        return Err(wrong("it is sparse and its numbers of indices and values differ"));
    }
    let mut block = Block::zeros(size)?;
    for (value, position) in values.chunks_exact(width as usize).zip(positions) {
        let from = (position * width) as usize;
        block.bytes_mut()[from..from + value.len()].copy_from_slice(value);
    }
    Ok((shape, block))
}

fn wrong(sparse: &SparseTensorProto, reason: &'static str) -> Error {
    Error::Initializer { tensor: name(sparse).to_owned(), reason }
}

/// Returns the positions in dense order: the indices themselves, or computed from rows with one index a
/// dimension. `None` if an index is out of range.
fn positions(indices: &[u8], form: &[u64], shape: &[u64]) -> Option<Vec<u64>> {
    let mut numbers =
        indices.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    let elements = shape.iter().product::<u64>();
    match form {
        [_] => numbers.map(|index| u64::try_from(index).ok().filter(|index| *index < elements)).collect(),
        [rows, rank] if *rank == shape.len() as u64 => {
            let mut row = || {
                shape.iter().try_fold(0u64, |position, extent| {
                    let index = u64::try_from(numbers.next()?).ok().filter(|index| index < extent)?;
                    Some(position * extent + index)
                })
            };
            (0..*rows).map(|_| row()).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::positions;

    fn bytes(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn indices_are_positions_or_coordinates() {
        assert_eq!(positions(&bytes(&[1, 5]), &[2], &[2, 3]), Some(vec![1, 5]));
        assert_eq!(positions(&bytes(&[0, 1, 1, 2]), &[2, 2], &[2, 3]), Some(vec![1, 5]));
        assert_eq!(positions(&bytes(&[6]), &[1], &[2, 3]), None);
        assert_eq!(positions(&bytes(&[-1]), &[1], &[2, 3]), None);
        assert_eq!(positions(&bytes(&[0, 3]), &[1, 2], &[2, 3]), None);
        assert_eq!(positions(&bytes(&[0, 1, 1]), &[1, 3], &[2, 3]), None);
    }
}
