//! Places of new rows in a buffer if extents are free: integers that depend on their own place in the tensor
//! and on the number of valid rows.

use memc_ir::{DimExpr, ElementType, NodeData, Value};

use crate::side::Side;

/// Maximum number of nodes between the number of valid rows and the places of new rows.
const MAX_DEPTH: u32 = 24;

/// An integer for each place of a tensor: a sum of the place's coordinates times their factors, of the number
/// of valid rows times a factor, and of a rest.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Affine {
    /// Extents of the tensor.
    dims: Vec<DimExpr>,
    /// Factor of each coordinate; 0 on axes of extent 1.
    factors: Vec<i64>,
    /// Factor of the number of valid rows.
    slope: i64,
    rest: DimExpr,
}

/// Whether a value has the places of new rows of extents `added` after the valid ones: with an axis, the
/// indices of ScatterND up to this axis; without one, a first row for each item of the batch.
pub(crate) fn are_after(
    side: &Side<'_>,
    places: Value,
    count: Value,
    added: &[DimExpr],
    axis: Option<usize>,
) -> bool {
    let reader = Reader { side, count };
    let (zero, one) = (DimExpr::constant(0), DimExpr::constant(1));
    let Some(axis) = axis else {
        let expected = Affine { dims: added[..1].to_vec(), factors: vec![0], slope: 1, rest: zero };
        return reader.affine(places, MAX_DEPTH) == Some(expected);
    };
    let expected = (0..=axis).map(|own| {
        let dims: Vec<DimExpr> = added[..=axis].iter().chain([&one]).cloned().collect();
        let mut factors = vec![0; dims.len()];
        factors[own] = i64::from(dims[own] != one);
        Affine { dims, factors, slope: i64::from(own == axis), rest: zero.clone() }
    });
    reader.columns(places, axis + 1) == Some(expected.collect())
}

/// The output model and the number of valid rows in it.
struct Reader<'a, 'f> {
    side: &'a Side<'f>,
    count: Value,
}

impl Reader<'_, '_> {
    /// Returns the parts of a tensor along its last axis, of extent 1 each.
    fn columns(&self, value: Value, count: usize) -> Option<Vec<Affine>> {
        if count == 1 {
            return Some(vec![self.affine(value, MAX_DEPTH)?]);
        }
        let node = self.side.module.node(self.side.rows[self.side.producer[value]?].node);
        let rank = self.dims(value)?.len();
        let is_joined = is_onnx(node, "Concat")
            && memc_ops::normalize_axis(node.int("axis", 0), rank) == rank.checked_sub(1);
        let parts: Option<Vec<Affine>> =
            node.inputs.iter().map(|part| self.affine((*part)?, MAX_DEPTH)).collect();
        parts.filter(|parts| is_joined && parts.len() == count)
    }

    fn dims(&self, value: Value) -> Option<Vec<DimExpr>> {
        self.side.known[value].as_ref()?.dim_exprs()
    }

    /// Returns the elements of a value; `None` if they are not of this form.
    fn affine(&self, value: Value, depth: u32) -> Option<Affine> {
        let side = self.side;
        let dims = self.dims(value)?;
        let zero = DimExpr::constant(0);
        if value == self.count {
            return Some(Affine { dims, factors: Vec::new(), slope: 1, rest: zero });
        }
        if let Some(items) = side.integers(value).or_else(|| constant(side, value)) {
            return fitted(dims, &items);
        }
        if let Some([only]) = side.elements(value).map(|data| data.items.as_slice())
            && let Some(rest) = only.expr()
        {
            return Some(Affine { factors: vec![0; dims.len()], dims, slope: 0, rest });
        }
        let node = side.module.node(side.rows[side.producer[value]?].node);
        let own = |position: usize| self.affine((*node.inputs.get(position)?)?, depth.checked_sub(1)?);
        match &*node.operator.name {
            _ if !node.operator.domain.is_empty() => None,
            "Range" => {
                let (start, step) = (own(0)?, own(2)?);
                let step = Some(&step.rest).filter(|_| step.slope == 0)?.as_constant()?;
                let factor = if dims.first() == Some(&DimExpr::constant(1)) { 0 } else { step };
                Some(Affine { dims, factors: vec![factor], slope: start.slope, rest: start.rest })
            }
            "Add" => {
                let (left, right) = (own(0)?.broadcast(&dims)?, own(1)?.broadcast(&dims)?);
                let pairs = left.factors.iter().zip(&right.factors);
                let factors = pairs.map(|(left, right)| left.checked_add(*right)).collect::<Option<_>>()?;
                Some(Affine {
                    dims,
                    factors,
                    slope: left.slope.checked_add(right.slope)?,
                    rest: left.rest.add(&right.rest)?,
                })
            }
            "Expand" => own(0)?.broadcast(&dims),
            "Identity" => own(0),
            "Reshape" | "Unsqueeze" | "Squeeze" => own(0)?.reshaped(dims),
            _ => None,
        }
    }
}

impl Affine {
    /// Repeats the elements to larger extents, as ONNX broadcasts.
    fn broadcast(&self, dims: &[DimExpr]) -> Option<Self> {
        let missing = dims.len().checked_sub(self.dims.len())?;
        let one = DimExpr::constant(1);
        let fits = self.dims.iter().zip(&dims[missing..]).all(|(own, whole)| own == whole || *own == one);
        let factors = std::iter::repeat_n(0, missing).chain(self.factors.iter().copied()).collect();
        fits.then_some(Self { dims: dims.to_vec(), factors, slope: self.slope, rest: self.rest.clone() })
    }

    /// Adds and removes axes of extent 1.
    fn reshaped(&self, dims: Vec<DimExpr>) -> Option<Self> {
        let one = DimExpr::constant(1);
        let mut own = self.dims.iter().zip(&self.factors).filter(|(extent, _)| **extent != one);
        let mut factors = Vec::new();
        for extent in &dims {
            factors.push(match *extent == one {
                true => 0,
                false => *own.next().filter(|(own, _)| *own == extent)?.1,
            });
        }
        own.next().is_none().then(|| Self { dims, factors, slope: self.slope, rest: self.rest.clone() })
    }
}

/// Returns constant integers as a sum over coordinates; `None` if they are none.
fn fitted(dims: Vec<DimExpr>, items: &[i64]) -> Option<Affine> {
    let known: Vec<usize> =
        dims.iter().map(|extent| usize::try_from(extent.as_constant()?).ok()).collect::<Option<_>>()?;
    let rest = items.first().copied().unwrap_or(0);
    let mut factors = vec![0i64; known.len()];
    let mut stride = 1usize;
    for (factor, extent) in factors.iter_mut().zip(&known).rev() {
        if *extent > 1 {
            *factor = items.get(stride)?.checked_sub(rest)?;
        }
        stride = stride.checked_mul(*extent)?;
    }
    if stride != items.len() {
        return None;
    }
    for (at, item) in items.iter().enumerate() {
        let (mut left, mut sum) = (at, rest);
        for (factor, extent) in factors.iter().zip(&known).rev() {
            sum = sum.checked_add(factor.checked_mul(i64::try_from(left.checked_rem(*extent)?).ok()?)?)?;
            left = left.checked_div(*extent)?;
        }
        (sum == *item).then_some(())?;
    }
    Some(Affine { dims, factors, slope: 0, rest: DimExpr::constant(rest) })
}

/// Returns the integers of an initializer of any size.
pub(crate) fn constant(side: &Side<'_>, value: Value) -> Option<Vec<i64>> {
    let constant = side.module.constant(side.module.constant_of(value)?);
    let memc_ir::Payload::Raw(bytes) = &constant.payload else { return None };
    let items = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map(i64::from_le_bytes).ok());
    items.collect::<Option<Vec<i64>>>().filter(|_| constant.ty.element == ElementType::Int64)
}

/// Whether a node has an operator of ONNX's own domain.
pub(crate) fn is_onnx(node: &NodeData, name: &str) -> bool {
    node.operator.domain.is_empty() && &*node.operator.name == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(of: i64) -> DimExpr {
        DimExpr::constant(of)
    }

    #[test]
    fn constants_are_sums_over_coordinates_or_refused() {
        let found = fitted(vec![number(2), number(1), number(3)], &[5, 7, 9, 6, 8, 10]);
        assert_eq!(found.map(|found| (found.factors, found.rest)), Some((vec![1, 0, 2], number(5))));
        assert_eq!(fitted(vec![number(3)], &[0, 1, 3]), None);
        assert_eq!(fitted(vec![number(2), number(2)], &[0, 1, 2, 4]), None);
        assert_eq!(fitted(vec![number(3)], &[0, 1]), None);
        assert_eq!(fitted(vec![number(0)], &[]).map(|found| found.factors), Some(vec![0]));
        assert_eq!(fitted(Vec::new(), &[4]).map(|found| found.rest), Some(number(4)));
    }

    #[test]
    fn axes_of_one_move_and_others_stay() {
        let seq = DimExpr::symbol("seq");
        let row = Affine { dims: vec![seq.clone()], factors: vec![1], slope: 1, rest: number(0) };
        let column = row.reshaped(vec![number(1), seq.clone(), number(1)]);
        assert_eq!(column.as_ref().map(|column| column.factors.clone()), Some(vec![0, 1, 0]));
        assert_eq!(row.reshaped(vec![seq.clone(), seq.clone()]), None);
        assert_eq!(row.reshaped(vec![number(1)]), None);
        let wide = column.and_then(|column| column.broadcast(&[number(2), seq.clone(), number(1)]));
        assert_eq!(wide.map(|wide| wide.factors), Some(vec![0, 1, 0]));
        assert_eq!(row.broadcast(&[number(2)]), None);
    }
}
