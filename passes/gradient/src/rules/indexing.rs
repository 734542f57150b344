//! Operators that pick elements by indices, and that write elements at indices.

use memc_edit::{Attributes, int};
use memc_ir::{Attribute, Dim, ElementType, Value};

use super::shape::axis_of;
use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("Gather", gather).by_results(),
    CodeRule::of("GatherElements", gather_elements).by_results(),
    CodeRule::of("GatherND", gather_nd).by_results(),
    CodeRule::of("ScatterElements", scatter_elements).by_results(),
    CodeRule::of("ScatterND", scatter_nd).by_results(),
    CodeRule::of("TopK", top_k).by_results(),
];

/// Operator that writes elements at indices, and its attributes.
pub(super) type Scatter = (&'static str, Attributes);

/// Adds rows at indices to a value. Indices may repeat.
///
/// Half precision is added up in full precision: kernels have no half, and long sums would lose digits.
pub(super) fn added_to(
    emit: &mut Emit<'_>,
    (operator, mut attributes): Scatter,
    value: Value,
    (indices, rows): (Value, Value),
) -> Value {
    let element = emit.element(rows);
    let full = in_full(element);
    let (value, rows) = (emit.cast(value, full), emit.cast(rows, full));
    attributes.push(("reduction".to_owned(), Attribute::String("add".into())));
    let sums = emit.op_with(operator, &[value, indices, rows], attributes);
    emit.cast(sums, element)
}

/// Adds rows at indices to zeros of these extents.
pub(super) fn added(
    emit: &mut Emit<'_>,
    scatter: Scatter,
    dims: &[Dim],
    (indices, rows): (Value, Value),
) -> Value {
    let zeros = emit.zeros(dims, in_full(emit.element(rows)));
    added_to(emit, scatter, zeros, (indices, rows))
}

fn in_full(element: ElementType) -> ElementType {
    match element {
        ElementType::Float16 | ElementType::Bfloat16 => ElementType::Float,
        element => element,
    }
}

/// A picked row, or rows added up at their indices.
fn gather(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, indices, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    let dims = emit.dims(x)?;
    let axis = axis_of(site, 0, dims.len())?;
    let (rank, index_rank) = (dims.len(), emit.rank(indices)?);
    // One position at a known place: zeros around it.
    let one = emit.ints_of(indices).filter(|_| index_rank <= 1).filter(|found| found.len() == 1);
    if let (Some([index]), Some(extent)) = (one.as_deref(), dims[axis].known()) {
        let extent = i64::try_from(extent).unwrap_or(i64::MAX);
        let index = if *index < 0 { index + extent } else { *index };
        let mut row = dims.clone();
        row[axis] = Dim::Known(1);
        let row = emit.reshape(gradient, &row);
        let mut pads = vec![0; 2 * rank];
        (pads[axis], pads[rank + axis]) = (index, extent - 1 - index);
        let padded = emit.pad(row, &pads);
        return Site::only(emit.stated(padded, &dims));
    }
    // Rows of the indexed axis first, so that a scatter adds whole rows.
    let order: Vec<usize> =
        (axis..axis + index_rank).chain(0..axis).chain(axis + index_rank..rank + index_rank - 1).collect();
    let rows = emit.transpose(gradient, &order);
    let first: Vec<usize> = [axis].into_iter().chain((0..rank).filter(|other| *other != axis)).collect();
    let turned: Vec<Dim> = first.iter().map(|axis| dims[*axis].clone()).collect();
    let indices = emit.cast(indices, ElementType::Int64);
    let indices = emit.unsqueeze(indices, &[index_rank]);
    let added = added(emit, ("ScatterND", Attributes::new()), &turned, (indices, rows));
    let mut back = vec![0; rank];
    first.iter().enumerate().for_each(|(at, axis)| back[*axis] = at);
    Site::only(emit.transpose(added, &back))
}

/// Adds the gradient at indices along an axis to zeros.
fn added_along(emit: &mut Emit<'_>, site: &Site, indices: Value, gradient: Value) -> Result<Value, Refusal> {
    let dims = emit.dims(site.operand(0)?)?;
    let axis = int("axis", axis_of(site, 0, dims.len())? as i64);
    Ok(added(emit, ("ScatterElements", axis), &dims, (indices, gradient)))
}

fn gather_elements(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    Site::only(added_along(emit, site, site.operand(1)?, site.gradient()?)?)
}

fn top_k(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let ty = emit.tensor(gradient).cloned().ok_or_else(|| Refusal::form("its type is not known"))?;
    let indices = emit.result_of(
        site.node,
        1,
        "top_indices",
        memc_ir::TensorType { element: ElementType::Int64, ..ty },
    );
    let dims = emit.dims(x)?;
    let axis = int("axis", axis_of(site, -1, dims.len())? as i64);
    Site::only(added(emit, ("ScatterElements", axis), &dims, (indices, gradient)))
}

fn gather_nd(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    if site.data.int("batch_dims", 0) != 0 {
        return Err(Refusal::form("`batch_dims` has no gradient"));
    }
    let dims = emit.dims(site.operand(0)?)?;
    let rows = (site.operand(1)?, site.gradient()?);
    Site::only(added(emit, ("ScatterND", Attributes::new()), &dims, rows))
}

fn scatter_elements(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let attributes = int("axis", axis_of(site, 0, emit.rank(site.operand(0)?)?)? as i64);
    scattered(emit, site, ["ScatterElements", "GatherElements"], attributes)
}

fn scatter_nd(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    scattered(emit, site, ["ScatterND", "GatherND"], Attributes::new())
}

/// Elements that are written over have the gradient zero; written elements have that of their place.
fn scattered(
    emit: &mut Emit<'_>,
    site: &Site,
    [scatter, gather]: [&str; 2],
    attributes: Attributes,
) -> Result<Gradients, Refusal> {
    let (indices, updates, gradient) = (site.operand(1)?, site.operand(2)?, site.gradient()?);
    let adds = match site.data.string("reduction").unwrap_or("none") {
        "none" => false,
        "add" => true,
        other => return Err(Refusal::form(format!("the reduction `{other}` has no gradient"))),
    };
    let mut gradients = vec![None; 3];
    if site.wants(0) {
        let dims = emit.dims(updates)?;
        gradients[0] = Some(if adds {
            gradient
        } else {
            let zeros = emit.zeros(&dims, emit.element(updates));
            emit.op_with(scatter, &[gradient, indices, zeros], attributes.clone())
        });
    }
    if site.wants(2) {
        gradients[2] = Some(emit.op_with(gather, &[gradient, indices], attributes));
    }
    Ok(gradients)
}
