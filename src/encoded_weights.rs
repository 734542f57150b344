//! Rows of the layout about weights in few bits: one for each constant with codes, whole or of some
//! columns.

use std::collections::BTreeMap;

use memc_ir::{ConstData, Module, Payload};
use memc_layout as file;
use memc_passes::{Claims, EncodedWeight};

/// Returns the rows of a written module.
pub(crate) fn encoded_weights(module: &Module, claims: &Claims) -> Vec<file::EncodedWeight> {
    if claims.encoded_weights().next().is_none() {
        return Vec::new();
    }
    let (constants, scales) = (constants(module), scales(module));
    claims.encoded_weights().flat_map(|weight| rows(module, weight, &constants, &scales)).collect()
}

/// A constant of the main graph, with its place among the initializers.
type Placed<'m> = (usize, &'m ConstData);

/// Returns the constants of the main graph by name.
fn constants(module: &Module) -> BTreeMap<&str, Placed<'_>> {
    let values = module.graph(module.main()).constants.iter().enumerate();
    let named = |(place, value): (usize, &memc_ir::Value)| {
        Some((module.value(*value).name.as_str(), (place, module.constant(module.constant_of(*value)?))))
    };
    values.filter_map(named).collect()
}

/// Returns the names of scales by the names of the codes that are read with them.
fn scales(module: &Module) -> BTreeMap<&str, &str> {
    let name = |value: memc_ir::Value| module.value(value).name.as_str();
    let pair = |node: &memc_ir::Node| {
        let data = module.node(*node);
        let first = match &*data.operator.name {
            "DequantizeLinear" => 0,
            "MatMulNBits" => 1,
            _ => return None,
        };
        let operand = |position: usize| data.inputs.get(position).copied().flatten().map(name);
        operand(first).zip(operand(first + 1))
    };
    module.graph(module.main()).nodes.iter().filter_map(pair).collect()
}

/// Returns the rows of one matrix: of its codes, and of constants that split products made from them.
fn rows(
    module: &Module,
    weight: &EncodedWeight,
    constants: &BTreeMap<&str, Placed<'_>>,
    scales: &BTreeMap<&str, &str>,
) -> Vec<file::EncodedWeight> {
    let [inner, count] = weight.extents;
    let row = |codes: &str, scales: &str, [rows, columns]: [[u64; 2]; 2], after: u64| file::EncodedWeight {
        of: weight.of.clone(),
        codes: codes.to_owned(),
        scales: scales.to_owned(),
        rows,
        columns,
        bits: u64::from(weight.bits),
        block: weight.block,
        before: (rows[1] - rows[0]).saturating_mul(columns[1] - columns[0]).saturating_mul(4),
        after,
        relative_error: weight.errors.relative(),
        largest_error: weight.errors.largest,
    };
    let mut found = Vec::new();
    if constants.contains_key(weight.codes.as_str()) {
        let scales = scales.get(weight.codes.as_str()).copied().unwrap_or(&weight.scales);
        found.push(row(&weight.codes, scales, [[0, inner], [0, count]], weight.after.0));
    }
    // Shares are named after the constant that they were cut from, and made in the order of their places.
    let prefix = format!("{}_part", weight.codes);
    let mut parts: Vec<(usize, &str, &ConstData)> = constants
        .range(prefix.as_str()..)
        .take_while(|(name, _)| name.starts_with(&prefix))
        .map(|(name, (place, constant))| (*place, *name, *constant))
        .collect();
    parts.sort_unstable_by_key(|(place, ..)| *place);
    let (whole, mut next) = (module.constant(weight.whole), 0);
    for (_, name, part) in parts {
        let Some((scales, (axis, place))) = scales.get(name).zip(place_of(whole, part, next)) else {
            continue;
        };
        let bytes = |name: &str| {
            constants.get(name).and_then(|(_, constant)| constant.ty.size()).map_or(0, |size| size.0)
        };
        let is_row = (axis == 0) != weight.transposed;
        next = if place[1] < if is_row { inner } else { count } { place[1] } else { 0 };
        let places = if is_row { [place, [0, count]] } else { [[0, inner], place] };
        found.push(row(name, scales, places, bytes(name).saturating_add(bytes(scales))));
    }
    found
}

/// Returns the axis and the place of a share of codes: from `next` on if the codes there are equal, else
/// from the first multiple of their number on.
fn place_of(whole: &ConstData, part: &ConstData, next: u64) -> Option<(usize, [u64; 2])> {
    let (dims, own) = (whole.ty.known_dims()?, part.ty.known_dims()?);
    let axis = (0..dims.len().min(own.len())).find(|axis| dims[*axis] != own[*axis])?;
    let (count, extent) = (own[axis], dims[axis]);
    let (Payload::Raw(all), Payload::Raw(some)) = (&whole.payload, &part.payload) else { return None };
    let rows = usize::try_from(dims[..axis].iter().product::<u64>()).ok()?;
    let run = all.len().checked_div(rows)?;
    let width = run.checked_div(usize::try_from(extent).ok()?)?;
    let own = width.checked_mul(usize::try_from(count).ok()?)?;
    let equals = |from: &u64| {
        let Ok(start) = usize::try_from(*from) else { return false };
        (0..rows).all(|row| {
            let at = row * run + start * width;
            all.get(at..at + own).is_some_and(|codes| some.get(row * own..(row + 1) * own) == Some(codes))
        })
    };
    let multiples = (0..extent).step_by(usize::try_from(count).ok().filter(|count| *count > 0)?);
    let from = std::iter::once(next).chain(multiples).find(|from| from + count <= extent && equals(from))?;
    Some((axis, [from, from + count]))
}

#[cfg(test)]
mod tests {
    use memc_ir::{ConstOrigin, ElementType, TensorType};

    use super::*;

    fn constant(dims: &[u64], bytes: &'static [u8]) -> ConstData {
        let payload = Payload::Raw(bytes::Bytes::from_static(bytes));
        ConstData { ty: TensorType::fixed(ElementType::Int8, dims), payload, origin: ConstOrigin::New }
    }

    #[test]
    fn shares_find_their_places() {
        let whole = constant(&[2, 4], &[1, 2, 1, 2, 5, 6, 5, 7]);
        assert_eq!(place_of(&whole, &constant(&[2, 2], &[1, 2, 5, 7]), 0), Some((1, [2, 4])));
        assert_eq!(place_of(&whole, &constant(&[2, 2], &[1, 2, 5, 6]), 2), Some((1, [0, 2])));
        assert_eq!(place_of(&whole, &constant(&[1, 4], &[5, 6, 5, 7]), 0), Some((0, [1, 2])));
        // Equal codes at two places: the expected place counts.
        let whole = constant(&[1, 4], &[1, 1, 1, 1]);
        assert_eq!(place_of(&whole, &constant(&[1, 1], &[1]), 3), Some((1, [3, 4])));
        assert_eq!(place_of(&whole, &constant(&[1, 2], &[1, 9]), 0), None);
    }
}
