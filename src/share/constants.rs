//! Constants that members share: initializers of planned models with equal type, extents and bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use memc_ir::Payload;
use memc_layout::Class;
use memc_layout::joint::{Item, Joint, SharedConstant};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_passes::ExternalData as _;

use super::member::ShareMember;
use crate::error::Error;
use crate::external::ExternalFiles;

/// Smallest constant that is compared, in bytes: sharing smaller ones saves less than listing them takes.
const MIN_BYTES: u64 = 256;

/// Type, extents and digest of a constant.
type Content = (String, Vec<u64>, String);

/// Lists the constants that several tensors hold. Constants whose bytes cannot be read count as different
/// from all others, and so do those that a member updates.
///
/// # Errors
/// A model cannot be read.
pub(super) fn share(joint: &mut Joint, members: &[ShareMember]) -> Result<(), Error> {
    let mut found: BTreeMap<Content, (u64, Vec<Item>)> = BTreeMap::new();
    for member in members {
        let file = ModelFile::open(member.model())?;
        let classes: BTreeMap<&str, Class> =
            member.layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.class)).collect();
        let module =
            import(&file, &ImportOptions { allow_unbound: true, ..ImportOptions::default() })?.module;
        let beside = ExternalFiles::beside(file.path());
        for value in &module.graph(module.main()).constants {
            let name = &module.value(*value).name;
            let Some(data) = module.constant_of(*value).map(|id| module.constant(id)) else { continue };
            let (Some(dims), Some(size)) = (data.ty.known_dims(), data.ty.size()) else { continue };
            if size.0 < MIN_BYTES || classes.get(name.as_str()) != Some(&Class::Constant) {
                continue;
            }
            let bytes: Option<Bytes> = match &data.payload {
                Payload::Raw(bytes) => Some(bytes.clone()),
                Payload::External { location, offset, .. } => beside.bytes(location, *offset, size.0),
                Payload::Elided => None,
            };
            let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 == size.0) else { continue };
            let content = (data.ty.element.onnx_name().to_owned(), dims, memc_onnx_export::sha256(&bytes));
            let row = found.entry(content).or_insert((size.0, Vec::new()));
            row.1.push(Item { member: member.name.clone(), tensor: name.clone() });
        }
    }
    for ((_, _, sha256), (bytes, uses)) in found {
        let copies = (uses.len() as u64).saturating_sub(1);
        if copies > 0 {
            joint.weights_joint = joint.weights_joint.saturating_sub(bytes.saturating_mul(copies));
            joint.constants.push(SharedConstant { sha256, bytes, uses });
        }
    }
    joint.constants.sort_by(|a, b| {
        (std::cmp::Reverse(a.bytes), &a.sha256, &a.uses).cmp(&(
            std::cmp::Reverse(b.bytes),
            &b.sha256,
            &b.uses,
        ))
    });
    Ok(())
}
