//! Convolutions: plain, transposed, quantized and deformable, and Col2Im.

use memc_ir::{Dim, ElementType, Shape};

use crate::context::{Infer, InferError};
use crate::families::conv_workspace;
use crate::families::dims::{agree, dim_at, product, require_rank};
use crate::families::window::{Fit, Window, entries};
use crate::info::{OpInfo, SplitAxes, Typed, Work};
use crate::pieces::{reach, rules};

/// Returns the common rank of data, weights and `kernel_shape`, which must agree and be at least 2.
fn common_rank(ctx: &Infer<'_>, data: usize, weights: usize) -> Result<Option<usize>, InferError> {
    let (left, right) = (ctx.rank(data), ctx.rank(weights));
    if let (Some(left), Some(right)) = (left, right)
        && left != right
    {
        return Err(InferError::Mismatch {
            what: "ranks of data and weights",
            left: left.to_string(),
            right: right.to_string(),
        });
    }
    let rank = left.or(right).or_else(|| ctx.ints("kernel_shape").map(|kernel| kernel.len() + 2));
    match rank {
        Some(found) if found < 2 => {
            Err(InferError::BadOperand { operand: data, why: format!("rank {found} is below 2") })
        }
        other => Ok(other),
    }
}

/// Returns the extents of the kernel, from the weights if known, otherwise from attribute
/// `kernel_shape`.
fn kernel(ctx: &Infer<'_>, weights: usize, spatial: usize) -> Result<Vec<Dim>, InferError> {
    let stated = entries(ctx, "kernel_shape", spatial, 1)?;
    (0..spatial)
        .map(|axis| {
            let extent = dim_at(ctx, weights, axis + 2);
            match &stated {
                Some(stated) => {
                    agree("kernel_shape and weights", &Dim::Known(stated[axis].unsigned_abs()), &extent)
                }
                None => Ok(extent),
            }
        })
        .collect()
}

fn group(ctx: &Infer<'_>) -> Result<u64, InferError> {
    let group = ctx.int("group", 1);
    u64::try_from(group)
        .ok()
        .filter(|group| *group > 0)
        .ok_or_else(|| InferError::BadAttribute { name: "group", why: format!("{group} is below 1") })
}

/// Returns the shape of a convolution of operand `data` with operand `weights`.
fn conv_shape(ctx: &Infer<'_>, data: usize, weights: usize) -> Result<Shape, InferError> {
    ctx.required(data)?;
    ctx.required(weights)?;
    let Some(rank) = common_rank(ctx, data, weights)? else { return Ok(None) };
    let spatial = rank - 2;
    let window = Window::read(ctx, spatial)?;
    let kernel = kernel(ctx, weights, spatial)?;
    let channels = dim_at(ctx, weights, 1).mul(&Dim::Known(group(ctx)?));
    agree("channels of data and weights", &dim_at(ctx, data, 1), &channels)?;
    let mut dims = vec![dim_at(ctx, data, 0), dim_at(ctx, weights, 0)];
    for (axis, extent) in kernel.iter().enumerate() {
        dims.push(window.positions(axis, &dim_at(ctx, data, axis + 2), extent, Fit::Down)?);
    }
    Ok(Some(dims))
}

fn conv(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = conv_shape(ctx, 0, 1)?;
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn conv_integer(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = conv_shape(ctx, 0, 1)?;
    ctx.set_tensor(0, ElementType::Int32, shape);
    Ok(())
}

/// Infers QLinearConv. Operands: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale,
/// y_zero_point, B.
fn qlinear_conv(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = conv_shape(ctx, 0, 3)?;
    ctx.set_tensor(0, ctx.element(7), shape);
    Ok(())
}

fn conv_transpose(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(rank) = common_rank(ctx, 0, 1)? else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let spatial = rank - 2;
    let window = Window::read(ctx, spatial)?;
    let kernel = kernel(ctx, 1, spatial)?;
    let extra = entries(ctx, "output_padding", spatial, 0)?.unwrap_or_else(|| vec![0; spatial]);
    agree("channels of data and weights", &dim_at(ctx, 0, 1), &dim_at(ctx, 1, 0))?;
    let mut dims = vec![dim_at(ctx, 0, 0), dim_at(ctx, 1, 1).mul(&Dim::Known(group(ctx)?))];
    if let Some(stated) = ctx.ints("output_shape").filter(|stated| !stated.is_empty()) {
        // Some exporters state batch and channels as well; only the spatial tail counts.
        let tail = stated.len().checked_sub(spatial).and_then(|start| stated.get(start..));
        let why = || format!("{} entries for {spatial} spatial axes", stated.len());
        let tail = tail.ok_or_else(|| InferError::BadAttribute { name: "output_shape", why: why() })?;
        dims.extend(tail.iter().map(|extent| u64::try_from(*extent).map_or(Dim::Unknown, Dim::Known)));
    } else {
        for (axis, extent) in kernel.iter().enumerate() {
            dims.push(window.transposed(axis, &dim_at(ctx, 0, axis + 2), extent, extra[axis])?);
        }
    }
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers Col2Im. Operands: columns `[N, C * product(block), L]`, image shape, block shape.
fn col2im(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 3)?;
    let element = ctx.element(0);
    let Some(image) = ctx.dim_data(1) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let block = ctx
        .dim_data(2)
        .map_or(Dim::Unknown, |block| block.iter().fold(Dim::Known(1), |all, extent| all.mul(extent)));
    let columns = dim_at(ctx, 0, 1);
    if let (Dim::Known(columns), Dim::Known(block)) = (&columns, &block)
        && columns.checked_rem(*block) != Some(0)
    {
        let why = format!("{columns} columns do not hold whole blocks of {block}");
        return Err(InferError::BadOperand { operand: 0, why });
    }
    let mut dims = vec![dim_at(ctx, 0, 0), columns.div(&block)];
    dims.extend(image);
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers a causal convolution. Operands: data `[N, C, L]`, weights `[C, 1, k]`, bias, past state
/// `[N, C, k - 1]`.
fn causal_conv(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 3)?;
    require_rank(ctx, 1, 3)?;
    let element = ctx.element(0);
    let [batch, channels, length] = [0, 1, 2].map(|axis| dim_at(ctx, 0, axis));
    let channels = agree("channels of data and weights", &channels, &dim_at(ctx, 1, 0))?;
    let state = agree("kernel and past state", &dim_at(ctx, 1, 2).sub(&Dim::Known(1)), &dim_at(ctx, 3, 2))?;
    ctx.set_dims(0, element, vec![batch.clone(), channels.clone(), length]);
    ctx.set_dims(1, element, vec![batch, channels, state]);
    Ok(())
}

/// Counts two operations for each weight that contributes to each result element.
fn conv_flops(node: &Typed<'_>, weights: usize) -> Option<u64> {
    let weights = node.input_dims(weights)?;
    let per_element = product(weights.get(1..)?)?;
    node.output_elements()?.checked_mul(per_element)?.checked_mul(2)
}

/// Counts the elements that the kernel copies into the columns of a matrix: the window of every
/// position, channel by channel. For windows of one element, the operand already has this layout and is
/// only packed, which counts half.
pub(crate) fn window_elements(node: &Typed<'_>, weights: usize) -> Option<u64> {
    let data = node.data();
    let weights = node.input_dims(weights)?;
    let positions = node.output_elements()?.checked_div(*weights.first()?)?;
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    let elements = positions.checked_mul(groups)?.checked_mul(product(weights.get(1..)?)?)?;
    let all =
        |name: &str, value: i64| data.ints(name).is_none_or(|values| values.iter().all(|own| *own == value));
    let is_point = weights.get(2..)?.iter().all(|extent| *extent == 1) && all("strides", 1) && all("pads", 0);
    Some(if is_point { elements / 2 } else { elements })
}

fn transposed_flops(node: &Typed<'_>) -> Option<u64> {
    let weights = node.input_dims(1)?;
    node.input(0)?.elements()?.checked_mul(product(weights.get(1..)?)?)?.checked_mul(2)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("CausalConvWithState", causal_conv)
        .work(Work::Flops(|node| conv_flops(node, 1)))
        .split(SplitAxes::None),
    OpInfo::onnx("Col2Im", col2im).work(Work::PerInputElement(1)).split(SplitAxes::Batch),
    OpInfo::onnx("Conv", conv)
        .work(Work::Flops(|node| conv_flops(node, 1)))
        .gathers(|node| window_elements(node, 1))
        .workspace(conv_workspace::conv)
        .split(SplitAxes::Rule(rules::convolution))
        .reaches(reach::slides),
    OpInfo::onnx("ConvInteger", conv_integer)
        .work(Work::Flops(|node| conv_flops(node, 1)))
        .split(SplitAxes::Batch)
        .reaches(reach::slides),
    OpInfo::onnx("ConvTranspose", conv_transpose)
        .work(Work::Flops(transposed_flops))
        .workspace(conv_workspace::transposed)
        .split(SplitAxes::Rule(rules::transposed_convolution))
        .reaches(reach::spreads),
    OpInfo::onnx("DeformConv", conv).work(Work::Flops(|node| conv_flops(node, 1))),
    OpInfo::onnx("QLinearConv", qlinear_conv)
        .rounds()
        .work(Work::Flops(|node| conv_flops(node, 3)))
        .split(SplitAxes::Batch)
        .reaches(reach::slides),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;
    use memc_ir::Bytes;

    #[test]
    fn shapes() {
        let conv = |x: &str, w: &str| Case::new("Conv", 22).input(x).input(w);
        assert_eq!(
            conv("f32[N,3,224,224]", "f32[64,3,7,7]")
                .ints("strides", &[2, 2])
                .ints("pads", &[3, 3, 3, 3])
                .show(),
            "f32[N,64,112,112]"
        );
        assert_eq!(
            conv("f32[1,4,9,9]", "f32[8,2,3,3]").int("group", 2).ints("dilations", &[2, 2]).show(),
            "f32[1,8,5,5]"
        );
        assert_eq!(conv("f32[*]", "f32[8,2,3,3]").show(), "f32[?,8,?,?]");
        assert_eq!(conv("f32[1,3,H,W]", "f32[*]").ints("kernel_shape", &[3, 3]).show(), "f32[1,?,H-2,W-2]");
        assert_eq!(conv("f32[*]", "f32[*]").show(), "f32[*]");
        assert!(conv("f32[1,4,9,9]", "f32[8,3,3,3]").show().starts_with("error: channels"));
        assert!(conv("f32[1,4,9,9]", "f32[8,4,3]").show().starts_with("error: ranks"));
        assert!(conv("f32[1,4,2]", "f32[8,4,4]").show().starts_with("error: window"));
    }

    #[test]
    fn quantized_kinds_take_their_types_from_the_right_operands() {
        let scale = "f32[]";
        let qlinear =
            Case::new("QLinearConv", 10).input("u8[1,1,7,7]").input(scale).input("u8[]").input("i8[1,1,1,1]");
        assert_eq!(qlinear.input(scale).input("i8[]").input(scale).input("i8[]").show(), "i8[1,1,7,7]");
        assert_eq!(
            Case::new("ConvInteger", 10).input("u8[1,1,3,3]").input("u8[1,1,2,2]").show(),
            "i32[1,1,2,2]"
        );
    }

    #[test]
    fn transposed_convolutions() {
        let conv =
            |x: &str| Case::new("ConvTranspose", 11).input(x).input("f32[1,2,3,3]").ints("strides", &[3, 2]);
        assert_eq!(conv("f32[1,1,3,3]").show(), "f32[1,2,9,7]");
        assert_eq!(conv("f32[1,1,3,3]").ints("output_padding", &[1, 1]).show(), "f32[1,2,10,8]");
        assert_eq!(conv("f32[1,1,3,3]").string("auto_pad", "SAME_UPPER").show(), "f32[1,2,9,6]");
        assert_eq!(conv("f32[1,1,3,3]").ints("output_shape", &[10, 8]).show(), "f32[1,2,10,8]");
        assert_eq!(conv("f32[1,1,H,W]").ints("pads", &[1, 1, 1, 1]).show(), "f32[1,2,3*H-2,2*W-1]");
    }

    #[test]
    fn columns_and_states() {
        let col2im =
            |columns: &str| Case::new("Col2Im", 18).input(columns).ints_data(&[5, 6]).ints_data(&[1, 5]);
        assert_eq!(col2im("f32[1,10,6]").show(), "f32[1,2,5,6]");
        assert!(col2im("f32[1,11,6]").show().starts_with("error: operand 0"));
        let causal = Case::new("CausalConvWithState", 27).input("f32[B,8,L]").input("f32[8,1,4]").outputs(2);
        assert_eq!(causal.show_all(), "f32[B,8,L]; f32[B,8,3]");
    }

    #[test]
    fn arithmetic_and_workspace_follow_the_kernel() {
        let conv = |x: &str, w: &str| Case::new("Conv", 11).input(x).input(w);
        // 65536 bytes: one thread's segment, as measured on vgg19.
        let padded = conv("f32[1,3,224,224]", "f32[64,3,3,3]").ints("pads", &[1, 1, 1, 1]);
        assert_eq!(padded.costs(), (Some(64 * 224 * 224 * 27 * 2), Some(Bytes(65536))));
        assert_eq!(conv("f32[1,64,8,8]", "f32[16,64,1,1]").costs().1, Some(Bytes(0)));
        // Images and groups share one thread's segment, as counted with ONNX Runtime 1.31.1 (1.23 to
        // 1.26 took all columns).
        for (x, w, groups) in [
            ("f32[32,16,32,32]", "f32[16,16,3,3]", 1),
            ("f32[1,16,32,32]", "f32[16,8,3,3]", 2),
            ("f32[2,4,512]", "f32[8,4,9]", 1),
            ("f32[2,4,8,8,8]", "f32[8,4,3,3,3]", 1),
            ("f32[1,16,32,32]", "f32[32,1,7,7]", 16),
        ] {
            assert_eq!(conv(x, w).int("group", groups).costs().1, Some(Bytes(65536)), "{x} {w}");
        }
        assert_eq!(
            conv("f32[2,4,8,8,8,8]", "f32[8,4,3,3,3,3]").costs().1,
            Some(Bytes(4 * 81 * 4 * 1296)),
            "four axes: all columns"
        );
        // More filters than positions: all columns at once.
        assert_eq!(conv("f32[1,4,4,4]", "f32[64,4,3,3]").costs().1, Some(Bytes(4 * 36 * 4)));
        assert_eq!(conv("f64[1,4,4,4]", "f64[1,4,3,3]").costs().1, Some(Bytes(4 * 36 * 8)));
        assert_eq!(
            conv("f16[1,4,4,4]", "f16[64,4,3,3]").costs().1,
            Some(Bytes(4 * 36 * 4)),
            "computed in full precision"
        );
        assert_eq!(conv("f32[N,4,4,4]", "f32[64,4,3,3]").costs(), (None, None));
        let transposed = Case::new("ConvTranspose", 11).input("f32[1,4,5,5]").input("f32[4,2,3,3]");
        assert_eq!(transposed.costs(), (Some(100 * 18 * 2), Some(Bytes(18 * 25 * 4))));
    }
}
