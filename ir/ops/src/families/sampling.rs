//! Sampling on grids, and cropping around the center.

use memc_ir::Dim;

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at, require_rank};
use crate::families::resize::{chosen_axes, sampling_flops};
use crate::info::{OpInfo, Work};

/// Infers GridSample. Operands: data `[N, C, …]`, grid `[N, …, r]`. The result has the grid's spatial
/// extents.
fn grid_sample(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(rank) = ctx.rank(0).or(ctx.rank(1)) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    if rank < 3 {
        return Err(InferError::BadOperand { operand: 0, why: format!("rank {rank} is below 3") });
    }
    require_rank(ctx, 0, rank)?;
    require_rank(ctx, 1, rank)?;
    let batch = agree("batches of data and grid", &dim_at(ctx, 0, 0), &dim_at(ctx, 1, 0))?;
    agree("spatial axes and coordinates", &Dim::Known(rank as u64 - 2), &dim_at(ctx, 1, rank - 1))?;
    let mut dims = vec![batch, dim_at(ctx, 0, 1)];
    dims.extend((1..rank - 1).map(|axis| dim_at(ctx, 1, axis)));
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers AffineGrid. Operands: matrices `[N, r, r + 1]`, size `[N, C, …]`. Result: `[N, …, r]`.
fn affine_grid(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 3)?;
    let element = ctx.element(0);
    let spatial = match ctx.dim_data(1) {
        Some(size) if size.len() == 4 || size.len() == 5 => Some(size.get(2..).unwrap_or_default().to_vec()),
        Some(size) => {
            return Err(InferError::BadOperand {
                operand: 1,
                why: format!("{} entries, not 4 or 5", size.len()),
            });
        }
        None => match dim_at(ctx, 0, 1) {
            Dim::Known(axes @ 2..=3) => Some(vec![Dim::Unknown; axes as usize]),
            _ => None,
        },
    };
    let Some(spatial) = spatial else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let batch = ctx.dim_data(1).and_then(|size| size.first().cloned()).unwrap_or(Dim::Unknown);
    let coordinates = Dim::Known(spatial.len() as u64);
    agree("spatial axes and matrices", &coordinates, &dim_at(ctx, 0, 1))?;
    let mut dims = vec![agree("batch of size and matrices", &batch, &dim_at(ctx, 0, 0))?];
    dims.extend(spatial);
    dims.push(coordinates);
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers CenterCropPad. Operands: data, extents of the window along `axes`.
fn center_crop_pad(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let sizes = ctx.dim_data(1);
    // Without `axes` the window has an extent for every axis, and determines the shape alone.
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, sizes.filter(|_| ctx.ints("axes").is_none()));
        return Ok(());
    };
    let axes = chosen_axes(ctx, dims.len())?;
    match sizes {
        Some(sizes) if sizes.len() != axes.len() => {
            let why = format!("{} entries for {} axes", sizes.len(), axes.len());
            return Err(InferError::BadOperand { operand: 1, why });
        }
        Some(sizes) => axes.iter().zip(sizes).for_each(|(axis, size)| dims[*axis] = size),
        None => axes.iter().for_each(|axis| dims[*axis] = Dim::Unknown),
    }
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("AffineGrid", affine_grid).work(Work::PerElement(8)),
    OpInfo::onnx("CenterCropPad", center_crop_pad).work(Work::None),
    OpInfo::onnx("GridSample", grid_sample).work(Work::Flops(sampling_flops)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn grids() {
        assert_eq!(
            Case::new("GridSample", 20).input("f32[N,3,H,W]").input("f32[N,6,7,2]").show(),
            "f32[N,3,6,7]"
        );
        assert_eq!(
            Case::new("GridSample", 20).input("f32[*]").input("f32[N,5,6,7,3]").show(),
            "f32[N,?,5,6,7]"
        );
        assert!(
            Case::new("GridSample", 20)
                .input("f32[N,3,H,W]")
                .input("f32[N,6,7,3]")
                .show()
                .starts_with("error: spatial")
        );
        assert_eq!(
            Case::new("AffineGrid", 20).input("f32[N,2,3]").ints_data(&[4, 3, 5, 6]).show(),
            "f32[4,5,6,2]"
        );
        assert_eq!(Case::new("AffineGrid", 20).input("f32[N,3,4]").input("i64[?]").show(), "f32[N,?,?,?,3]");
    }

    #[test]
    fn crops() {
        let crop = |data: &str| Case::new("CenterCropPad", 18).input(data).ints_data(&[10, 9]);
        assert_eq!(crop("f32[20,8,3]").ints("axes", &[1, -1]).show(), "f32[20,10,9]");
        assert_eq!(crop("f32[*]").show(), "f32[10,9]");
        assert!(crop("f32[20,8,3]").show().starts_with("error: operand 1"));
    }
}
