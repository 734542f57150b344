//! Operators that draw random numbers. A node with a fixed seed counts as random too: the state of its
//! generator persists across runs.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::families::dims::{dim_at, element_attribute, require_rank};
use crate::info::{OpInfo, Reads, Repeat, Work};

/// Infers operators whose shape and element type are attributes.
fn filled(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = element_attribute(ctx, "dtype")?.unwrap_or(ElementType::Float);
    let shape = ctx.ints("shape").ok_or(InferError::MissingAttribute { name: "shape" })?;
    let extent = |extent: &i64| {
        u64::try_from(*extent)
            .map(Dim::Known)
            .map_err(|_| InferError::BadAttribute { name: "shape", why: format!("{extent} is negative") })
    };
    let dims: Vec<Dim> = shape.iter().map(extent).collect::<Result<_, _>>()?;
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers operators with the shape of their operand, and with its element type unless an attribute
/// states another.
fn like(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = element_attribute(ctx, "dtype")?.unwrap_or(ctx.element(0));
    ctx.set_tensor(0, element, ctx.shape(0));
    Ok(())
}

fn multinomial(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 2)?;
    let samples = ctx.int("sample_size", 1);
    let samples = u64::try_from(samples).map_err(|_| InferError::BadAttribute {
        name: "sample_size",
        why: format!("{samples} is negative"),
    })?;
    let element = element_attribute(ctx, "dtype")?.unwrap_or(ElementType::Int32);
    ctx.set_dims(0, element, vec![dim_at(ctx, 0, 0), Dim::Known(samples)]);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Bernoulli", like).work(Work::PerElement(10)).repeat(Repeat::Random),
    OpInfo::onnx("Multinomial", multinomial).work(Work::PerInputElement(30)).repeat(Repeat::Random),
    OpInfo::onnx("RandomNormal", filled).work(Work::PerElement(40)).repeat(Repeat::Random),
    OpInfo::onnx("RandomNormalLike", like)
        .work(Work::PerElement(40))
        .reads(Reads::Extents)
        .repeat(Repeat::Random),
    OpInfo::onnx("RandomUniform", filled).work(Work::PerElement(10)).repeat(Repeat::Random),
    OpInfo::onnx("RandomUniformLike", like)
        .work(Work::PerElement(10))
        .reads(Reads::Extents)
        .repeat(Repeat::Random),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::families::testing::Case;
    use crate::table::find;

    #[test]
    fn shapes_and_types_come_from_attributes_or_the_operand() {
        assert_eq!(Case::new("RandomNormal", 1).ints("shape", &[2, 3]).show(), "f32[2,3]");
        assert_eq!(Case::new("RandomUniformLike", 1).input("f16[N,2]").show(), "f16[N,2]");
        assert_eq!(Case::new("Bernoulli", 15).input("f32[N]").int("dtype", 9).show(), "bool[N]");
        assert_eq!(Case::new("Multinomial", 7).input("f32[N,9]").int("sample_size", 4).show(), "i32[N,4]");
        assert!(
            Case::new("RandomNormal", 1).ints("shape", &[-2]).show().starts_with("error: attribute `shape`")
        );
    }

    #[test]
    fn random_operators_never_run_twice() {
        for name in [
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ] {
            assert_eq!(find("", name).unwrap().repeat, Repeat::Random);
        }
    }
}
