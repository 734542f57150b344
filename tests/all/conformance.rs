//! Runs memc on the conformance models of the onnx package. Each model passes import, the text form,
//! optimize, check and export. Derived shapes equal those of the stored outputs. If ONNX Runtime runs a
//! model, the exported model gives results equal bit for bit. With wrong shapes and attributes, models are
//! planned or refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memc::{Request, plan};
use memc_ir::{Module, text};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::Dimension;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value::DimValue;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto, ValueInfoProto, type_proto};
use prost::Message as _;

/// Maximum share of rejected cases, in per cent.
const REFUSED_PER_CENT: usize = 2;

fn interpreter() -> Command {
    let python = std::env::var("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    let mut command = Command::new(python);
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance"))
        .env("PYTHONPYCACHEPREFIX", crate::command::COMPILED);
    command
}

fn python(script: &str, arguments: &[&Path]) -> String {
    let output = interpreter().arg(script).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("python prints UTF-8")
}

/// Compares models below `made` with their originals below `root` by a decoder that is not memc's; returns
/// the lost fields.
fn losses(root: &Path, made: &Path, names: &[PathBuf]) -> String {
    let mut child = interpreter();
    child.arg("losses.py").args([root, made]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("python starts");
    // It reads all names before it prints.
    let lines: String = names.iter().map(|name| format!("{}\n", name.display())).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{} pairs", names.len())), "{text}");
    if output.status.success() { String::new() } else { text.into_owned() }
}

#[test]
fn losses_of_fields_are_found() {
    let output = interpreter().args(["-m", "unittest", "test_losses"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("Ran 4 tests"), "{text}");
}

/// Returns the models two folders below `root`, sorted.
fn cases(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| {
        let mut all: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    list(root).iter().flat_map(|kind| list(kind)).filter(|case| case.join("model.onnx").exists()).collect()
}

/// Checks that a module prints as equal text after parsing its text.
fn survives_text(module: &Module) -> Result<(), String> {
    let printed = text::print(module);
    let parsed = text::parse(&printed).map_err(|diagnostics| diagnostics[0].to_string())?;
    if text::print(&parsed) == printed {
        Ok(())
    } else {
        Err("the text form changes when it is read back".to_owned())
    }
}

/// Runs all steps of memc on one model. Writes into `made` the model planned with `--exact`, whose
/// results must be equal bit for bit, and the derived output types. With `has_rounding`, the model is also
/// planned and checked without `--exact`.
fn process(case: &Path, made: &Path, has_rounding: bool) -> Result<(), String> {
    let file = ModelFile::open(case.join("model.onnx")).map_err(|error| error.to_string())?;
    let dims = fs::read_to_string(case.join("dims.txt")).unwrap_or_default();
    let dims = dims
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, extent)| (name.to_owned(), extent.parse().unwrap()));
    let options = ImportOptions { allow_unbound: true, dims: dims.collect(), ..ImportOptions::default() };
    let imported = import(&file, &options).map_err(|error| error.diagnostic().to_string())?;
    survives_text(&imported.module)?;
    if has_rounding {
        planned(&file, &options, false)?;
    }
    let written = planned(&file, &options, true)?;
    fs::create_dir_all(made).unwrap();
    fs::write(made.join("model.onnx"), written.bytes()).unwrap();
    let module = &imported.module;
    let types = module
        .graph(module.main())
        .outputs
        .iter()
        .map(|value| format!("{}\t{}\n", module.value(*value).name, module.ty(*value)));
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
    if exact && !report.is_proven() {
        return Err(format!("check: not proven equal: {:?}", report.summary.unproven_outputs));
    }
    match report.summary.spaces.values().find(|space| space.order_bound > space.peak) {
        Some(space) => Err(format!("check: {space:?}")),
        None => Ok(written),
    }
}

/// Draws numbers below a bound, the same ones for the same name (FNV-1a, then a linear step).
fn draws(name: &str) -> impl FnMut(usize) -> usize + use<> {
    let mut state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    }
}

/// Changes the extents that a value states, or their number.
fn disturb_shape(value: &mut ValueInfoProto, draw: &mut dyn FnMut(usize) -> usize) {
    let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    else {
        return;
    };
    let dims = &mut tensor.shape.get_or_insert_default().dim;
    let extent = [0, 1, 2, 7, 1024][draw(5)];
    let new = Dimension { value: Some(DimValue(extent)), ..Dimension::default() };
    let at = draw(dims.len());
    match draw(4) {
        0 if !dims.is_empty() => drop(dims.remove(at)),
        1 if !dims.is_empty() => dims[at] = new,
        2 => dims.clear(),
        _ => dims.insert(at, new),
    }
}

/// Changes an attribute of integers.
fn disturb_attribute(node: &mut NodeProto, draw: &mut dyn FnMut(usize) -> usize) {
    let count = node.attribute.len();
    let Some(attribute) = node.attribute.get_mut(draw(count)) else { return };
    let odd = [0, 1, -1, 3, -100, 1 << 40, i64::MIN, i64::MAX][draw(8)];
    match draw(3) {
        0 if !attribute.ints.is_empty() => drop(attribute.ints.pop()),
        1 if !attribute.ints.is_empty() => attribute.ints.push(odd),
        _ if !attribute.ints.is_empty() => attribute.ints[0] = odd,
        _ => attribute.i = attribute.i.map(|_| odd),
    }
}

/// Changes a case: its integers become constants, so that shapes follow from them; its float results are
/// read by two more nodes, so that there is something to plan; then stated shapes and attributes are made
/// wrong.
fn disturb(case: &Path, model: &mut ModelProto, draw: &mut dyn FnMut(usize) -> usize) {
    let graph = model.graph.get_or_insert_default();
    let element = |value: &ValueInfoProto| match value.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor.elem_type.unwrap_or_default(),
        _ => 0,
    };
    for (index, input) in std::mem::take(&mut graph.input).into_iter().enumerate() {
        let stored = fs::read(case.join(format!("input_{index}.pb"))).ok();
        match stored
            .and_then(|bytes| TensorProto::decode(&*bytes).ok())
            .filter(|_| matches!(element(&input), 6 | 7))
        {
            Some(tensor) => graph.initializer.push(TensorProto { name: input.name.clone(), ..tensor }),
            None => graph.input.push(input),
        }
    }
    for output in &mut graph.output {
        if element(output) == 1 {
            let name = output.name().to_owned();
            graph.value_info.push(output.clone());
            let step = |op: &str, from: String, to: String| NodeProto {
                op_type: Some(op.to_owned()),
                input: vec![from],
                output: vec![to],
                ..NodeProto::default()
            };
            graph.node.push(step("Exp", name.clone(), format!("{name}/exp")));
            graph.node.push(step("Sigmoid", format!("{name}/exp"), format!("{name}/end")));
            output.name = Some(format!("{name}/end"));
        }
    }
    for _ in 0..=draw(2) {
        let (stated, inputs, nodes) = (graph.value_info.len(), graph.input.len(), graph.node.len());
        match draw(4) {
            0 | 1 if stated > 0 => disturb_shape(&mut graph.value_info[draw(stated)], draw),
            2 if inputs > 0 => disturb_shape(&mut graph.input[draw(inputs)], draw),
            _ if nodes > 0 => disturb_attribute(&mut graph.node[draw(nodes)], draw),
            _ => {}
        }
    }
}

/// Plans a case with wrong shapes and attributes: it may be refused, but no part of memc fails.
fn survives_disturbance(case: &Path) -> Result<(), String> {
    let bytes = fs::read(case.join("model.onnx")).unwrap();
    let mut draw = draws(&case.file_name().unwrap().to_string_lossy());
    let mut model = ModelProto::decode(&*bytes).map_err(|error| error.to_string())?;
    disturb(case, &mut model, &mut draw);
    let import = ImportOptions { allow_unbound: true, ..ImportOptions::default() };
    let Ok(file) = ModelFile::from_bytes(model.encode_to_vec()) else { return Ok(()) };
    match plan(&file, &Request { import, ..Request::default() }) {
        Err(error) if error.exit_code() == 70 => Err(error.diagnostic().to_string()),
        _ => Ok(()),
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
    let (mut refused, mut written, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    memc::watch_panics();
    for (at, case) in all.iter().enumerate() {
        let name = case.strip_prefix(&root).unwrap();
        // Most operators have several cases, one after another: every second one is disturbed.
        let is_disturbed = at % 2 == 0;
        if is_disturbed {
            failed
                .extend(survives_disturbance(case).err().map(|error| format!("{}: {error}", name.display())));
        }
        match process(case, &made.join(name), !is_disturbed) {
            Ok(()) => written.push(name.to_owned()),
            Err(error) => refused.push(format!("{}: {error}", name.display())),
        }
    }
    assert!(
        failed.is_empty(),
        "{} cases with wrong shapes or attributes:\n{}",
        failed.len(),
        failed.join("\n")
    );
    let listed = refused.join("\n");
    assert!(
        refused.len() * 100 <= all.len() * REFUSED_PER_CENT,
        "{} of {} refused:\n{listed}",
        refused.len(),
        all.len()
    );
    // Nodes with bodies that take their place are no losses.
    written.retain(|name| !name.starts_with("bodies"));
    assert_eq!(losses(&root, &made, &written), "", "fields were lost");
    let found: serde_json::Value = serde_json::from_str(&python("compare.py", &[&root, &made])).unwrap();
    eprintln!("{} cases, {} refused\n{listed}\n{found:#}", all.len(), refused.len());
    for kind in ["shapes_wrong", "broken", "different"] {
        assert_eq!(found[kind], serde_json::json!([]), "{kind}");
    }
    // Make sure that the comparison took place: most operators have a kernel.
    assert!(found["same"].as_u64().unwrap() > 1_000, "{found:#}");
    assert!(found["shapes_right"].as_u64().unwrap() > 2_000, "{found:#}");
}
