//! Finds constants with two equal halves, as in tables of sines and cosines for rotations by position.

use bytes::Bytes;
use memc_ir::{ConstData, ElementType, Module, Node, Payload, SecondaryMap, Value};

/// Maximum size, in bytes, of a table that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the bytes of a constant in the model's own file, or `None` if they are in another file.
pub fn own_bytes(constant: &ConstData) -> Option<Bytes> {
    match &constant.payload {
        Payload::Raw(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// Returns the factors of products whose two halves of the last axis are equal, bit for bit. Vectors and
/// tables that are not binary32 are skipped. Linear in nodes and the bytes of the tables.
pub(crate) fn repeating(
    module: &Module,
    nodes: &[Node],
    read: &dyn Fn(&ConstData) -> Option<Bytes>,
) -> SecondaryMap<Value, bool> {
    let mut found: SecondaryMap<Value, Option<bool>> = SecondaryMap::default();
    for node in nodes.iter().map(|node| module.node(*node)) {
        if !node.operator.domain.is_empty() || *node.operator.name != *"Mul" {
            continue;
        }
        for value in node.operands() {
            if let Some(constant) = module.constant_of(value).filter(|_| found[value].is_none()) {
                found.set(value, Some(has_equal_halves(module.constant(constant), read).unwrap_or(false)));
            }
        }
    }
    let mut repeats = SecondaryMap::default();
    module
        .values()
        .keys()
        .filter(|value| found[*value] == Some(true))
        .for_each(|value| repeats.set(value, true));
    repeats
}

fn has_equal_halves(constant: &ConstData, read: &dyn Fn(&ConstData) -> Option<Bytes>) -> Option<bool> {
    let dims = constant.ty.known_dims()?;
    let size = constant.ty.size()?.0;
    let last = *dims.last().filter(|_| dims.len() >= 2)?;
    let fits = constant.ty.element == ElementType::Float
        && last > 0
        && last % 2 == 0
        && (1..=MAX_BYTES).contains(&size);
    let bytes = if fits { read(constant)? } else { return None };
    let row = usize::try_from(last * 4).ok()?;
    Some(
        bytes.len() as u64 == size
            && bytes.chunks_exact(row).all(|row| row[..row.len() / 2] == row[row.len() / 2..]),
    )
}
