//! Workspace of ONNX Runtime's CPU kernels for convolutions, with one thread.
//!
//! Source: its `core/mlas/lib/convolve.cpp` (`MlasConvPrepare`) for binary32, and
//! `core/providers/cpu/nn/conv.cc` and `conv_transpose.cc` for other types, compared with random nodes
//! by `benches/workspace.py`. Blocked layouts (NCHWc) need no workspace.

use memc_ir::{DimExpr, ElementType, NodeData};

use crate::families::window::Padding;
use crate::size::{Counted, Size};

/// Elements of the buffer that one thread fills with columns before it multiplies them: 64 KiB of
/// binary32, regardless of the numbers of images and groups, as measured with ONNX Runtime 1.20 to 1.32.
const SEGMENT: u64 = 128 * 128;

fn all(node: &NodeData, name: &str, wanted: i64) -> bool {
    node.ints(name).is_none_or(|values| values.iter().all(|value| *value == wanted))
}

fn no_padding(node: &NodeData, window: &[u64]) -> bool {
    match Padding::of(node) {
        Padding::Valid => true,
        Padding::Explicit => all(node, "pads", 0),
        // With stride 1, only a window of one element needs no padding.
        Padding::Same => window.iter().all(|extent| *extent == 1),
    }
}

/// Whether each result position reads exactly one input position, all in order.
pub(crate) fn is_pointwise(node: &NodeData, window: &[u64]) -> bool {
    window.iter().all(|extent| *extent == 1) && all(node, "strides", 1) && no_padding(node, window)
}

/// Whether the kernel multiplies the input without rearranging it. `weights` are the extents of the weights,
/// `input` those of an image.
fn is_direct(node: &NodeData, weights: &[u64], input: &[u64]) -> bool {
    let [_, channels, window @ ..] = weights else { return false };
    if is_pointwise(node, window) {
        return true;
    }
    // A window as wide as the input, or as high and one element wide: rows of the input are rows of the
    // matrix.
    let plane = |dims: &[u64]| match dims {
        [width] => Some((1, *width)),
        [height, width] => Some((*height, *width)),
        _ => None,
    };
    let (Some(window_plane), Some(input)) = (plane(window), plane(input)) else { return false };
    let whole = window_plane.1 == input.1 || (window_plane.0 == input.0 && window_plane.1 == 1);
    whole
        && *channels == 1
        && all(node, "strides", 1)
        && no_padding(node, window)
        && all(node, "dilations", 1)
}

/// Returns the workspace of Conv: the columns of a whole image if it has fewer positions than filters, else
/// a segment of fixed size. Over symbols, some direct kernels count as kernels with columns.
pub(crate) fn conv(node: &Counted<'_>) -> Option<Size> {
    let element = node.input(0)?.element;
    let weights = node.input(1)?.known_dims()?;
    let groups = u64::try_from(node.data().int("group", 1)).ok()?;
    let (filters, window) = (weights.first()?.checked_div(groups)?, weights.get(2..)?);
    let rows = Size::product(weights.get(1..)?.iter().copied());
    let positions = node.product_from(node.output(0), 2);
    let is_known = matches!(element, ElementType::Float | ElementType::Float16 | ElementType::Double);
    let is_segmented = element != ElementType::Double && (1..=3).contains(&window.len());
    // No window has extent 0: an extent over symbols counts as one that the window does not cover.
    let image: Vec<u64> =
        node.dims(node.input(0))?.iter().skip(2).map(|extent| extent.known().unwrap_or(0)).collect();
    let is_direct = if is_segmented {
        is_direct(node.data(), &weights, &image)
    } else {
        element == ElementType::Double && is_pointwise(node.data(), window)
    };
    let elements = match positions.known() {
        None if !node.has_symbols() => return None,
        _ if !is_known => return None,
        _ if is_direct => Size::from(0),
        _ if !is_segmented => rows * positions,
        Some(count) if count < filters => rows * positions,
        Some(_) => Size::from(SEGMENT),
        None => columns_or_segment(&rows, &positions, filters),
    };
    Some(elements * Size::width_in_full(node.input(0)))
}

/// Returns the elements of columns over symbols: all columns of an image if it has fewer positions than
/// filters, else a segment; if this expression is too large, an upper bound.
fn columns_or_segment(rows: &Size, positions: &Size, filters: u64) -> Size {
    let Some(most) = filters.checked_sub(1).filter(|most| *most > 0) else { return Size::from(SEGMENT) };
    // 1 if an image has at least as many positions as there are filters, else 0.
    let is_large = positions.floor_div(filters).min(1);
    let is_small = &is_large * Size::Expr(DimExpr::constant(-1)) + 1;
    let few = rows * positions.min(most);
    // One of both is 0. A maximum has tighter bounds than a sum.
    let exact = (is_small * &few).max(is_large * SEGMENT);
    exact.or_else(|| few.max(SEGMENT)).or_else(|| (rows * most).max(SEGMENT))
}

/// Returns the workspace of ConvTranspose: the columns of one group of one image.
pub(crate) fn transposed(node: &Counted<'_>) -> Option<Size> {
    let columns = node.product_from(node.input(1), 1) * node.product_from(node.input(0), 2);
    Some(columns * Size::width_in_full(node.input(0)))
}
