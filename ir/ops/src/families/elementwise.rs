//! Element-wise arithmetic with broadcasting; follows elements, so that shape arithmetic is known.

use memc_ir::{DimExpr, ElementType};

use crate::context::{Infer, InferError, broadcast};
use crate::fact::Item;
use crate::info::{InPlace, OpInfo, SplitAxes};

/// Broadcast shape of all operands; element type of operand 0.
pub(crate) fn broadcast_shapes(ctx: &mut Infer<'_>, element: ElementType) -> Result<(), InferError> {
    ctx.required(0)?;
    let mut shape = ctx.shape(0);
    for operand in 1..ctx.input_count() {
        if ctx.has(operand) {
            shape = match (shape, ctx.dims(operand)) {
                (Some(left), Some(right)) => Some(broadcast(&left, right)?),
                _ => None,
            };
        }
    }
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Follows the elements of a two-operand operator, where both operands' are followed.
pub(crate) fn follow(ctx: &mut Infer<'_>, dims_of: usize, function: fn(&Item, &Item) -> Item) {
    let Some((left, right)) = ctx.data(0).zip(ctx.data(1)) else { return };
    let _ = dims_of;
    // A one-element operand broadcasts over the other; equal shapes go pairwise.
    let items: Option<Vec<Item>> = if left.items.len() == 1 {
        Some(right.items.iter().map(|item| function(&left.items[0], item)).collect())
    } else if right.items.len() == 1 {
        Some(left.items.iter().map(|item| function(item, &right.items[0])).collect())
    } else if left.dims == right.dims {
        Some(left.items.iter().zip(&right.items).map(|(a, b)| function(a, b)).collect())
    } else {
        None
    };
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
}

fn add_items(a: &Item, b: &Item) -> Item {
    a.expr().zip(b.expr()).and_then(|(a, b)| DimExpr::add(&a, &b)).map_or(Item::Unknown, Item::from_expr)
}

fn add(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    broadcast_shapes(ctx, ctx.element(0))?;
    follow(ctx, 0, add_items);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[OpInfo::onnx("Add", add).in_place(InPlace::Any).split(SplitAxes::All)];
