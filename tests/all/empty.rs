//! The kernels that the profile of ONNX Runtime lists take operands without elements, and add nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use memc_ops::profile::{ADD_NOTHING, TAKE_EMPTY};

/// Runs the kernels of a table; returns the names that fail, with the reasons.
fn failing(which: &str, table: &[(&str, &str)]) -> String {
    let python = std::env::var("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/empty/kernels.py");
    let of = |(domain, names): &(&str, &str)| -> Vec<String> {
        let full = |name: &str| if domain.is_empty() { name.to_owned() } else { format!("{domain}:{name}") };
        names.split(' ').map(full).collect()
    };
    let names = table.iter().flat_map(of);
    let ran = Command::new(python).arg(script).arg(which).args(names).output().expect("python starts");
    assert!(
        ran.status.success(),
        "the last kernel ends the process: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8(ran.stdout).expect("python prints UTF-8")
}

#[test]
fn listed_kernels_take_operands_without_elements() {
    assert_eq!(failing("empty", TAKE_EMPTY), "");
    assert_eq!(failing("empty", memc_check::empty::TAKE_EMPTY), "");
}

#[test]
fn listed_kernels_add_nothing() {
    assert_eq!(failing("nothing", ADD_NOTHING), "");
    // The script finds kernels that refuse an empty batch.
    assert!(failing("empty", &[("", "GroupNormalization")]).starts_with("GroupNormalization "));
}
