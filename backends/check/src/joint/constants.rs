//! Rule 7, constants: listed initializers have equal types and bytes, and no member writes them.

use std::collections::BTreeSet;

use bytes::Bytes;
use memc_layout::Class;
use memc_onnx_proto::onnx::TensorProto;
use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};

use super::{Ctx, MemberWeights};
use crate::Which;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};
use crate::header::sha256;

pub(super) fn check(ctx: &Ctx<'_>, weights: &MemberWeights<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for constant in &ctx.joint.constants {
        let mut add =
            |tensor: &str, message: String| findings.add(Kind::JointConstant, At::tensor(tensor), message);
        if constant.uses.len() < 2 {
            add(
                "",
                format!("constant {} has {} uses, and two share it", constant.sha256, constant.uses.len()),
            );
        }
        let mut first = None;
        for item in &constant.uses {
            let name = format!("`{}` of {}", item.tensor, item.member);
            if !seen.insert(item) {
                add(&item.tensor, format!("{name} is listed twice"));
            }
            let Some((member, at)) = ctx.item(item) else {
                add(&item.tensor, format!("{name} is no tensor"));
                continue;
            };
            let layout = ctx.spots[member].layout;
            let is_updated = layout.state.iter().any(|row| row.tensor == item.tensor);
            if is_updated || layout.tensors[at].class != Class::Constant {
                add(&item.tensor, format!("{name} is no constant, so a member may write it"));
            }
            let all = &ctx.members[member].model.graph().initializer;
            let Some(tensor) = all.iter().find(|tensor| tensor.name() == item.tensor) else {
                add(&item.tensor, format!("{name} is no initializer"));
                continue;
            };
            let Some(bytes) = bytes(tensor, |location, offset, length| {
                weights(member, Which::Out, location, offset, length)
            }) else {
                add(&item.tensor, format!("the bytes of {name} cannot be read"));
                continue;
            };
            if bytes.len() as u64 != constant.bytes || sha256(&bytes) != constant.sha256 {
                add(
                    &item.tensor,
                    format!("{name} has {} with another digest than stated", exact(bytes.len() as u64)),
                );
            }
            let ty = (tensor.data_type(), &tensor.dims);
            if *first.get_or_insert(ty) != ty {
                add(&item.tensor, format!("{name} has another type than the first use"));
            }
        }
    }
}

/// Bytes of an initializer, little-endian and packed; `None` if they are in a file that cannot be read, or of
/// a type without fixed size.
fn bytes(tensor: &TensorProto, outside: impl Fn(&str, u64, u64) -> Option<Bytes>) -> Option<Bytes> {
    let entry =
        |key: &str| tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value());
    if tensor.data_location() == DataLocation::External {
        let number = |key: &str| entry(key).and_then(|text| text.parse::<u64>().ok());
        let elements = tensor
            .dims
            .iter()
            .try_fold(1_u64, |count, extent| count.checked_mul(u64::try_from(*extent).ok()?))?;
        let length = elements.checked_mul(bits(tensor.data_type())?)?.div_ceil(8);
        return outside(entry("location")?, number("offset").unwrap_or(0), length);
    }
    if let Some(raw) = &tensor.raw_data {
        return Some(raw.clone());
    }
    let narrow = |width: usize| {
        tensor.int32_data.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect::<Vec<u8>>()
    };
    let found: Vec<u8> = match DataType::try_from(tensor.data_type()).ok()? {
        DataType::Float => tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Double => tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Int64 => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Uint64 => tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Int32 => narrow(4),
        DataType::Int16 | DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => narrow(2),
        DataType::Int8 | DataType::Uint8 | DataType::Bool => narrow(1),
        _ => return None,
    };
    Some(found.into())
}

/// Bits of an element; `None` for types without fixed size.
fn bits(ty: i32) -> Option<u64> {
    Some(match DataType::try_from(ty).ok()? {
        DataType::Double | DataType::Int64 | DataType::Uint64 | DataType::Complex64 => 64,
        DataType::Float | DataType::Int32 | DataType::Uint32 => 32,
        DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16 => 16,
        DataType::Int8 | DataType::Uint8 | DataType::Bool => 8,
        DataType::Int4 | DataType::Uint4 => 4,
        DataType::Complex128 => 128,
        _ => return None,
    })
}
