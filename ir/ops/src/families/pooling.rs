//! Pooling: windows, whole images, regions of interest, and unpooling.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at, product, require_rank};
use crate::families::window::{Fit, Window, entries};
use crate::indices;
use crate::info::{OpInfo, Scalar, SplitAxes, Typed, Work};
use crate::pieces::{reach, rules};

/// Returns the extents of the kernel, one per spatial axis of the data. If the rank of the data is
/// unknown, the kernel determines the number of axes.
fn pool_kernel(ctx: &Infer<'_>) -> Result<Vec<Dim>, InferError> {
    ctx.required(0)?;
    let missing = InferError::MissingAttribute { name: "kernel_shape" };
    let stated = ctx.ints("kernel_shape").ok_or(missing.clone())?.len();
    let spatial = match ctx.rank(0) {
        Some(rank) => rank.checked_sub(2),
        None => Some(stated),
    };
    let spatial =
        spatial.ok_or_else(|| InferError::BadOperand { operand: 0, why: "rank below 2".to_owned() })?;
    match entries(ctx, "kernel_shape", spatial, 1)? {
        Some(kernel) => Ok(kernel.iter().map(|extent| Dim::Known(extent.unsigned_abs())).collect()),
        None if spatial == 0 => Ok(Vec::new()),
        None => Err(missing),
    }
}

/// Infers pooling. Result 1, the indices of MaxPool, has the shape of result 0.
fn pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let kernel = pool_kernel(ctx)?;
    let window = Window::read(ctx, kernel.len())?;
    let fit = if ctx.int("ceil_mode", 0) != 0 { Fit::Up } else { Fit::TowardZero };
    let mut dims = vec![dim_at(ctx, 0, 0), dim_at(ctx, 0, 1)];
    for (axis, extent) in kernel.iter().enumerate() {
        dims.push(window.positions(axis, &dim_at(ctx, 0, axis + 2), extent, fit)?);
    }
    ctx.set_dims(1, ElementType::Int64, dims.clone());
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

fn global_pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0).map(|dims| {
        dims.into_iter()
            .enumerate()
            .map(|(axis, extent)| if axis < 2 { extent } else { Dim::Known(1) })
            .collect()
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Infers MaxUnpool. Operands: data, indices, and optionally the whole shape of the result.
fn max_unpool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let kernel = pool_kernel(ctx)?;
    let dims = if ctx.has(2) {
        ctx.dim_data(2).unwrap_or_else(|| vec![Dim::Unknown; kernel.len() + 2])
    } else {
        let window = Window::read(ctx, kernel.len())?;
        let mut dims = vec![dim_at(ctx, 0, 0), dim_at(ctx, 0, 1)];
        for (axis, extent) in kernel.iter().enumerate() {
            dims.push(window.transposed(axis, &dim_at(ctx, 0, axis + 2), extent, 0)?);
        }
        dims
    };
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

fn extent(name: &'static str, value: i64) -> Result<Dim, InferError> {
    u64::try_from(value)
        .map(Dim::Known)
        .map_err(|_| InferError::BadAttribute { name, why: format!("{value} is negative") })
}

/// Infers MaxRoiPool. Operands: data `[N, C, H, W]`, regions `[R, 5]`.
fn max_roi_pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 4)?;
    require_rank(ctx, 1, 2)?;
    let Some([height, width]) = ctx.ints("pooled_shape") else {
        return Err(InferError::MissingAttribute { name: "pooled_shape" });
    };
    let dims = vec![
        dim_at(ctx, 1, 0),
        dim_at(ctx, 0, 1),
        extent("pooled_shape", *height)?,
        extent("pooled_shape", *width)?,
    ];
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

/// Infers RoiAlign. Operands: data `[N, C, H, W]`, regions `[R, 4]`, image of each region `[R]`.
fn roi_align(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 4)?;
    require_rank(ctx, 1, 2)?;
    require_rank(ctx, 2, 1)?;
    let regions = agree("regions and their images", &dim_at(ctx, 1, 0), &dim_at(ctx, 2, 0))?;
    let height = extent("output_height", ctx.int("output_height", 1))?;
    let width = extent("output_width", ctx.int("output_width", 1))?;
    ctx.set_dims(0, ctx.element(0), vec![regions, dim_at(ctx, 0, 1), height, width]);
    Ok(())
}

/// Counts one operation for each element of each window.
fn window_flops(node: &Typed<'_>) -> Option<u64> {
    let kernel: Option<Vec<u64>> =
        node.data().ints("kernel_shape")?.iter().map(|extent| u64::try_from(*extent).ok()).collect();
    node.output_elements()?.checked_mul(product(&kernel?)?)
}

/// Counts the steps of MaxPool: one per window element. If the positions of the maxima are requested,
/// the kernel is not vectorized and takes about ten steps per element.
fn max_steps(node: &Typed<'_>) -> Option<u64> {
    if node.output(1).is_some() { window_flops(node)?.checked_mul(10) } else { window_flops(node) }
}

/// Counts four neighbors with four operations each at every sampling point; an adaptive grid counts as 2
/// by 2.
fn roi_align_flops(node: &Typed<'_>) -> Option<u64> {
    let ratio = u64::try_from(node.data().int("sampling_ratio", 0)).ok()?;
    let ratio = if ratio == 0 { 2 } else { ratio };
    node.output_elements()?.checked_mul(ratio.checked_mul(ratio)?.checked_mul(16)?)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("AveragePool", pool)
        .work(Work::Flops(window_flops))
        .split(SplitAxes::Rule(rules::pooled))
        .reaches(reach::slides),
    OpInfo::onnx("GlobalAveragePool", global_pool)
        .work(Work::PerInputElement(1))
        .split(SplitAxes::Rule(rules::pooled)),
    OpInfo::onnx("GlobalLpPool", global_pool)
        .work(Work::PerInputElement(2))
        .split(SplitAxes::Rule(rules::pooled)),
    OpInfo::onnx("GlobalMaxPool", global_pool)
        .work(Work::PerInputElement(1))
        .split(SplitAxes::Rule(rules::pooled)),
    OpInfo::onnx("LpPool", pool)
        .work(Work::Flops(window_flops))
        .split(SplitAxes::Rule(rules::pooled))
        .reaches(reach::slides),
    OpInfo::onnx("MaxPool", pool)
        .work(Work::Flops(window_flops))
        .scalar(Scalar::Count(max_steps))
        .split(SplitAxes::Rule(rules::pooled))
        .reaches(reach::slides)
        .optional(&[1])
        .indices(indices::pooled),
    OpInfo::onnx("MaxRoiPool", max_roi_pool).work(Work::PerElement(4)),
    OpInfo::onnx("MaxUnpool", max_unpool).work(Work::None).split(SplitAxes::Rule(rules::unpooled)),
    OpInfo::onnx("RoiAlign", roi_align).work(Work::Flops(roi_align_flops)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn shapes() {
        let pool = |name| {
            Case::new(name, 19).input("f32[N,C,7,9]").ints("kernel_shape", &[3, 3]).ints("dilations", &[2, 1])
        };
        assert_eq!(pool("MaxPool").outputs(2).show_all(), "f32[N,C,3,7]; i64[N,C,3,7]");
        assert_eq!(pool("AveragePool").ints("pads", &[1, 0, 1, 0]).show(), "f32[N,C,5,7]");
        assert_eq!(
            pool("LpPool").string("auto_pad", "SAME_UPPER").ints("strides", &[2, 4]).show(),
            "f32[N,C,4,3]"
        );
        assert_eq!(Case::new("MaxPool", 12).input("u8[*]").ints("kernel_shape", &[2]).show(), "u8[?,?,?]");
        assert_eq!(
            Case::new("MaxPool", 12).input("f32[1,1,4,4]").show(),
            "error: attribute `kernel_shape` is missing"
        );
        assert!(
            Case::new("MaxPool", 12)
                .input("f32[1,1,4,4]")
                .ints("kernel_shape", &[2])
                .show()
                .starts_with("error")
        );
        assert!(
            Case::new("MaxPool", 12).input("f32[1]").ints("kernel_shape", &[]).show().starts_with("error")
        );
        assert_eq!(Case::new("GlobalMaxPool", 1).input("f32[N,C,?,9]").show(), "f32[N,C,1,1]");
    }

    #[test]
    fn unpooling_restores_extents() {
        let unpool = || {
            Case::new("MaxUnpool", 11)
                .input("f32[1,1,2,2]")
                .input("i64[1,1,2,2]")
                .ints("kernel_shape", &[2, 2])
                .ints("strides", &[2, 2])
        };
        assert_eq!(unpool().show(), "f32[1,1,4,4]");
        assert_eq!(unpool().ints_data(&[1, 1, 5, 5]).show(), "f32[1,1,5,5]");
        assert_eq!(unpool().input("i64[4]").show(), "f32[?,?,?,?]");
    }

    #[test]
    fn regions() {
        let align = Case::new("RoiAlign", 16).input("f32[N,256,H,W]").input("f32[R,4]").input("i64[R]");
        assert_eq!(align.int("output_height", 7).int("output_width", 5).show(), "f32[R,256,7,5]");
        let pool =
            Case::new("MaxRoiPool", 1).input("f32[1,3,H,W]").input("f32[9,5]").ints("pooled_shape", &[2, 3]);
        assert_eq!(pool.show(), "f32[9,3,2,3]");
    }

    #[test]
    fn arithmetic() {
        let pool = Case::new("AveragePool", 11)
            .input("f32[1,2,6,6]")
            .ints("kernel_shape", &[3, 3])
            .ints("strides", &[3, 3]);
        assert_eq!(pool.costs().0, Some(2 * 4 * 9));
    }
}
