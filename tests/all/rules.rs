//! Every rewriting rule in ONNX Runtime: replacements give the results of their fragments, and
//! replacements that a rule's conditions exclude do not. Canonical masks of gradients, and all facts of
//! the operator table that are called exact, keep all bits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../passes/rewrite/tests/all/cases/mod.rs"]
mod cases;

use std::fs;
use std::path::Path;
use std::process::Command;

use memc_ir::{Dim, Module, Stage, Value, ValueType, text};
use memc_onnx_export::{ExportOptions, export};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::Dimension;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::{
    GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use memc_passes::{Options, PassContext, Pipeline, Silent};
use memc_rewrite::RuleBook;
use prost::Message as _;

fn described(module: &Module, value: Value) -> ValueInfoProto {
    let data = module.value(value);
    let ValueType::Tensor(ty) = &data.ty else { panic!("{} is no tensor", data.name) };
    let extent = |dim: &Dim| match dim {
        Dim::Known(extent) => Some(Extent::DimValue(*extent as i64)),
        Dim::Symbolic(expr) => Some(Extent::DimParam(expr.to_string())),
        Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => None,
    };
    let dims = ty.shape.iter().flatten().map(|dim| Dimension { value: extent(dim), denotation: None });
    let tensor = type_proto::Tensor {
        elem_type: Some(ty.element.to_onnx()),
        shape: Some(TensorShapeProto { dim: dims.collect() }),
    };
    let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
    ValueInfoProto { name: Some(data.name.clone()), r#type: Some(ty), ..ValueInfoProto::default() }
}

/// Writes a module as a model: exports all its nodes as edits of an empty model with the module's
/// interface.
fn write(module: &Module, path: &Path) {
    let main = module.graph(module.main());
    let infos = |values: &[Value]| values.iter().map(|value| described(module, *value)).collect();
    let graph = GraphProto {
        name: Some("g".to_owned()),
        input: infos(&main.inputs),
        output: infos(&main.outputs),
        ..GraphProto::default()
    };
    let mut sets = module.opsets.clone();
    sets.entry("com.microsoft".to_owned()).or_insert(1);
    let sets = sets
        .into_iter()
        .map(|(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) });
    let entry = |(name, range): (&String, &memc_ir::Range)| StringStringEntryProto {
        key: Some(format!("range:{name}")),
        value: Some(format!("{} {} {}", range.min, range.max.unwrap(), range.step)),
    };
    let metadata_props = module.domain().ranges.iter().map(entry).collect();
    let opset_import = sets.collect();
    let model = ModelProto {
        ir_version: Some(8),
        opset_import,
        graph: Some(graph),
        metadata_props,
        ..ModelProto::default()
    };
    let file = ModelFile::from_bytes(model.encode_to_vec()).unwrap();
    let options = ExportOptions { metadata: false, value_info: false, ..ExportOptions::default() };
    let made = export(&file, module, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    fs::write(path, made.to_vec()).unwrap();
}

/// Writes a model and its replacements into a folder.
fn pair(folder: &Path, module: &Module, forms: &[Module]) {
    fs::create_dir_all(folder).unwrap();
    write(module, &folder.join("given.onnx"));
    for (number, form) in forms.iter().enumerate() {
        write(form, &folder.join(format!("form{number}.onnx")));
    }
}

#[test]
fn forms_keep_results_and_refused_forms_change_them() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules");
    let _ = fs::remove_dir_all(&root);
    for rule in RuleBook::standard().unwrap().rules() {
        let all = cases::read(&rule.name);
        let whole = cases::book(rule, None);
        let folder = root.join(&rule.name);
        for (number, case) in all.cases.iter().enumerate().filter(|(_, case)| case.applies) {
            let folder = folder.join(format!("same {} {number}", rule.class.name()));
            pair(&folder, &case.module, &cases::forms(&case.module, &whole));
        }
        for (number, (condition, found)) in cases::mutants(rule, &all).into_iter().enumerate() {
            let word = if all.careful.contains(&condition) { "same" } else { "other" };
            if let Some((case, forms)) = found {
                pair(
                    &folder.join(format!("{word} {} without-{number}", rule.class.name())),
                    &case.module,
                    &forms,
                );
            }
        }
    }
    assert_computed(&root, &cases::home().join("tests/rules"));
}

/// Element types on which facts are tried, with constants that facts may name.
const TYPES: &[(&str, &[&str])] = &[
    ("f32", NUMBERS),
    ("f64", NUMBERS),
    ("f16", HALVES),
    ("i64", &["[0]", "[1]", "[2]", "[-1]"]),
    ("i32", &["[0]", "[1]", "[2]", "[-1]"]),
    ("i8", &["[0]", "[1]", "[2]", "[-1]"]),
    ("u8", &["[0]", "[1]", "[2]"]),
    ("bool", &["[false]", "[true]"]),
];
const NUMBERS: &[&str] =
    &["[0.0]", "[-0.0]", "[1.0]", "[-1.0]", "[2.0]", "[0.5]", "[inf]", "[-inf]", "[nan]"];
/// The same numbers in half precision.
const HALVES: &[&str] = &[
    "hex \"0000\"",
    "hex \"0080\"",
    "hex \"003c\"",
    "hex \"00bc\"",
    "hex \"0040\"",
    "hex \"0038\"",
    "hex \"007c\"",
    "hex \"00fc\"",
    "hex \"007e\"",
];

/// Returns how a node of an operator may be given operands of a type, so that a fact may apply to it:
/// lines that compute `%r` from `%x` and `%z`. Operators with operands of their own have lines of their
/// own; all others are tried on one and two values, on values and constants, and on their own results.
fn trials(name: &str, numbers: &[&str]) -> Vec<String> {
    let shape = "const %s : i64[2] = [5, 13]\n";
    let of = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    match name {
        "Cast" => (1..14).map(|to| format!("%r = Cast(%x) {{to = {to}}} : unknown")).collect(),
        "CastLike" => of(&["%r = CastLike(%x, %z) : unknown"]),
        "Expand" | "Reshape" => vec![format!("{shape}%r = {name}(%x, %s) : unknown")],
        "Flatten" => of(&["%r = Flatten(%x) {axis = 1} : unknown"]),
        "Pad" => of(&["const %p : i64[4] = [0, 0, 0, 0]\n%r = Pad(%x, %p) : unknown"]),
        "Slice" => of(&[
            "const %b : i64[1] = [0]\nconst %e : i64[1] = [99]\nconst %o : i64[1] = [1]\n%r = Slice(%x, %b, %e, %o, %o) : unknown",
        ]),
        "Split" => of(&["const %l : i64[1] = [13]\n%r = Split(%x, %l) {axis = 1} : unknown"]),
        "Squeeze" => of(&["%r = Squeeze(%x) : unknown"]),
        "Tile" => of(&["const %t : i64[2] = [1, 1]\n%r = Tile(%x, %t) : unknown"]),
        "Transpose" => of(&["%r = Transpose(%x) {perm = [0, 1]} : unknown"]),
        "Unsqueeze" => of(&["const %a : i64[0] = []\n%r = Unsqueeze(%x, %a) : unknown"]),
        "Concat" => of(&["%r = Concat(%x) {axis = 1} : unknown"]),
        "Where" => {
            let choice =
                |truth: &&str| format!("const %c : bool[] = [{truth}]\n%r = Where(%c, %x, %z) : unknown");
            ["true", "false"].iter().map(choice).collect()
        }
        _ => {
            let mut found = of(&[]);
            for operands in ["%x", "%x, %z", "%x, %x", "%x, %z, %x"] {
                found.push(format!("%r = {name}({operands}) : unknown"));
                found.push(format!("%q = {name}({operands}) : unknown\n%r = {name}(%q) : unknown"));
            }
            for (number, shape) in
                numbers.iter().flat_map(|number| ["[]", "[1]", "[1,1]"].map(|shape| (number, shape)))
            {
                for operands in ["%x, %k", "%k, %x"] {
                    found.push(format!(
                        "const %k : TYPE{shape} = {number}\n%r = {name}({operands}) : unknown"
                    ));
                }
            }
            found
        }
    }
}

/// Returns the module of a trial, and its canonical form under `--exact`; `None` if the trial is no
/// model, or if nothing changes.
fn canonical(lines: &str, ty: &str) -> Option<(Module, Module)> {
    let body = lines.replace("TYPE", ty).replace('\n', "\n  ");
    let text = format!(
        "mem 1\nir_version 8\nopset \"\" 18\ngraph @g {{\n  input %x : {ty}[5,13]\n  input %z : {ty}[5,13]\n  {body}\n  \
        %y = Concat(%r, %r) {{axis = 0}} : unknown\n  return %y\n}}\n"
    );
    let mut given = text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let inference = memc_ops::infer(&mut given);
    let is_typed =
        given.ty(given.graph(given.main()).outputs[0]).tensor().is_some_and(|ty| ty.known_dims().is_some());
    if !inference.diagnostics.is_empty() || !is_typed {
        return None;
    }
    let mut form = given.clone();
    form.stage = Stage::Typed;
    let mut options = Options::default();
    options.rewrite.exact = true;
    let mut ctx = PassContext::new(&options, inference.data);
    let passes = Pipeline::parse("canonicalize,dce", form.stage, memc_plan::registry::REGISTRY).unwrap();
    passes.run(&mut form, &mut ctx, true, &mut Silent).unwrap();
    let mut plain = given.clone();
    plain.stage = Stage::Typed;
    (text::print(&plain) != text::print(&form)).then_some((given, form))
}

/// Every operator of the table on zeros of both signs, NaN, infinities, the smallest and the largest
/// numbers, and ties: whatever `--exact` lets change, changes no bit.
#[test]
fn facts_that_are_called_exact_keep_all_bits() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("facts/rules");
    let _ = fs::remove_dir_all(&root);
    let passing: Vec<&str> = memc_ops::passing_on().map(|info| info.name).collect();
    let repeats = |info: &memc_ops::OpInfo| {
        info.algebra.is_some_and(|algebra| algebra.idempotent || algebra.self_inverse)
    };
    let mut missing = Vec::new();
    let states_a_fact = |info: &&&memc_ops::OpInfo| {
        info.domain.is_empty() && (info.algebra.is_some() || passing.contains(&info.name))
    };
    for info in memc_ops::all().iter().filter(states_a_fact) {
        let mut found = 0;
        for (ty, numbers) in TYPES {
            for lines in trials(info.name, numbers) {
                if let Some((given, form)) = canonical(&lines, ty) {
                    pair(&root.join(format!("{}/same bits {found}", info.name)), &given, &[form]);
                    found += 1;
                }
            }
        }
        if found == 0 && (passing.contains(&info.name) || repeats(info)) {
            missing.push(info.name);
        }
    }
    assert!(missing.is_empty(), "facts about {missing:?} apply to no trial: add one to `trials`");
    assert_computed(&root, &root);
}

#[test]
fn canonical_masks_keep_all_bits() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("canonical/rules");
    let _ = fs::remove_dir_all(&root);
    let home = cases::home().join("../plan/tests/filetests/canonicalize");
    let options = Options::default();
    let test = fs::read_to_string(home.join("pool_masks.mem")).unwrap();
    let given =
        text::parse(test.split("// ----").next().unwrap()).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut form = given.clone();
    let inference = memc_ops::infer(&mut form);
    form.stage = Stage::Typed;
    let mut ctx = PassContext::new(&options, inference.data);
    let passes = Pipeline::parse("canonicalize,dce", form.stage, memc_plan::registry::REGISTRY).unwrap();
    passes.run(&mut form, &mut ctx, true, &mut Silent).unwrap();
    assert_ne!(text::print(&given), text::print(&form));
    pair(&root.join("pool_masks/same exact 0"), &given, &[form]);
    assert_computed(&root, &home);
}

/// Runs the models of a folder and their forms in ONNX Runtime, and asserts equal results for forms
/// that must give them, and other results for those that must not.
fn assert_computed(root: &Path, cases: &Path) {
    let python = std::env::var("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/compare.py");
    let output = Command::new(python).arg(script).arg(root).arg(cases).output().expect("python starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.ends_with("nothing wrong\n"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
