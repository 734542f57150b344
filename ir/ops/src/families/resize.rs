//! Resampling by scales or to sizes: Resize and Upsample.

use memc_ir::{Attribute, Dim};

use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::dims::floor_div;
use crate::info::{OpInfo, SplitAxes, Typed, Work};
use crate::pieces::{reach, rules};

/// Returns the axes in attribute `axes`, or all axes.
pub(crate) fn chosen_axes(ctx: &Infer<'_>, rank: usize) -> Result<Vec<usize>, InferError> {
    match ctx.ints("axes").filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|axis| ctx.axis("axes", *axis, rank)).collect(),
        None => Ok((0..rank).collect()),
    }
}

/// Returns `floor(extent * scale)` in binary32, as the standard's own inference and the runtimes compute
/// it.
fn scaled(extent: &Dim, scale: f64) -> Dim {
    let scale = scale as f32;
    match extent {
        _ if scale == 1.0 => extent.clone(),
        Dim::Known(extent) => {
            let product = (*extent as f32 * scale).floor();
            // Tensors beyond 2^62 are never placed; the guard also covers NaN and negative scales.
            if (0.0..4.6e18).contains(&product) { Dim::Known(product as u64) } else { Dim::Unknown }
        }
        Dim::AtMost(most) => Dim::at_most(scaled(&Dim::Known(*most), f64::from(scale)).known()),
        Dim::Symbolic(_) | Dim::Within(_) => match dyadic(scale) {
            Some((factor, by)) => floor_div(&extent.mul(&Dim::Known(factor)), by),
            None => Dim::Unknown,
        },
        Dim::Unknown => Dim::Unknown,
    }
}

/// Returns a scale as a small factor and a power of two by which to divide; `None` for other scales.
/// Products with such a scale are exact in binary32 for all extents below 2^24 divided by the factor;
/// larger extents are not those of images.
fn dyadic(scale: f32) -> Option<(u64, i64)> {
    (0..=16).map(|power| 1i64 << power).find_map(|by| {
        let factor = scale * by as f32;
        (factor.fract() == 0.0 && (1.0..=4096.0).contains(&factor)).then_some((factor as u64, by))
    })
}

/// Returns the elements of a scale operand; `None` if the operand is not followed.
fn scales(ctx: &Infer<'_>, operand: usize) -> Option<Vec<Option<f64>>> {
    let scale = |item: &Item| match item {
        Item::Float(scale) => Some(*scale),
        _ => None,
    };
    Some(ctx.data(operand)?.items.iter().map(scale).collect())
}

/// Whether scales or sizes are present; an empty tensor counts as omitted.
fn given(ctx: &Infer<'_>, operand: usize) -> bool {
    ctx.has(operand) && ctx.dims(operand).is_none_or(|dims| dims != [Dim::Known(0)])
}

fn count_check(operand: usize, found: usize, axes: usize) -> Result<(), InferError> {
    if found == axes {
        return Ok(());
    }
    Err(InferError::BadOperand { operand, why: format!("{found} entries for {axes} axes") })
}

fn apply_scales(ctx: &Infer<'_>, dims: &mut [Dim], axes: &[usize], operand: usize) -> Result<(), InferError> {
    // Cropping also scales by the region of interest, and runtimes round differently.
    let crops = ctx.string("coordinate_transformation_mode") == Some("tf_crop_and_resize");
    match scales(ctx, operand).filter(|_| !crops) {
        Some(factors) => {
            count_check(operand, factors.len(), axes.len())?;
            for (axis, factor) in axes.iter().zip(factors) {
                dims[*axis] = factor.map_or(Dim::Unknown, |factor| scaled(&dims[*axis], factor));
            }
        }
        None => axes.iter().for_each(|axis| dims[*axis] = Dim::Unknown),
    }
    Ok(())
}

/// Applies the sizes directly, or derives one scale for all axes: the smallest (`not_larger`) or the
/// largest (`not_smaller`) of their ratios.
fn apply_sizes(ctx: &Infer<'_>, dims: &mut [Dim], axes: &[usize], operand: usize) -> Result<(), InferError> {
    let Some(sizes) = ctx.dim_data(operand) else {
        axes.iter().for_each(|axis| dims[*axis] = Dim::Unknown);
        return Ok(());
    };
    count_check(operand, sizes.len(), axes.len())?;
    let larger = match ctx.string("keep_aspect_ratio_policy") {
        Some("not_larger") => false,
        Some("not_smaller") => true,
        _ => {
            axes.iter().zip(sizes).for_each(|(axis, size)| dims[*axis] = size);
            return Ok(());
        }
    };
    let ratio = |(axis, size): (&usize, &Dim)| Some(size.known()? as f32 / dims[*axis].known()? as f32);
    let ratios: Option<Vec<f32>> = axes.iter().zip(&sizes).map(ratio).collect();
    let scale = ratios.and_then(|ratios| ratios.into_iter().reduce(if larger { f32::max } else { f32::min }));
    for axis in axes {
        let extent = dims[*axis].known().zip(scale).map(|(extent, scale)| (scale * extent as f32).round());
        dims[*axis] = match extent {
            Some(extent) if (0.0..4.6e18).contains(&extent) => Dim::Known(extent as u64),
            _ => Dim::Unknown,
        };
    }
    Ok(())
}

/// Infers Resize. Operands at version 10: data, scales. Later: data, region, scales, sizes.
fn resize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let (scale_operand, size_operand) = if ctx.version() < 11 { (1, usize::MAX) } else { (2, 3) };
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let axes = chosen_axes(ctx, dims.len())?;
    if given(ctx, size_operand) {
        apply_sizes(ctx, &mut dims, &axes, size_operand)?;
    } else {
        apply_scales(ctx, &mut dims, &axes, scale_operand)?;
    }
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers Upsample. Scales are an attribute before version 9, and operand 1 from then on.
fn upsample(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let axes: Vec<usize> = (0..dims.len()).collect();
    match ctx.node().attribute("scales") {
        Some(Attribute::Floats(factors)) => {
            count_check(0, factors.len(), dims.len())?;
            for (extent, factor) in dims.iter_mut().zip(factors) {
                *extent = scaled(extent, f64::from(*factor));
            }
        }
        _ if ctx.has(1) => apply_scales(ctx, &mut dims, &axes, 1)?,
        _ => return Err(InferError::MissingAttribute { name: "scales" }),
    }
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Counts operations per result element: one for the nearest neighbor, two for each neighbor of a linear
/// or cubic filter.
pub(crate) fn sampling_flops(node: &Typed<'_>) -> Option<u64> {
    let neighbors: u32 = match node.data().string("mode") {
        Some("linear" | "bilinear") => 2,
        Some("cubic" | "bicubic") => 4,
        _ => return node.output_elements(),
    };
    let axes = u32::try_from(node.input(0)?.rank()?.saturating_sub(2)).ok()?;
    let touched = u64::from(neighbors).checked_pow(axes)?;
    node.output_elements()?.checked_mul(touched)?.checked_mul(2)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Resize", resize)
        .work(Work::Flops(sampling_flops))
        .split(SplitAxes::Rule(rules::resized))
        .reaches(reach::grows),
    OpInfo::onnx("Upsample", upsample).work(Work::Flops(sampling_flops)).reaches(reach::grows),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::Case;

    fn by_scales(data: &str, scales: &str) -> Case {
        Case::new("Resize", 13).input(data).input("").data("f32[4]", scales)
    }
    fn by_sizes(data: &str, sizes: &[i64]) -> Case {
        Case::new("Resize", 19).input(data).input("").input("").ints_data(sizes)
    }

    #[test]
    fn scales_round_down() {
        assert_eq!(by_scales("f32[N,3,5,5]", "1.0,1.0,2.0,0.5").show(), "f32[N,3,10,2]");
        assert_eq!(by_scales("f32[N,3,H,2*W+1]", "1.0,1.0,2.0,0.5").show(), "f32[N,3,2*H,W]");
        assert_eq!(by_scales("f32[N,3,H,W]", "1.0,1.0,1.5,?").show(), "f32[N,3,floor(H/2)+H,?]");
        assert_eq!(by_scales("f32[N,3,5,5]", "1.0,1.0,nan,-1.0").show(), "f32[N,3,?,?]");
        assert!(by_scales("f32[N,3,5]", "1.0,1.0,2.0,2.0").show().starts_with("error: operand 2"));
        // 0.6 in binary32 is slightly above six tenths: the product is rounded to 3 before it is
        // truncated.
        assert_eq!(by_scales("f32[1,1,5,5]", "1.0,1.0,0.6,0.6").show(), "f32[1,1,3,3]");
        let crops = by_scales("f32[1,1,5,5]", "1.0,1.0,2.0,2.0")
            .string("coordinate_transformation_mode", "tf_crop_and_resize");
        assert_eq!(crops.show(), "f32[?,?,?,?]");
    }

    #[test]
    fn sizes_stand_or_keep_the_aspect_ratio() {
        assert_eq!(by_sizes("f32[N,3,2,4]", &[7, 8]).ints("axes", &[-2, 3]).show(), "f32[N,3,7,8]");
        let keep = |policy| {
            by_sizes("f32[1,1,2,4]", &[7, 8])
                .ints("axes", &[2, 3])
                .string("keep_aspect_ratio_policy", policy)
                .show()
        };
        assert_eq!(keep("not_larger"), "f32[1,1,4,8]");
        assert_eq!(keep("not_smaller"), "f32[1,1,7,14]");
        let empty = Case::new("Resize", 11)
            .input("f32[1,1,2,2]")
            .data("f32[0]", "")
            .data("f32[0]", "")
            .ints_data(&[1, 1, 3, 3]);
        assert_eq!(empty.show(), "f32[1,1,3,3]");
    }

    #[test]
    fn upsample_and_resize_10() {
        assert_eq!(
            Case::new("Resize", 10).input("f32[1,1,2,2]").data("f32[4]", "1.0,1.0,3.0,3.0").show(),
            "f32[1,1,6,6]"
        );
        let scales = Attribute::Floats(vec![1.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            Case::new("Upsample", 7).input("f32[1,1,2,2]").attribute("scales", scales).show(),
            "f32[1,1,4,6]"
        );
        assert_eq!(Case::new("Upsample", 9).input("f32[1,1,2,2]").input("f32[4]").show(), "f32[?,?,?,?]");
        assert_eq!(
            Case::new("Upsample", 9).input("f32[1,1,2,2]").show(),
            "error: attribute `scales` is missing"
        );
    }
}
