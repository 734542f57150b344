//! Sliding windows: the number of positions of a kernel with stride, dilation and padding along each
//! spatial axis.

use memc_ir::{Dim, DimExpr, NodeData};

use crate::context::{Infer, InferError};
use crate::families::dims::{affine, ceil_div, floor_quotient};

/// The padding mode of attribute `auto_pad`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Padding {
    /// By attribute `pads`.
    Explicit,
    /// Padding for `ceil(input / stride)` result positions.
    Same,
    /// No padding.
    Valid,
}

impl Padding {
    /// Returns the padding mode that a node states.
    pub(crate) fn of(node: &NodeData) -> Self {
        match node.string("auto_pad") {
            Some("SAME_UPPER" | "SAME_LOWER") => Self::Same,
            Some("VALID") => Self::Valid,
            _ => Self::Explicit,
        }
    }
}

/// Fit of the number of positions, beyond the first, that fit into the padded input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// Down: kernels that refuse a window beyond the padded input.
    Down,
    /// Toward zero: kernels that give one position to a window beyond the padded input by less than a
    /// stride.
    TowardZero,
    /// Up: the end of the padded input may cut the last window.
    Up,
}

/// Attributes of a sliding window; every list has one entry per spatial axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    padding: Padding,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    begins: Vec<i64>,
    ends: Vec<i64>,
}

/// Returns a list attribute with `count` entries of at least `least`; `None` if it is absent.
///
/// # Errors
/// Returns [`InferError::BadAttribute`] if it has another length or a smaller entry.
pub(crate) fn entries(
    ctx: &Infer<'_>,
    name: &'static str,
    count: usize,
    least: i64,
) -> Result<Option<Vec<i64>>, InferError> {
    let Some(values) = ctx.ints(name).filter(|values| !values.is_empty()) else { return Ok(None) };
    if values.len() != count {
        return Err(InferError::BadAttribute {
            name,
            why: format!("{} entries, but {count} are needed", values.len()),
        });
    }
    match values.iter().find(|value| **value < least) {
        Some(bad) => Err(InferError::BadAttribute { name, why: format!("{bad} is below {least}") }),
        None => Ok(Some(values.to_vec())),
    }
}

impl Window {
    /// Reads `strides`, `dilations`, `pads` and `auto_pad` for `spatial` axes.
    ///
    /// # Errors
    /// Returns [`InferError::BadAttribute`] for an invalid list.
    pub(crate) fn read(ctx: &Infer<'_>, spatial: usize) -> Result<Self, InferError> {
        let padding = Padding::of(ctx.node());
        let ones = || vec![1; spatial];
        let strides = entries(ctx, "strides", spatial, 1)?.unwrap_or_else(ones);
        let dilations = entries(ctx, "dilations", spatial, 1)?.unwrap_or_else(ones);
        // With auto_pad the runtimes ignore pads.
        let pads = match padding {
            Padding::Explicit => entries(ctx, "pads", spatial.saturating_mul(2), i64::MIN)?,
            _ => None,
        };
        let mut begins = pads.unwrap_or_else(|| vec![0; spatial * 2]);
        let ends = begins.split_off(spatial);
        Ok(Self { padding, strides, dilations, begins, ends })
    }

    /// Returns the extent of a kernel with its dilation; `None` for an empty or absurdly large kernel.
    fn effective(&self, axis: usize, kernel: u64) -> Option<i128> {
        let gaps = i128::from(kernel.checked_sub(1)?).checked_mul(i128::from(self.dilations[axis]))?;
        gaps.checked_add(1).filter(|extent| *extent < 1 << 100)
    }

    /// Returns the number of positions along `axis`, which must be below the number of spatial axes.
    /// Rounded up, the end of the padded input may cut the last window, but a window that starts in the
    /// padding after the input is dropped. This is the text of operator set 22, which the runtimes
    /// follow for older versions too.
    ///
    /// A window that exceeds the padded input by less than a stride has one position, because ONNX's own
    /// inference and the kernels of pooling round towards zero. The kernels of convolutions refuse to
    /// run it.
    ///
    /// # Errors
    /// Returns [`InferError::Mismatch`] if the kernel is larger than the padded input by several
    /// strides.
    pub(crate) fn positions(
        &self,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
        fit: Fit,
    ) -> Result<Dim, InferError> {
        let stride = self.strides[axis];
        let ceil = fit == Fit::Up;
        if self.padding == Padding::Same {
            return Ok(ceil_div(input, stride));
        }
        let Some(effective) = kernel.known().and_then(|extent| self.effective(axis, extent)) else {
            return Ok(Dim::Unknown);
        };
        let (begin, end) = (i128::from(self.begins[axis]), i128::from(self.ends[axis]));
        let slack = begin + end - effective;
        let mismatch = || InferError::Mismatch {
            what: "window and padded input",
            left: effective.to_string(),
            right: input.to_string(),
        };
        if let Some(room) = input.upper().map(|extent| i128::from(extent) + slack).filter(|room| *room < 0) {
            let count = u64::try_from(room / i128::from(stride) + 1);
            return match input {
                Dim::Known(_) => count.map(Dim::Known).map_err(|_| mismatch()),
                _ => Ok(Dim::AtMost(count.unwrap_or(0))),
            };
        }
        if let Dim::Symbolic(extent) = input {
            let count = self.symbolic_positions(axis, extent, effective, fit);
            return Ok(count.map_or(Dim::Unknown, Dim::from_expr));
        }
        let round = if ceil { i128::from(stride) - 1 } else { 0 };
        let mut plus = 1;
        if let (true, Dim::Known(extent)) = (ceil, input) {
            // The distance of the last window's start from the end of the input: multiples of the stride
            // cancel out, so only the distance to the next multiple depends on the input.
            let distance = (-(i128::from(*extent) + slack)).rem_euclid(i128::from(stride));
            if distance + end - effective >= 0 {
                plus = 0;
            }
        }
        floor_quotient(input, slack + round, stride, plus).ok_or_else(mismatch)
    }

    /// Returns the number of positions along `axis` for a symbolic extent.
    fn symbolic_positions(
        &self,
        axis: usize,
        extent: &DimExpr,
        effective: i128,
        fit: Fit,
    ) -> Option<DimExpr> {
        let constant = |value: i128| i64::try_from(value).ok().map(DimExpr::constant);
        let (begin, end) = (i128::from(self.begins[axis]), i128::from(self.ends[axis]));
        let (stride, one) = (DimExpr::constant(self.strides[axis]), DimExpr::constant(1));
        let room = extent.add(&constant(begin + end - effective)?)?;
        match fit {
            Fit::Down => room.floor_div(&stride)?.add(&one),
            Fit::TowardZero => room.trunc_div(&stride)?.add(&one),
            Fit::Up => {
                let count = room.ceil_div(&stride)?;
                if end >= effective {
                    return Some(count);
                }
                // A window that starts in the padding after the input does not count.
                let starts = extent.add(&constant(begin)?)?.ceil_div(&stride)?;
                DimExpr::min_of(vec![count.add(&one)?, starts])
            }
        }
    }

    /// Returns the extent of the result of a transposed convolution along `axis`.
    ///
    /// # Errors
    /// Returns [`InferError::Mismatch`] if the padding exceeds the extent.
    pub(crate) fn transposed(
        &self,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
        extra: i64,
    ) -> Result<Dim, InferError> {
        let stride = self.strides[axis];
        let Some(effective) = kernel.known().and_then(|extent| self.effective(axis, extent)) else {
            return Ok(Dim::Unknown);
        };
        let grown = i128::from(extra) + effective - i128::from(stride);
        let offset = match self.padding {
            // The padding makes the result input * stride; it is never negative.
            Padding::Same => grown.min(0),
            _ => grown - i128::from(self.begins[axis]) - i128::from(self.ends[axis]),
        };
        affine(input, stride, offset).ok_or_else(|| InferError::Mismatch {
            what: "padding and result of the transposed convolution",
            left: offset.to_string(),
            right: input.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::Dim;

    use crate::families::testing::Case;

    fn pool(input: &str) -> Case {
        Case::new("MaxPool", 22)
            .input(input)
            .ints("kernel_shape", &[2])
            .ints("strides", &[2])
            .ints("pads", &[1, 1])
    }

    #[test]
    fn a_window_may_be_cut_by_the_end_but_not_start_behind_it() {
        assert_eq!(pool("f32[1,1,5]").show(), "f32[1,1,3]");
        // Fit up gives 4, but the fourth window would start in the padding.
        assert_eq!(pool("f32[1,1,5]").int("ceil_mode", 1).show(), "f32[1,1,3]");
        let wide =
            Case::new("MaxPool", 10).input("f32[1,1,6]").ints("kernel_shape", &[3]).ints("strides", &[2]);
        assert_eq!(wide.int("ceil_mode", 1).show(), "f32[1,1,3]");
    }

    #[test]
    fn symbols_stay_if_the_stride_divides_their_extent() {
        assert_eq!(pool("f32[1,1,2*N]").show(), "f32[1,1,N+1]");
        assert_eq!(pool("f32[1,1,2*N+1]").int("ceil_mode", 1).show(), "f32[1,1,N+1]");
        assert_eq!(pool("f32[1,1,N]").show(), "f32[1,1,floor(N/2)+1]");
        for ceil in [0, 1] {
            for extent in 4..30 {
                let name = if extent % 2 == 0 { "2*N" } else { "2*N+1" };
                let symbolic = pool(&format!("f32[1,1,{name}]")).int("ceil_mode", ceil).run().unwrap();
                let bound = symbolic[0].ty.bind(&[("N".to_owned(), extent / 2)].into());
                let known = pool(&format!("f32[1,1,{extent}]")).int("ceil_mode", ceil).run().unwrap();
                assert_eq!(bound, known[0].ty, "extent {extent}, ceil_mode {ceil}");
            }
        }
    }

    #[test]
    fn symbolic_positions_hold_for_every_extent() {
        for (kernel, stride, begin, end, ceil) in
            [(2, 2, 0, 0, 0), (3, 2, 1, 1, 0), (3, 2, 1, 1, 1), (2, 3, 0, 1, 1), (3, 3, 0, 0, 1)]
        {
            let pool = |extent: &str| {
                let case = Case::new("MaxPool", 22)
                    .input(&format!("f32[1,1,{extent}]"))
                    .ints("kernel_shape", &[kernel]);
                case.ints("strides", &[stride]).ints("pads", &[begin, end]).int("ceil_mode", ceil).run()
            };
            let symbolic = pool("N").unwrap();
            for extent in 1..20u64 {
                let Ok(known) = pool(&extent.to_string()) else { continue };
                let bound = symbolic[0].ty.bind(&[("N".to_owned(), extent)].into());
                assert_eq!(
                    bound, known[0].ty,
                    "{} for {extent}, window {kernel}, stride {stride}",
                    symbolic[0].ty
                );
            }
        }
    }

    #[test]
    fn automatic_padding() {
        let conv = |padding, input| {
            Case::new("Conv", 11).input(input).input("f32[4,3,3]").string("auto_pad", padding)
        };
        assert_eq!(conv("SAME_UPPER", "f32[1,3,7]").ints("strides", &[2]).show(), "f32[1,4,4]");
        assert_eq!(conv("SAME_LOWER", "f32[1,3,N]").show(), "f32[1,4,N]");
        assert_eq!(conv("VALID", "f32[1,3,7]").ints("pads", &[9, 9]).show(), "f32[1,4,5]");
    }

    #[test]
    fn windows_beyond_the_input_round_towards_zero() {
        // Extent, window, stride and positions, as given by ONNX Runtime's pooling kernels and ONNX's
        // inference.
        let rows = [(1, 2, 2, 1), (1, 3, 3, 1), (1, 4, 2, 0), (1, 4, 3, 0), (1, 3, 2, 0), (2, 3, 1, 0)];
        for (extent, window, stride, count) in rows {
            for name in ["MaxPool", "AveragePool", "LpPool"] {
                let case = || {
                    Case::new(name, 22).input(&format!("f32[1,1,{extent}]")).ints("kernel_shape", &[window])
                };
                let case = |ceil| case().ints("strides", &[stride]).int("ceil_mode", ceil).show();
                assert_eq!(
                    [case(0), case(1)],
                    [format!("f32[1,1,{count}]"), format!("f32[1,1,{count}]")],
                    "{name} {extent} {window}"
                );
            }
            let conv = Case::new("Conv", 11)
                .input(&format!("f32[1,3,{extent}]"))
                .input(&format!("f32[4,3,{window}]"));
            assert_eq!(
                conv.ints("strides", &[stride]).show(),
                format!("f32[1,4,{count}]"),
                "{extent} {window}"
            );
        }
        let far =
            Case::new("MaxPool", 22).input("f32[1,1,1]").ints("kernel_shape", &[5]).ints("strides", &[2]);
        assert!(far.show().starts_with("error: window and padded input"));
        let padded =
            Case::new("AveragePool", 22).input("f32[1,1,1]").ints("kernel_shape", &[4]).ints("pads", &[1, 0]);
        assert_eq!(padded.ints("strides", &[4]).show(), "f32[1,1,1]");
    }

    #[test]
    fn bounds_pass_through_windows() {
        assert_eq!(pool("f32[1,1,?<=5]").show(), "f32[1,1,?<=3]");
        assert_eq!(pool("f32[1,1,?<=5]").int("ceil_mode", 1).show(), "f32[1,1,?<=4]");
        let wide = |input: &str| {
            Case::new("MaxPool", 22).input(input).ints("kernel_shape", &[3]).ints("strides", &[3]).show()
        };
        assert_eq!([wide("f32[1,1,?<=1]"), wide("f32[1,1,?]")], ["f32[1,1,?<=1]", "f32[1,1,?]"]);
    }

    #[test]
    fn hostile_attributes_are_refused_or_unknown() {
        let conv = || Case::new("Conv", 11).input("f32[1,3,7]").input("f32[4,3,3]");
        assert!(conv().ints("strides", &[0]).show().starts_with("error: attribute `strides`"));
        assert!(conv().ints("pads", &[1]).show().starts_with("error: attribute `pads`"));
        assert_eq!(
            Case::new("MaxPool", 12).input("f32[1,1,2]").ints("kernel_shape", &[3]).show(),
            "f32[1,1,0]"
        );
        assert!(conv().ints("dilations", &[1 << 62]).show().starts_with("error: window"));
        assert_eq!(conv().ints("pads", &[1 << 62, 1 << 62]).show(), format!("f32[1,4,{}]", (1u64 << 63) + 5));
        let conv = Case::new("Conv", 11).input("f32[1,3,7]").input("f32[4,3,18446744073709551615]");
        assert!(!conv.ints("dilations", &[i64::MAX]).show().contains(&Dim::Known(0).to_string()));
    }
}
