//! Runs memc on the conformance models of the onnx package. Each model passes import, the text form,
//! optimize, check and export. Derived shapes equal those of the stored outputs. If ONNX Runtime runs a
//! model, the exported model gives results equal bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use memc::{Request, plan};
use memc_ir::{Module, text};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;

/// Maximum share of rejected cases, in per cent.
const REFUSED_PER_CENT: usize = 2;

fn python(script: &str, arguments: &[&Path]) -> String {
    let python = std::env::var("MEMC_PYTHON")
        .expect("MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(script);
    let output = Command::new(python).arg(script).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("python prints UTF-8")
}

/// Compares every model below `scratch/made` with its original by a decoder that is not memc's; returns
/// the lost fields. The decoder is a workspace of its own in `tests/decoder`, which is built here.
fn losses(scratch: &Path, names: &[PathBuf]) -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decoder/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("decoder")).arg("--");
    // Paths from the folder keep the command line short: it has thousands of them.
    cargo.current_dir(scratch);
    for name in names {
        cargo.args([Path::new("cases").join(name), Path::new("made").join(name)].map(|folder| folder.join("model.onnx")));
    }
    let output = cargo.output().expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{} pairs", names.len())), "{}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { String::new() } else { text.into_owned() }
}

/// Returns the models two folders below `root`, sorted.
fn cases(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| {
        let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    list(root).iter().flat_map(|kind| list(kind)).filter(|case| case.join("model.onnx").exists()).collect()
}

/// Checks that a module prints as equal text after parsing its text.
fn survives_text(module: &Module) -> Result<(), String> {
    let printed = text::print(module);
    let parsed = text::parse(&printed).map_err(|diagnostics| diagnostics[0].to_string())?;
    if text::print(&parsed) == printed { Ok(()) } else { Err("the text form changes when it is read back".to_owned()) }
}

/// Runs all steps of memc on one model. Writes into `made` the model planned with `--exact`, whose
/// results must be equal bit for bit, and the derived output types.
fn process(case: &Path, made: &Path) -> Result<(), String> {
    let file = ModelFile::open(case.join("model.onnx")).map_err(|error| error.to_string())?;
    let options = ImportOptions { allow_unbound: true, ..ImportOptions::default() };
    let imported = import(&file, &options).map_err(|error| error.diagnostic().to_string())?;
    survives_text(&imported.module)?;
    planned(&file, &options, false)?;
    let written = planned(&file, &options, true)?;
    fs::create_dir_all(made).unwrap();
    fs::write(made.join("model.onnx"), written.bytes()).unwrap();
    let module = &imported.module;
    let types =
        module.graph(module.main()).outputs.iter().map(|value| format!("{}\t{}\n", module.value(*value).name, module.ty(*value)));
    fs::write(made.join("types.txt"), types.collect::<String>()).unwrap();
    Ok(())
}

/// Plans and checks a model. `exact` limits rewriting to forms that change no bit.
fn planned(file: &ModelFile, import: &ImportOptions, exact: bool) -> Result<ModelFile, String> {
    let request = Request { import: import.clone(), verify: true, ..Request::default() }.exact(exact);
    let optimized = plan(file, &request).map_err(|error| error.diagnostic().to_string())?;
    survives_text(&optimized.module)?;
    let written = ModelFile::from_bytes(optimized.model.to_vec()).map_err(|error| error.to_string())?;
    let report = memc_check::check(file, &written, &optimized.layout, memc_check::Options::default());
    if let Some(violation) = report.violations.first() {
        return Err(format!("check: {}", violation.diagnostic));
    }
    match report.summary.spaces.values().find(|space| space.order_bound > space.peak) {
        Some(space) => Err(format!("check: {space:?}")),
        None => Ok(written),
    }
}

#[test]
fn conformance_models_are_planned_and_keep_their_results() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let _ = fs::remove_dir_all(&scratch);
    let (root, made) = (scratch.join("cases"), scratch.join("made"));
    python("generate.py", &[&root]);
    let all = cases(&root);
    assert!(all.len() > 1_800, "only {} cases", all.len());
    let (mut refused, mut written) = (Vec::new(), Vec::new());
    for case in &all {
        let name = case.strip_prefix(&root).unwrap();
        match process(case, &made.join(name)) {
            Ok(()) => written.push(name.to_owned()),
            Err(error) => refused.push(format!("{}: {error}", name.display())),
        }
    }
    let listed = refused.join("\n");
    assert!(refused.len() * 100 <= all.len() * REFUSED_PER_CENT, "{} of {} refused:\n{listed}", refused.len(), all.len());
    assert_eq!(losses(&scratch, &written), "", "fields were lost");
    let found: serde_json::Value = serde_json::from_str(&python("compare.py", &[&root, &made])).unwrap();
    eprintln!("{} cases, {} refused\n{listed}\n{found:#}", all.len(), refused.len());
    for kind in ["shapes_wrong", "broken", "different"] {
        assert_eq!(found[kind], serde_json::json!([]), "{kind}");
    }
    // Make sure that the comparison took place: most operators have a kernel.
    assert!(found["same"].as_u64().unwrap() > 1_000, "{found:#}");
    assert!(found["shapes_right"].as_u64().unwrap() > 2_000, "{found:#}");
}
