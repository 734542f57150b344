//! Workspace of ONNX Runtime's CPU kernels for convolutions, with one thread.
//!
//! Source: its `core/mlas/lib/convolve.cpp` (`MlasConvPrepare`) for binary32, and
//! `core/providers/cpu/nn/conv.cc` and `conv_transpose.cc` for other types, compared with random nodes
//! by `benches/workspace.py`. Blocked layouts (NCHWc) need no workspace.

use memc_ir::{Bytes, ElementType, NodeData};

use crate::families::dims::{bytes_in_full, product};
use crate::families::window::Padding;
use crate::info::Typed;

/// Elements of the buffer that one thread fills with columns before it multiplies them: 64 KiB of
/// binary32, regardless of the numbers of images and groups, as measured with ONNX Runtime 1.20 to 1.32.
pub(super) const SEGMENT: u64 = 128 * 128;

/// Extents of a convolution that determine the kernel's algorithm; channels and filters are per group.
struct Kernel {
    channels: u64,
    filters: u64,
    input: Vec<u64>,
    window: Vec<u64>,
    output: u64,
}

impl Kernel {
    fn read(node: &Typed<'_>) -> Option<Self> {
        let (data, weights, result) = (node.input_dims(0)?, node.input_dims(1)?, node.output_dims(0)?);
        let groups = u64::try_from(node.data().int("group", 1)).ok()?;
        Some(Self {
            channels: *weights.get(1)?,
            filters: weights.first()?.checked_div(groups)?,
            input: data.get(2..)?.to_vec(),
            window: weights.get(2..)?.to_vec(),
            output: product(result.get(2..)?)?,
        })
    }
    /// Returns the number of elements in the column matrix of one group of one image.
    fn columns(&self) -> Option<u64> {
        self.rows()?.checked_mul(self.output)
    }
    /// Returns the number of weights that contribute to one result element.
    fn rows(&self) -> Option<u64> {
        self.channels.checked_mul(product(&self.window)?)
    }
}

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

/// Whether the kernel multiplies the input without rearranging it.
fn direct(node: &NodeData, kernel: &Kernel) -> bool {
    if !all(node, "strides", 1) || !no_padding(node, &kernel.window) {
        return false;
    }
    if kernel.window.iter().all(|extent| *extent == 1) {
        return true;
    }
    // A window as wide as the input, or as high and one element wide: rows of the input are rows of the
    // matrix.
    let plane = |dims: &[u64]| match dims {
        [width] => Some((1, *width)),
        [height, width] => Some((*height, *width)),
        _ => None,
    };
    let (Some(window), Some(input)) = (plane(&kernel.window), plane(&kernel.input)) else { return false };
    let whole = window.1 == input.1 || (window.0 == input.0 && window.1 == 1);
    whole && kernel.channels == 1 && all(node, "dilations", 1)
}

/// Returns the workspace of Conv.
pub(crate) fn conv(node: &Typed<'_>) -> Option<Bytes> {
    let kernel = Kernel::read(node)?;
    let element = node.input(0)?.element;
    let columns = kernel.columns()?;
    let elements = match element {
        ElementType::Float | ElementType::Float16 if (1..=3).contains(&kernel.window.len()) => {
            if direct(node.data(), &kernel) {
                0
            } else if kernel.filters > kernel.output {
                columns
            } else {
                SEGMENT
            }
        }
        ElementType::Double if is_pointwise(node.data(), &kernel.window) => 0,
        ElementType::Float | ElementType::Float16 | ElementType::Double => columns,
        _ => return None,
    };
    bytes_in_full(elements, element)
}

/// Returns the workspace of ConvTranspose: the columns of one group of one image.
pub(crate) fn transposed(node: &Typed<'_>) -> Option<Bytes> {
    let (data, weights) = (node.input_dims(0)?, node.input_dims(1)?);
    let elements = product(weights.get(1..)?)?.checked_mul(product(data.get(2..)?)?)?;
    bytes_in_full(elements, node.input(0)?.element)
}
