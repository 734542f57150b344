//! The forms for other tools: C header, Rust constants, minimalloc CSV.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};

use memc_layout::{Layout, read, to_c_header, to_minimalloc_csv, to_rust};

/// Names that a hostile or careless exporter could give: ends of comments, quotes, lines, and three that become one identifier.
const HOSTILE: [&str; 8] = ["*/ #error x", "a\nb", "??/", "\"; }", "Łódź,1", "x.y", "x:y", "X_Y"];

fn block() -> Layout {
    read(include_str!("data/residual_block.layout.json")).unwrap()
}

fn hostile() -> Layout {
    let mut layout = block();
    for (tensor, name) in layout.tensors.iter_mut().filter(|tensor| tensor.space.is_some()).zip(HOSTILE) {
        tensor.name = name.to_owned();
        tensor.alias = None;
    }
    layout.model.output_sha256.push_str("\"*/");
    layout
}

/// Compiles Rust text to metadata only, warnings denied.
fn compile(name: &str, text: &str) -> Output {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("{name}.rs"));
    std::fs::write(&source, text).unwrap();
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-Dwarnings", "--out-dir"])
        .arg(folder)
        .arg(source)
        .output()
        .unwrap()
}

#[test]
fn c_header() {
    insta::assert_snapshot!(to_c_header(&block()));
}

#[test]
fn rust_constants() {
    insta::assert_snapshot!(to_rust(&block()));
}

#[test]
fn minimalloc_csv() {
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}",
        to_minimalloc_csv(&block(), "device"),
        to_minimalloc_csv(&block(), "host"),
        to_minimalloc_csv(&block(), "nowhere")
    ));
}

#[test]
fn hostile_names_stay_inside_comments_and_identifiers() {
    let layout = hostile();
    let header = to_c_header(&layout);
    for line in header.lines().filter(|line| line.contains("/*")) {
        assert_eq!((line.matches("/*").count(), line.matches("*/").count()), (1, 1), "{line}");
        assert!(line.ends_with("*/") && line.is_ascii(), "{line}");
    }
    assert!(!header.contains("??/") && !header.contains('\\'));
    let defined: Vec<&str> = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next()).collect();
    assert_eq!(defined.iter().collect::<BTreeSet<_>>().len(), defined.len());
    assert!(defined.contains(&"MEMC_TENSOR_X_Y_3_OFFSET"), "{defined:?}");
    let rows = to_minimalloc_csv(&layout, "device");
    assert!(rows.lines().all(|row| row.split(',').count() == 5), "{rows}");
}

#[test]
fn rust_constants_compile() {
    for (name, layout) in [("block", block()), ("hostile", hostile())] {
        let output = compile(name, &to_rust(&layout));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn rust_constants_outside_the_arena_do_not_compile() {
    let mut layout = block();
    layout.arenas[0].size -= 1;
    assert!(!compile("outside", &to_rust(&layout)).status.success());
}
