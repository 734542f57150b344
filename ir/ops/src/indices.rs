//! Positions that results hold: the range of indices of each result, and the windows of MaxPool in which
//! the positions of its maxima lie.

use crate::context::normalize_axis;
use crate::families::dims::product;
use crate::info::Typed;

/// Tells the range of the integers in a result, by position of the result: they are at least 0 and less
/// than the extent. `None` for results without indices, and if the extent is unknown.
pub type IndexRule = fn(&Typed<'_>, usize) -> Option<u64>;

/// Returns the extent of the positions in result 1 of MaxPool: they count all elements of operand 0.
pub(crate) fn pooled(node: &Typed<'_>, result: usize) -> Option<u64> {
    (result == 1).then(|| product(&node.input_dims(0)?))?
}

/// Returns the extent of the searched axis for result 0 of ArgMax and ArgMin.
pub(crate) fn extremes(node: &Typed<'_>, result: usize) -> Option<u64> {
    (result == 0).then(|| axis_extent(node, 0))?
}

/// Returns the extent of the searched axis for result 1 of TopK.
pub(crate) fn sorted(node: &Typed<'_>, result: usize) -> Option<u64> {
    (result == 1).then(|| axis_extent(node, -1))?
}

/// Returns the largest extent of operand 0, for the coordinates in result 0 of NonZero.
pub(crate) fn coordinates(node: &Typed<'_>, result: usize) -> Option<u64> {
    (result == 0).then(|| Some(node.input_dims(0)?.into_iter().max().unwrap_or(1)))?
}

fn axis_extent(node: &Typed<'_>, default: i64) -> Option<u64> {
    let dims = node.input_dims(0)?;
    dims.get(normalize_axis(node.data().int("axis", default), dims.len())?).copied()
}

/// Windows of a MaxPool node with positions. A position counts the elements of operand 0 in row-major
/// order. It lies in the image and in the window of its element of the result, even if all elements of
/// the window are NaN or the least number: ONNX Runtime 1.31 then gives the first one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolWindows {
    /// Number of images: the product of the first two extents.
    pub images: u64,
    /// Number of elements of an image of operand 0.
    pub image: u64,
    /// The windows along each spatial axis.
    pub axes: Vec<PoolAxis>,
}

/// Windows along one spatial axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolAxis {
    /// Number of windows: extent of the result.
    pub windows: u64,
    /// Extent of operand 0.
    pub extent: u64,
    /// Number of elements of an image between neighbours along this axis.
    pub inner: u64,
    /// Distance between neighbouring windows.
    pub stride: u64,
    /// Padding before the first element.
    pub before: u64,
    /// Number of elements in a window.
    pub kernel: u64,
    /// Distance between neighbouring elements in a window.
    pub dilation: u64,
}

impl PoolAxis {
    /// Returns the first and the last coordinate that a window reads, both inclusive; `None` if it lies
    /// in the padding, or if a number is too large.
    pub fn coordinates(&self, window: u64) -> Option<(u64, u64)> {
        let number = |value: u64| i64::try_from(value).ok();
        let (dilation, extent) = (number(self.dilation)?, number(self.extent)?);
        let start = number(window)?.checked_mul(number(self.stride)?)?.checked_sub(number(self.before)?)?;
        let end = start.checked_add(number(self.kernel)?.checked_sub(1)?.checked_mul(dilation)?)?;
        // Elements in the padding are not read: the nearest multiple of the dilation is the first.
        let first = if start < 0 {
            start.checked_add(
                start.unsigned_abs().div_ceil(self.dilation).checked_mul(self.dilation)?.try_into().ok()?,
            )?
        } else {
            start
        };
        let last = if end < extent { end } else { end - (end - extent) / dilation * dilation - dilation };
        (first <= last && last < extent).then_some((first.try_into().ok()?, last.try_into().ok()?))
    }
}

/// Returns the windows of a MaxPool node, or `None` if they are not surely known: other operators, open
/// extents, positions in column-major order, or padding that runtimes compute in different ways.
pub fn pool_windows(node: &Typed<'_>) -> Option<PoolWindows> {
    let data = node.data();
    let is_pool = data.operator.domain.is_empty() && &*data.operator.name == "MaxPool";
    if !is_pool || data.int("storage_order", 0) != 0 {
        return None;
    }
    let (from, to) = (node.input_dims(0)?, node.output_dims(1)?);
    let spatial = from
        .len()
        .checked_sub(2)
        .filter(|spatial| *spatial > 0 && to.len() == from.len() && to[..2] == from[..2])?;
    let list = |name: &str, count: usize, default: u64, least: u64| -> Option<Vec<u64>> {
        let Some(stated) = data.ints(name).filter(|stated| !stated.is_empty()) else {
            return Some(vec![default; count]);
        };
        let all: Vec<u64> = stated.iter().map(|value| u64::try_from(*value).ok()).collect::<Option<_>>()?;
        (all.len() == count && all.iter().all(|value| *value >= least)).then_some(all)
    };
    let (kernel, strides) = (list("kernel_shape", spatial, 0, 1)?, list("strides", spatial, 1, 1)?);
    let (dilations, pads) = (list("dilations", spatial, 1, 1)?, list("pads", spatial * 2, 0, 0)?);
    let mut axes = Vec::with_capacity(spatial);
    for axis in 0..spatial {
        let extent = from[axis + 2];
        let before = match data.string("auto_pad") {
            None | Some("NOTSET") => pads[axis],
            Some("VALID") => 0,
            // Runtimes refuse dilation here, and differ if the windows leave elements out.
            Some(same @ ("SAME_UPPER" | "SAME_LOWER")) if dilations[axis] == 1 => {
                let covered = extent
                    .div_ceil(strides[axis])
                    .checked_sub(1)?
                    .checked_mul(strides[axis])?
                    .checked_add(kernel[axis])?;
                let padding = covered.checked_sub(extent)?;
                if same == "SAME_UPPER" { padding / 2 } else { padding.div_ceil(2) }
            }
            Some(_) => return None,
        };
        let inner = product(&from[axis + 3..])?;
        let (windows, stride, kernel, dilation) =
            (to[axis + 2], strides[axis], kernel[axis], dilations[axis]);
        axes.push(PoolAxis { windows, extent, inner, stride, before, kernel, dilation });
    }
    Some(PoolWindows { images: from[0].checked_mul(from[1])?, image: product(&from[2..])?, axes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::families::testing::Case;

    #[test]
    fn indices_are_below_an_extent() {
        let extent = |case: Case, result: usize| {
            case.typed(|node, info| info.indices.and_then(|rule| rule(node, result)))
        };
        let arg = |name: &str| Case::new(name, 13).input("f32[3,200,5]");
        assert_eq!(extent(arg("ArgMax"), 0), Some(3));
        assert_eq!(extent(arg("ArgMin").int("axis", -2), 0), Some(200));
        assert_eq!(extent(arg("ArgMin").int("axis", 3), 0), None);
        assert_eq!(extent(arg("ArgMax"), 1), None);
        assert_eq!(extent(Case::new("ArgMax", 13).input("f32[N,4]"), 0), None);
        let top = || Case::new("TopK", 11).input("f32[3,200,5]").ints_data(&[2]).outputs(2);
        assert_eq!(
            (extent(top(), 0), extent(top(), 1), extent(top().int("axis", 1), 1)),
            (None, Some(5), Some(200))
        );
        assert_eq!(extent(Case::new("NonZero", 13).input("f32[3,200,5]"), 0), Some(200));
        assert_eq!(extent(Case::new("NonZero", 13).input("f32[]"), 0), Some(1));
        let pool = || Case::new("MaxPool", 12).input("f32[2,3,4,5]").ints("kernel_shape", &[2, 2]).outputs(2);
        assert_eq!((extent(pool(), 0), extent(pool(), 1)), (None, Some(120)));
        assert_eq!(extent(arg("CumSum").ints_data(&[0]), 0), None);
    }

    /// Returns the coordinates of all windows of a pool over one axis, or `None` without windows.
    fn coordinates(case: Case) -> Option<Vec<Option<(u64, u64)>>> {
        let windows = case.outputs(2).typed(|node, _| pool_windows(node))?;
        let axis = windows.axes[0];
        Some((0..axis.windows).map(|window| axis.coordinates(window)).collect())
    }

    #[test]
    fn windows_read_elements_between_the_padding() {
        let pool = |extent: &str, kernel: i64| {
            Case::new("MaxPool", 12).input(&format!("f32[1,1,{extent}]")).ints("kernel_shape", &[kernel])
        };
        let all = |case: Case| coordinates(case).unwrap().into_iter().map(Option::unwrap).collect::<Vec<_>>();
        assert_eq!(all(pool("5", 2).ints("strides", &[2])), [(0, 1), (2, 3)]);
        assert_eq!(all(pool("5", 2).ints("strides", &[2]).int("ceil_mode", 1)), [(0, 1), (2, 3), (4, 4)]);
        assert_eq!(all(pool("4", 3).ints("pads", &[1, 1])), [(0, 1), (0, 2), (1, 3), (2, 3)]);
        // Elements at -1, 1, 3 and at 0, 2, 4.
        assert_eq!(all(pool("4", 3).ints("pads", &[1, 1]).ints("dilations", &[2])), [(1, 3), (0, 2)]);
        assert_eq!(
            all(pool("5", 2).ints("strides", &[2]).string("auto_pad", "SAME_UPPER")),
            [(0, 1), (2, 3), (4, 4)]
        );
        assert_eq!(
            all(pool("5", 2).ints("strides", &[2]).string("auto_pad", "SAME_LOWER")),
            [(0, 0), (1, 2), (3, 4)]
        );
        assert_eq!(all(pool("3", 2).ints("pads", &[1, 1]).string("auto_pad", "VALID")), [(0, 1), (1, 2)]);
        // Elements at -1 and 2 of an image of one element.
        let outside = pool("1", 2).ints("pads", &[1, 2]).ints("dilations", &[3]);
        assert_eq!(coordinates(outside), Some(vec![None]));
        assert_eq!(coordinates(pool("0", 1)), Some(vec![]));
    }

    #[test]
    fn windows_that_are_not_surely_known_are_refused() {
        let pool = || Case::new("MaxPool", 12).input("f32[2,3,8,8]").ints("kernel_shape", &[2, 2]);
        assert!(coordinates(pool()).is_some());
        for case in [
            pool().int("storage_order", 1),
            pool().string("auto_pad", "SAME_UPPER").ints("dilations", &[2, 1]),
            pool().string("auto_pad", "SAME_UPPER").ints("strides", &[4, 4]),
            pool().string("auto_pad", "other"),
            pool().ints("pads", &[-1, 0, 0, 0]),
            pool().ints("pads", &[0, 0]),
            Case::new("MaxPool", 12).input("f32[N,3,8,8]").ints("kernel_shape", &[2, 2]),
            Case::new("LpPool", 12).input("f32[2,3,8,8]").ints("kernel_shape", &[2, 2]),
        ] {
            assert_eq!(coordinates(case), None);
        }
        let windows = pool().outputs(2).typed(|node, _| pool_windows(node)).unwrap();
        assert_eq!((windows.images, windows.image), (6, 64));
        assert_eq!(windows.axes.iter().map(|axis| axis.inner).collect::<Vec<_>>(), [8, 1]);
    }
}
