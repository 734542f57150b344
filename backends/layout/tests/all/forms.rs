//! Tests the conversions for other tools: C header, Rust constants, minimalloc CSV.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};

use memc_layout::{Layout, c_identifiers, read, to_c_header, to_minimalloc_csv, to_onnx2c_csv, to_rust};

/// Names that a hostile or careless exporter could write: ends of comments, quotes, line ends, and
/// three names that map to one identifier.
const HOSTILE: [&str; 8] = ["*/ #error x", "a\nb", "??/", "\"; }", "Łódź,1", "x.y", "x:y", "X_Y"];

fn block() -> Layout {
    read(include_str!("../data/residual_block.layout.json")).unwrap()
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

/// Returns the fixture's plan with operands and results of each node, which the file omits.
fn wired() -> Layout {
    let mut layout = block();
    for step in 0..layout.schedule.len() {
        let at = |tensor: &&memc_layout::Tensor, end: fn(&memc_layout::LiveRange) -> u64| {
            tensor.step.is_none() && tensor.live.first().is_some_and(|range| end(range) == step as u64)
        };
        let names = |end: fn(&memc_layout::LiveRange) -> u64| -> Vec<String> {
            layout.tensors.iter().filter(|tensor| at(tensor, end)).map(|tensor| tensor.name.clone()).collect()
        };
        let (reads, writes) = (names(|range| range.end.saturating_sub(1)), names(|range| range.start));
        layout.schedule[step].reads = reads;
        layout.schedule[step].writes = writes;
    }
    layout.schedule[0].reads.push(String::new());
    layout
}

/// Returns a plan with names longer than compilers distinguish. They differ in the middle only, or not
/// at all.
fn long() -> Layout {
    let mut layout = wired();
    for (index, tensor) in layout.tensors.iter_mut().enumerate() {
        let middle = if index % 3 == 0 { "same".to_owned() } else { format!("block.{index}") };
        tensor.name =
            format!("/model/{}/{middle}/{}/output_0", "encoder/".repeat(12), "attention/".repeat(9));
        tensor.alias = None;
    }
    layout
}

/// Returns the installed C and C++ compilers, with their options.
fn c_compilers() -> Vec<(&'static str, &'static [&'static str], &'static str)> {
    const C: &[&str] = &["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
    const CPP: &[&str] = &["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
    let all = [("gcc", C, "c"), ("cc", C, "c"), ("g++", CPP, "cpp"), ("c++", CPP, "cpp")];
    let is_here =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success());
    all.into_iter().filter(|(name, ..)| is_here(name)).collect()
}

/// Compiles Rust text to metadata only. Warnings are errors.
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
    assert!(!header.contains("??/"));
    assert!(
        header
            .lines()
            .filter(|line| line.contains("/*"))
            .all(|line| line.contains("_NAME ") || !line.contains('\\'))
    );
    let defined: Vec<&str> =
        header.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next()).collect();
    assert_eq!(defined.iter().collect::<BTreeSet<_>>().len(), defined.len());
    assert!(defined.contains(&"MEMC_TENSOR_X_Y_3_OFFSET"), "{defined:?}");
    let rows = to_minimalloc_csv(&layout, "device");
    assert!(rows.lines().all(|row| row.split(',').count() == 5), "{rows}");
}

#[test]
fn the_header_compiles_as_c99_and_as_cpp() {
    let compilers = c_compilers();
    if compilers.is_empty() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, layout) in [("block", block()), ("hostile", hostile()), ("wired", wired()), ("long", long())] {
        std::fs::write(folder.join(format!("{name}.h")), to_c_header(&layout)).unwrap();
        for (compiler, options, extension) in &compilers {
            // The header's macros alone, and a program that iterates over its tables.
            let source = folder.join(format!("{name}.{extension}"));
            let program = format!(
                "#define MEMC_TABLES\n#include \"{name}.h\"\n#include \"{name}.h\"\n\
                 static const unsigned long shape[] = MEMC_INPUT_0_SHAPE;\n\
                 int main(void) {{\n  unsigned long sum = shape[0] + MEMC_INPUT_0_SIZE + MEMC_OUTPUT_0_OFFSET;\n\
                 unsigned step;\n  for (step = 0; step < MEMC_STEP_COUNT; step++)\n    \
                 sum += memc_step_tensors[memc_steps[step].first];\n  \
                 return sum == memc_tensors[0].size && MEMC_INPUT_0_NAME[0] == 0;\n}}\n"
            );
            for text in [format!("#include \"{name}.h\"\nint nothing;\n"), program] {
                std::fs::write(&source, text).unwrap();
                let output = Command::new(compiler).args(*options).arg(&source).output().unwrap();
                assert!(
                    output.status.success(),
                    "{compiler} {name}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
}

#[test]
fn identifiers_are_short_unique_and_stable_across_plans() {
    let header = to_c_header(&long());
    let defined: Vec<&str> =
        header.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next()).collect();
    assert_eq!(defined.iter().collect::<BTreeSet<_>>().len(), defined.len());
    assert!(defined.iter().all(|name| name.len() <= 60), "{defined:?}");
    let mut fewer = long();
    fewer.tensors.remove(1);
    let kept = to_c_header(&fewer);
    let lost = |name: &&&str| !kept.contains(&format!("#define {name} "));
    // The removed tensor loses its size and perhaps its offset. Identifiers of names that are unique
    // without a number stay.
    assert!(
        defined.iter().filter(lost).count() <= 6,
        "{:?}",
        defined.iter().filter(lost).collect::<Vec<_>>()
    );
}

#[test]
fn a_step_lists_the_tensors_it_accesses_and_its_workspace() {
    let layout = wired();
    let header = to_c_header(&layout);
    let table = header.split_once("memc_step_tensors[] = {").unwrap().1.split_once("};").unwrap().0;
    let count = |text: &str| table.matches(text).count();
    let named = layout
        .schedule
        .iter()
        .flat_map(|row| row.reads.iter().chain(&row.writes))
        .filter(|name| !name.is_empty())
        .count();
    let scratch = layout.tensors.iter().filter(|tensor| tensor.step.is_some()).count();
    // `MEMC_NO_TENSOR` stands for the omitted operand and for the end of the table.
    assert_eq!((count("UL"), count("MEMC_NO_TENSOR")), (named + scratch, 2));
    assert!(header.contains("It holds workspace of 2 steps, at most 98304 bytes"), "{header}");
}

#[test]
fn rust_constants_compile() {
    for (name, layout) in [("block", block()), ("hostile", hostile()), ("wired", wired()), ("long", long())] {
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

#[test]
fn the_onnx2c_form_has_a_row_for_each_tensor_of_the_first_arena() {
    let mut layout = block();
    let text = to_onnx2c_csv(&layout);
    let placed = |layout: &Layout| {
        let first = Some(layout.arenas[0].space.clone());
        layout.tensors.iter().filter(|tensor| tensor.space == first && tensor.step.is_none()).count()
    };
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("name,offset"));
    assert_eq!(lines.count(), placed(&layout));
    for tensor in layout.tensors.iter().filter(|tensor| tensor.step.is_none()) {
        let row = tensor.offset.map(|offset| format!("\n{},{offset}\n", tensor.name));
        let is_first = tensor.space == Some(layout.arenas[0].space.clone());
        assert_eq!(row.is_some_and(|row| text.contains(&row)), is_first, "{}", tensor.name);
    }
    // Tensors of other spaces and workspace have no row.
    let moved = layout.tensors.iter_mut().find(|tensor| tensor.space.is_some()).unwrap();
    moved.space = Some("host".to_owned());
    assert_eq!(to_onnx2c_csv(&layout).lines().count(), placed(&layout) + 1);
    layout.arenas.clear();
    assert_eq!(to_onnx2c_csv(&layout), "name,offset\n");
}

#[test]
fn identifiers_are_those_of_the_header() {
    for layout in [block(), hostile(), long()] {
        let (names, text) = (c_identifiers(&layout), to_c_header(&layout));
        assert_eq!((names.arenas.len(), names.tensors.len()), (layout.arenas.len(), layout.tensors.len()));
        for (tensor, name) in layout.tensors.iter().zip(&names.tensors) {
            let Some(name) = name else {
                assert!(tensor.offset.is_none(), "{}", tensor.name);
                continue;
            };
            assert!(text.contains(&format!("#define MEMC_TENSOR_{name}_SIZE {}UL", tensor.bytes)), "{name}");
            let place = text.contains(&format!(
                "#define MEMC_TENSOR_{name}_OFFSET {}UL",
                tensor.offset.unwrap_or(u64::MAX)
            ));
            assert_eq!(place, tensor.offset.is_some(), "{name}");
        }
        for (arena, name) in layout.arenas.iter().zip(&names.arenas) {
            assert!(text.contains(&format!("#define MEMC_ARENA_{name}_SIZE {}UL", arena.size)), "{name}");
        }
    }
}
