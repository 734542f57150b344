//! Checks that need no graph: hashes, versions, and the form of entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use memc_layout::{Layout, VERSION};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::OperatorSetIdProto;
use sha2::{Digest as _, Sha256};

use crate::codes::Kind;
use crate::findings::{At, Findings};

/// Compares the hashes of the files with those that the layout states.
pub(crate) fn hashes(given: &ModelFile, out: &ModelFile, layout: &Layout, findings: &mut Findings) {
    for (which, stated, file) in
        [("input", &layout.model.input_sha256, given), ("output", &layout.model.output_sha256, out)]
    {
        let found = sha256(file.bytes());
        if !stated.eq_ignore_ascii_case(&found) {
            findings.add(
                Kind::Hash,
                At::default(),
                format!("the layout states {which}_sha256 `{stated}`; the {which} model has `{found}`"),
            );
        }
    }
}

/// Checks the form of the layout, and its statements about versions.
pub(crate) fn check(out: &ModelFile, layout: &Layout, findings: &mut Findings) {
    if layout.schema.split('.').take(2).collect::<Vec<_>>().join(".") != VERSION {
        findings.add(
            Kind::Schema,
            At::default(),
            format!("the schema is `{}`, not `{VERSION}`", layout.schema),
        );
    }
    versions(out, layout, findings);
    for tensor in &layout.tensors {
        if tensor.space.is_some() != tensor.offset.is_some() {
            let message =
                format!("`{}` has a space without an offset, or an offset without a space", tensor.name);
            findings.add(Kind::Schema, At::tensor(&tensor.name), message);
        }
    }
}

fn versions(out: &ModelFile, layout: &Layout, findings: &mut Findings) {
    let model = out.model();
    let normal = |import: &OperatorSetIdProto| {
        let domain = import.domain.as_deref().unwrap_or_default();
        let domain = if domain == "ai.onnx" { "" } else { domain };
        (domain.to_owned(), import.version.unwrap_or(0))
    };
    let found: BTreeSet<(String, i64)> = model.opset_import.iter().map(normal).collect();
    let stated: BTreeSet<(String, i64)> = layout
        .model
        .opset_imports
        .iter()
        .map(|import| {
            let domain = if import.domain == "ai.onnx" { "" } else { import.domain.as_str() };
            (domain.to_owned(), i64::try_from(import.version).unwrap_or(i64::MAX))
        })
        .collect();
    if found != stated {
        let message = format!(
            "the layout states opset_imports {}; the output model has {}",
            listed(&stated),
            listed(&found)
        );
        findings.add(Kind::ModelHeader, At::default(), message);
    }
    let ir_version = model.ir_version.unwrap_or(0);
    if i64::try_from(layout.model.ir_version) != Ok(ir_version) {
        let message = format!(
            "the layout states ir_version {}; the output model has {ir_version}",
            layout.model.ir_version
        );
        findings.add(Kind::ModelHeader, At::default(), message);
    }
}

/// SHA-256 in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Operator sets as text: `ai.onnx 15, com.microsoft 1`.
fn listed(sets: &BTreeSet<(String, i64)>) -> String {
    let name = |domain: &String| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.clone() };
    sets.iter().map(|(domain, version)| format!("{} {version}", name(domain))).collect::<Vec<_>>().join(", ")
}
