//! Sizes that the user assumes for values whose sizes are known only at run time.

use std::str::FromStr;

use memc_ir::{Dim, TensorType, ValueType};

/// The assumed size of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assumption {
    /// Number of elements; determines the only open extent of the value's type.
    Elements(u64),
    /// All extents.
    Shape(Vec<u64>),
}

/// The text is not an assumption (an error of the request).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither a number of elements nor a shape; write 100 or 2x50")]
pub struct AssumptionError {
    /// The rejected text.
    pub text: String,
}

impl FromStr for Assumption {
    type Err = AssumptionError;

    fn from_str(text: &str) -> Result<Self, AssumptionError> {
        let extents: Result<Vec<u64>, _> = text.trim().split('x').map(str::parse).collect();
        match extents.as_deref() {
            Ok([count]) => Ok(Self::Elements(*count)),
            Ok(extents) => Ok(Self::Shape(extents.to_vec())),
            Err(_) => Err(AssumptionError { text: text.to_owned() }),
        }
    }
}

impl std::fmt::Display for Assumption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Elements(count) => write!(f, "{count}"),
            Self::Shape(extents) => {
                f.write_str(&extents.iter().map(u64::to_string).collect::<Vec<_>>().join("x"))
            }
        }
    }
}

impl Assumption {
    /// Returns the type that a value of type `ty` has under this assumption.
    ///
    /// # Errors
    /// Returns the reason if a value of type `ty` cannot have the assumed size.
    pub fn of(&self, ty: &ValueType) -> Result<TensorType, String> {
        let Some(tensor) = ty.tensor().filter(|tensor| tensor.element.bits().is_some()) else {
            return Err(format!("unknown size of an element of {ty}"));
        };
        let dims = match self {
            Self::Shape(extents) => extents.clone(),
            Self::Elements(count) => extents(tensor, *count)?,
        };
        let fits = |(dim, extent): (&Dim, &u64)| match dim {
            Dim::Known(known) => known == extent,
            Dim::AtMost(most) => extent <= most,
            Dim::Symbolic(_) | Dim::Within(_) | Dim::Unknown => true,
        };
        let stated = tensor.shape.as_ref();
        if stated.is_some_and(|stated| stated.len() != dims.len() || !stated.iter().zip(&dims).all(fits)) {
            return Err(format!("it is {tensor}"));
        }
        let assumed = TensorType::fixed(tensor.element, &dims);
        if assumed.size().is_none() {
            Err("a tensor of this size is impossible".to_owned())
        } else {
            Ok(assumed)
        }
    }
}

/// Solves for the only open extent of a tensor with `count` elements and returns all extents.
fn extents(tensor: &TensorType, count: u64) -> Result<Vec<u64>, String> {
    let Some(stated) = &tensor.shape else { return Ok(vec![count]) };
    let known =
        stated.iter().filter_map(Dim::known).try_fold(1u64, |product, extent| product.checked_mul(extent));
    let open = stated.iter().filter(|dim| dim.known().is_none()).count();
    let rest = match (known, open) {
        (Some(known), 0) if known == count => 0,
        (_, 0) => return Err(format!("it is {tensor}")),
        (Some(known), 1) if count.checked_rem(known) == Some(0) => count / known.max(1),
        (_, 1) => return Err(format!("{count} elements are not a whole number of rows of {tensor}")),
        _ => return Err(format!("{open} extents of {tensor} are unknown: write a shape, for example 2x50")),
    };
    Ok(stated.iter().map(|dim| dim.known().unwrap_or(rest)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::families::testing::ty;

    #[test]
    fn assumptions_are_elements_or_shapes() {
        let of = |text: &str, assumed: &str| {
            let assumption: Assumption = assumed.parse().unwrap();
            assert_eq!(assumption.to_string(), assumed);
            assumption.of(&ty(text)).map_or_else(|why| why, |tensor| tensor.to_string())
        };
        assert_eq!(of("f32[?]", "100"), "f32[100]");
        assert_eq!(of("i64[2,?<=12]", "24"), "i64[2,12]");
        assert_eq!(of("i64[2,?<=12]", "2x7"), "i64[2,7]");
        assert_eq!(of("f32[*]", "3x4"), "f32[3,4]");
        assert_eq!(of("f32[*]", "12"), "f32[12]");
        assert_eq!(of("f32[3,4]", "12"), "f32[3,4]");
        assert_eq!(
            of("f32[?,N]", "12"),
            "2 extents of f32[?,N] are unknown: write a shape, for example 2x50"
        );
        assert_eq!(of("i64[2,?]", "7"), "7 elements are not a whole number of rows of i64[2,?]");
        assert_eq!(of("i64[2,?<=12]", "26"), "it is i64[2,?<=12]");
        assert_eq!(of("i64[2,?]", "3x4"), "it is i64[2,?]");
        assert_eq!(of("i64[2,?]", "8x1x1"), "it is i64[2,?]");
        assert_eq!(of("f32[3,4]", "13"), "it is f32[3,4]");
        assert_eq!(of("seq<f32[?]>", "13"), "unknown size of an element of seq<f32[?]>");
        assert_eq!(of("f32[?]", "4611686018427387904"), "a tensor of this size is impossible");
        for wrong in ["", "x", "2x", "-1", "2X3", "a"] {
            assert!(wrong.parse::<Assumption>().is_err(), "{wrong}");
        }
    }
}
