//! Checks that constants agree with the types stated for them.

use super::Report;
use super::structure::Tree;
use crate::attribute::Attribute;
use crate::entity::{ConstId, SecondaryMap};
use crate::module::{Definition, Payload};
use crate::types::{TensorType, ValueType};
use crate::units::Bytes;

/// Reports constants whose bytes or types are impossible.
pub(super) fn check(report: &mut Report<'_>, tree: &Tree) {
    let module = report.module;
    let mut seen: SecondaryMap<ConstId, bool> = SecondaryMap::default();
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        for value in data.inputs.iter().chain(&data.constants) {
            let value_data = &module.values[*value];
            let constant = match value_data.definition {
                Definition::Constant(_, constant) => Some(constant),
                _ => value_data.default,
            };
            let Some(constant) = constant else { continue };
            check_payload(report, &mut seen, constant, &value_data.name);
            let ty = &module.constants[constant].ty;
            if contradicts(&value_data.ty, ty) {
                let message =
                    format!("`%{}` is stated as {} but its constant is {ty}", value_data.name, value_data.ty);
                report.at_value("E0212", *value, message);
            }
        }
        for node in &data.nodes {
            for (name, attribute) in &module.nodes[*node].attributes {
                let constants = match attribute {
                    Attribute::Tensor(constant) => std::slice::from_ref(constant),
                    Attribute::Tensors(constants) => constants,
                    _ => continue,
                };
                for constant in constants {
                    check_payload(report, &mut seen, *constant, name);
                }
            }
        }
    }
}

fn check_payload(
    report: &mut Report<'_>,
    seen: &mut SecondaryMap<ConstId, bool>,
    constant: ConstId,
    name: &str,
) {
    if seen[constant] {
        return;
    }
    seen.set(constant, true);
    let data = &report.module.constants[constant];
    if let (Payload::Raw(bytes), Some(size)) = (&data.payload, data.ty.size())
        && bytes.len() as u64 != size.0
    {
        let held = Bytes(bytes.len() as u64).exact();
        let message =
            format!("the constant of \"{name}\" has {held} but its type {} takes {}", data.ty, size.exact());
        report.plain("E0211", message);
    }
}

/// Whether a constant of type `constant` can never be a value of type `stated`.
fn contradicts(stated: &ValueType, constant: &TensorType) -> bool {
    let stated = match stated {
        ValueType::Tensor(ty) | ValueType::SparseTensor(ty) => ty,
        ValueType::Unknown => return false,
        _ => return true,
    };
    if stated.element != constant.element {
        return true;
    }
    match (&stated.shape, &constant.shape) {
        (Some(a), Some(b)) => {
            a.len() != b.len()
                || a.iter()
                    .zip(b)
                    .any(|(a, b)| matches!((a.known(), b.known()), (Some(a), Some(b)) if a != b))
        }
        _ => false,
    }
}
