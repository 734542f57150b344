//! Checks rows of `encoded_weights`: weights that the output model holds in few bits, and their errors.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use memc_ir::{ConstData, ElementType, Node, Payload, Value};
use memc_layout::EncodedWeight;

use crate::codes::Kind;
use crate::content::{Content, content};
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::side::Side;

/// Share by which a stated error may differ from the derived one: both are sums over many numbers.
const ROUNDING: f64 = 1e-6;
/// Bytes of integers without a row that the output model may read more than the input model: small
/// constants may be stored twice.
const SMALL: u64 = 64 << 10;

/// Checks that each row names codes, scales and their matrix, that its sizes and errors are right, and that
/// the options name the encoding. Codes without a row must come from the input model.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut named = BTreeSet::new();
    let mut sums: BTreeMap<&str, Option<Sums>> = BTreeMap::new();
    for row in &ctx.layout.encoded_weights {
        let at = || At::tensor(&row.codes);
        if !named.insert(row.codes.as_str()) {
            findings.add(
                Kind::EncodedWeight,
                at(),
                format!("`{}` in `encoded_weights` occurs twice", row.codes),
            );
            continue;
        }
        if !is_allowed(ctx, row.bits) {
            let message = format!(
                "`{}` holds `{}` in {} bits, but no option asks for this",
                row.codes, row.of, row.bits
            );
            findings.add(Kind::EncodedWeight, at(), message);
        }
        match decoded(ctx.out, row).and_then(|matrix| errors(ctx.given, row, &matrix)) {
            Err(why) => {
                findings.add(Kind::EncodedWeight, at(), format!("`{}` in `encoded_weights` {why}", row.codes))
            }
            Ok(found) => {
                let sum = sums.entry(&row.of).or_insert_with(|| Some(Sums::default()));
                *sum = sum.zip(found).map(|(sum, found)| sum.with(found));
            }
        }
    }
    let unverified = sums.values().filter(|sum| sum.is_none()).count();
    for row in &ctx.layout.encoded_weights {
        let Some(Some(sum)) = sums.get(row.of.as_str()) else { continue };
        for (what, claimed, found) in [
            ("relative error", row.relative_error, sum.relative()),
            ("largest error", row.largest_error, sum.largest),
        ] {
            if (claimed - found).abs() > found.abs() * ROUNDING {
                let message = format!(
                    "the {what} of `{}` in `{}` is {found:e}; the layout states {claimed:e}",
                    row.of, row.codes
                );
                findings.add(Kind::EncodedWeight, At::tensor(&row.codes), message);
            }
        }
    }
    if unverified > 0 {
        findings.remark(format!(
            "the errors of {unverified} encoded matrices are not verified: they are outside the input model, or computed from others"
        ));
    }
    unnamed(ctx, &named, findings);
}

/// Returns whether the options ask for weights of this number of bits, and not for all bits of results.
fn is_allowed(ctx: &Ctx<'_>, bits: u64) -> bool {
    let option = |name: &str| ctx.layout.options.get(name).map(String::as_str);
    let code = match bits {
        8 => "int8",
        4 => "int4",
        _ => return false,
    };
    option("encode_weights") == Some(code) && option("exact") != Some("true")
}

/// Checks that codes without a row are no more than those of the input model.
fn unnamed(ctx: &Ctx<'_>, named: &BTreeSet<&str>, findings: &mut Findings) {
    let known: Vec<Content> =
        codes(ctx.given).into_keys().filter_map(|value| constant(ctx.given, 0, value)).collect();
    let before = codes(ctx.given).into_values().fold(0u64, u64::saturating_add);
    let (mut after, mut first) = (0u64, None);
    for (value, bytes) in codes(ctx.out) {
        let name = ctx.out.name(value);
        let is_given = || constant(ctx.out, 1, value).is_some_and(|content| known.contains(&content));
        if !named.contains(name) && !is_given() {
            after = after.saturating_add(bytes);
            first.get_or_insert_with(|| name.to_owned());
        }
    }
    if let Some(name) = first.filter(|_| after > before.saturating_add(SMALL)) {
        let message = format!(
            "`{name}` and others hold {} of codes that no row of `encoded_weights` names; the input model has {}",
            exact(after),
            exact(before)
        );
        findings.add(Kind::EncodedWeight, At::tensor(&name), message);
    }
}

fn constant(side: &Side<'_>, model: usize, value: Value) -> Option<Content> {
    side.module.constant_of(value).map(|id| content(side, model, id))
}

/// Returns the constants that nodes decode, with their sizes.
fn codes(side: &Side<'_>) -> BTreeMap<Value, u64> {
    let mut found = BTreeMap::new();
    for row in &side.rows {
        let data = side.module.node(row.node);
        let position = match (&*data.operator.domain, &*data.operator.name) {
            ("" | "com.microsoft", "DequantizeLinear") => 0,
            ("com.microsoft", "MatMulNBits") => 1,
            _ => continue,
        };
        let value = data.inputs.get(position).copied().flatten();
        if let Some(value) = value.filter(|value| side.module.constant_of(*value).is_some()) {
            found.insert(value, side.known[value].as_ref().map_or(0, |known| known.bytes()));
        }
    }
    found
}

/// A decoded matrix: `inner` numbers for each of `columns` results of a product, column by column.
struct Matrix {
    inner: usize,
    columns: usize,
    /// Bits of a code, and the number of codes that share a scale.
    form: (u64, Option<u64>),
    /// Whether the matrix is stored column by column, if the node tells.
    transposed: Option<bool>,
    numbers: Vec<f32>,
}

/// Decodes the codes of a row as the node does that reads them.
fn decoded(out: &Side<'_>, row: &EncodedWeight) -> Result<Matrix, String> {
    let value =
        |name: &str| out.named.get(name).copied().filter(|value| out.module.constant_of(*value).is_some());
    let Some((codes, scales)) = value(&row.codes).zip(value(&row.scales)) else {
        return Err("names no constant of the output model".to_owned());
    };
    let reader = out.rows.iter().find(|node| node.reads.contains(&codes)).map(|row| row.node);
    let raw = |value: Value| match &out.module.constant(out.module.constant_of(value)?).payload {
        Payload::Raw(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let (Some(reader), Some(code), Some(scale)) = (reader, raw(codes), raw(scales)) else {
        return Err("is read by no node, or has no bytes".to_owned());
    };
    let sizes = (code.len() + scale.len()) as u64;
    if row.after != sizes {
        return Err(format!("takes {}; the layout states {}", exact(sizes), exact(row.after)));
    }
    let scale: Vec<f32> = scale.as_chunks().0.iter().map(|raw| f32::from_le_bytes(*raw)).collect();
    let operands = &out.module.node(reader).inputs;
    let reads = |position: usize, value: Value| operands.get(position).copied().flatten() == Some(value);
    let found = match &*out.module.node(reader).operator.name {
        "DequantizeLinear" if reads(0, codes) && reads(1, scales) => {
            by_node(out, reader, codes, &code, &scale)
        }
        "MatMulNBits" if reads(1, codes) && reads(2, scales) => {
            by_product(out, reader, row.bits, &code, &scale)
        }
        _ => None,
    };
    let found = found.ok_or_else(|| "does not fit the node that reads it".to_owned())?;
    if found.form != (row.bits, row.block) {
        return Err(format!(
            "has {} bits, or other blocks; the layout states {} bits",
            found.form.0, row.bits
        ));
    }
    let before = (found.numbers.len() as u64).saturating_mul(4);
    if row.before != before {
        return Err(format!("stands for {}; the layout states {}", exact(before), exact(row.before)));
    }
    for (what, [from, to], found) in
        [("rows", row.rows, found.inner), ("columns", row.columns, found.columns)]
    {
        if to.checked_sub(from) != Some(found as u64) {
            return Err(format!("holds {found} {what}; the layout states {from} to {to}"));
        }
    }
    Ok(found)
}

/// Decodes a matrix as DequantizeLinear does, with one scale along an axis, or along blocks of an axis.
fn by_node(out: &Side<'_>, node: Node, codes: Value, code: &Bytes, scale: &[f32]) -> Option<Matrix> {
    let ty = out.known[codes].as_ref()?;
    let [rows, columns] = *ty.dims.first_chunk::<2>().filter(|_| ty.dims.len() == 2)?;
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    let data = out.module.node(node);
    let axis = data.int("axis", 1);
    let block = usize::try_from(data.int("block_size", 0)).ok()?;
    let signed = |index: usize| -> Option<i32> {
        match ty.element {
            ElementType::Int8 => code.get(index).map(|byte| i32::from(*byte as i8)),
            // The sign is the highest of four bits; the first code is in the lower half.
            ElementType::Int4 => {
                code.get(index / 2).map(|byte| i32::from(((byte >> (index % 2 * 4) << 4) as i8) >> 4))
            }
            _ => None,
        }
    };
    let blocks = |extent: usize| extent.div_ceil(block.max(1));
    let place = |row: usize, column: usize| match (axis, block) {
        (0, 0) => row,
        (1, 0) => column,
        (0, _) => row / block * columns + column,
        (_, _) => row * blocks(columns) + column / block,
    };
    // Blocks are along the numbers that are summed, single scales along the columns of the product.
    let transposed = (axis == 1) == (block > 0);
    let (inner, width) = if transposed { (columns, rows) } else { (rows, columns) };
    let mut numbers = Vec::with_capacity(code.len());
    for column in 0..width {
        for number in 0..inner {
            let (row, column) = if transposed { (column, number) } else { (number, column) };
            numbers.push(
                signed(row.checked_mul(columns)?.checked_add(column)?)? as f32
                    * scale.get(place(row, column))?,
            );
        }
    }
    let bits = if ty.element == ElementType::Int8 { 8 } else { 4 };
    let form = (bits, Some(block as u64).filter(|block| *block > 0));
    Some(Matrix { inner, columns: width, form, transposed: Some(transposed), numbers })
}

/// Decodes a matrix as MatMulNBits does: codes from 0 on, in blocks of a column.
fn by_product(out: &Side<'_>, node: Node, bits: u64, code: &Bytes, scale: &[f32]) -> Option<Matrix> {
    let data = out.module.node(node);
    let extent = |name: &str| usize::try_from(data.int(name, 0)).ok();
    let (inner, columns, block) =
        (extent("K")?, extent("N")?, extent("block_size").filter(|block| *block > 0)?);
    (u64::try_from(data.int("bits", 4)).ok()? == bits && data.inputs.get(3).copied().flatten().is_none())
        .then_some(())?;
    let blocks = inner.div_ceil(block);
    let unsigned = |index: usize| match bits {
        8 => code.get(index).map(|byte| i32::from(*byte) - 128),
        4 => code.get(index / 2).map(|byte| i32::from(byte >> (index % 2 * 4) & 15) - 8),
        _ => None,
    };
    let mut numbers = Vec::with_capacity(code.len());
    for column in 0..columns {
        for row in 0..inner {
            let at = column.checked_mul(blocks)?.checked_add(row / block)?;
            numbers.push(unsigned(at.checked_mul(block)?.checked_add(row % block)?)? as f32 * scale.get(at)?);
        }
    }
    Some(Matrix { inner, columns, form: (bits, Some(block as u64)), transposed: None, numbers })
}

/// Sums over weights and their decoded numbers.
#[derive(Clone, Copy, Default)]
struct Sums {
    errors: f64,
    squares: f64,
    largest: f64,
}

impl Sums {
    fn with(self, other: Self) -> Self {
        Self {
            errors: self.errors + other.errors,
            squares: self.squares + other.squares,
            largest: self.largest.max(other.largest),
        }
    }

    fn relative(self) -> f64 {
        if self.squares > 0.0 { (self.errors / self.squares).sqrt() } else { 0.0 }
    }
}

/// Returns the errors of decoded rows and columns; `None` if the input model does not hold the matrix
/// itself.
fn errors(given: &Side<'_>, row: &EncodedWeight, matrix: &Matrix) -> Result<Option<Sums>, String> {
    let constant = given.named.get(&row.of).and_then(|value| given.module.constant_of(*value));
    let Some(constant) = constant.map(|id| given.module.constant(id)) else { return Ok(None) };
    let Payload::Raw(bytes) = &constant.payload else { return Ok(None) };
    let found = compared(constant, bytes, row, matrix);
    found.map(Some).ok_or_else(|| format!("holds other rows and columns than those of `{}`", row.of))
}

/// Compares decoded rows and columns with their matrix. `None` if they do not lie in it.
fn compared(constant: &ConstData, bytes: &Bytes, row: &EncodedWeight, matrix: &Matrix) -> Option<Sums> {
    let dims = constant.ty.known_dims().filter(|_| constant.ty.element == ElementType::Float)?;
    let [rows, columns] = [row.rows[1], row.columns[1]];
    let (first_row, first_column) =
        (usize::try_from(row.rows[0]).ok()?, usize::try_from(row.columns[0]).ok()?);
    let numbers = bytes.as_chunks().0;
    // Extents of the matrix: rows, then columns; or the other way round.
    let ways = [([0, 1], false), ([1, 0], true)].into_iter().filter(|([row, column], transposed)| {
        let fits = dims.len() == 2 && dims[*row] >= rows && dims[*column] >= columns;
        fits && matrix.transposed.is_none_or(|known| known == *transposed)
    });
    let compared = |transposed: bool| {
        let stride = usize::try_from(dims[1]).unwrap_or(0);
        let mut sums = Sums::default();
        for (at, found) in matrix.numbers.iter().enumerate() {
            let (column, row) =
                (first_column + at / matrix.inner.max(1), first_row + at % matrix.inner.max(1));
            let at = if transposed { column * stride + row } else { row * stride + column };
            let number = numbers.get(at).map_or(f64::NAN, |raw| f64::from(f32::from_le_bytes(*raw)));
            let error = number - f64::from(*found);
            sums = sums.with(Sums { errors: error * error, squares: number * number, largest: error.abs() });
        }
        sums
    };
    // A square matrix may be stored in either way: the smaller error tells which.
    ways.map(|(_, transposed)| compared(transposed)).min_by(|a, b| a.errors.total_cmp(&b.errors))
}
