//! Effects of rewriting on real models, as text for reviewers: operators before and after, and each
//! kind of change once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use memc_ir::{Module, text};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::type_proto::Value as TypeValue;
use memc_ops::Profile;
use memc_passes::{Options, PassContext, Pipeline, Silent};

/// Passes before the comparison, and passes with rewriting and its cleanup. No pass changes the order,
/// so lines keep their places.
const BEFORE: &str = "fold,canonicalize,dce,cse,dce";
const AFTER: &str = "rewrite,fold,canonicalize,dce,cse,dce";
/// Maximum number of kinds of change that the text shows. It counts the others.
const MAX_KINDS: usize = 12;

fn models() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/models", "examples/models"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let mut found: Vec<PathBuf> = folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    found.sort();
    found
}

/// Returns the nodes of the main graph, a line each, without names of nodes and origins.
fn nodes(module: &Module) -> Vec<String> {
    let printed = text::print(module);
    let lines = printed.lines().skip_while(|line| !line.starts_with("graph @"));
    let statements = lines.filter(|line| line.starts_with("  %") && line.contains(" = "));
    let plain = |line: &str| {
        let ends = [" name \"", " origin("].iter().filter_map(|word| line.find(word)).min();
        line[..ends.unwrap_or(line.len())].trim().to_owned()
    };
    statements.map(plain).collect()
}

/// A removed line (`-`), an added line (`+`), or an unchanged line (`None`).
type Change = Option<(char, String)>;

/// Returns the difference of two lists of lines, by their longest common subsequence.
fn changes(before: &[String], after: &[String]) -> Vec<Change> {
    let mut common = vec![vec![0u32; after.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate().rev() {
        for (j, new) in after.iter().enumerate().rev() {
            common[i][j] =
                if old == new { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            found.push(None);
            (i, j) = (i + 1, j + 1);
        } else if j == after.len() || (i < before.len() && common[i + 1][j] >= common[i][j + 1]) {
            found.push(Some(('-', before[i].clone())));
            i += 1;
        } else {
            found.push(Some(('+', after[j].clone())));
            j += 1;
        }
    }
    found
}

/// Returns the lines with values renamed to letters in order of appearance, so that equal layers give
/// equal text.
fn lettered(lines: &[(char, String)]) -> String {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = String::new();
    for (sign, line) in lines {
        let _ = write!(found, "{sign} ");
        for (number, part) in line.split('%').enumerate() {
            let end = part.find([',', ')', ' ']).unwrap_or(part.len());
            if number == 0 {
                found.push_str(part);
                continue;
            }
            let next = names.len();
            let letter = *names.entry(part[..end].to_owned()).or_insert(next);
            let _ = write!(found, "%{letter}{}", &part[end..]);
        }
        found.push('\n');
    }
    found
}

/// Groups adjacent changes, and returns each kind of group once with its count.
fn kinds(changes: Vec<Change>) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = Vec::new();
    for run in changes.split(Option::is_none).filter(|run| !run.is_empty()) {
        let text = lettered(&run.iter().flatten().cloned().collect::<Vec<_>>());
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => found.push((text, 1)),
        }
    }
    found
}

fn operators(lines: &[String]) -> BTreeMap<&str, u32> {
    let mut count = BTreeMap::new();
    for line in lines {
        let applied = line.split_once(" = ").unwrap().1;
        *count.entry(&applied[..applied.find(['(', ' ']).unwrap_or(applied.len())]).or_default() += 1;
    }
    count
}

/// Returns an extent for each symbol of the inputs.
fn extents(file: &ModelFile) -> BTreeMap<String, u64> {
    let types = file.graph().input.iter().filter_map(|input| input.r#type.as_ref()?.value.as_ref());
    let shapes = types.filter_map(|ty| match ty {
        TypeValue::TensorType(tensor) => tensor.shape.as_ref(),
        _ => None,
    });
    let symbols = shapes.flat_map(|shape| &shape.dim).filter_map(|dim| match &dim.value {
        Some(Extent::DimParam(name)) => Some(name.clone()),
        _ => None,
    });
    symbols.map(|name| (name, 16)).collect()
}

fn shown(path: &Path) -> String {
    let file = ModelFile::open(path).unwrap();
    let imported =
        import(&file, &ImportOptions { dims: extents(&file), ..ImportOptions::default() }).unwrap();
    let options = Options { profile: &Profile::ORT, ..Options::default() };
    let mut module = imported.module;
    let mut ctx = PassContext::new(&options, imported.data);
    let run = |module: &mut Module, ctx: &mut PassContext<'_>, text: &str| {
        Pipeline::parse(text, module.stage, memc_plan::registry::REGISTRY)
            .unwrap()
            .run(module, ctx, true, &mut Silent)
            .unwrap();
        nodes(module)
    };
    let before = run(&mut module, &mut ctx, BEFORE);
    let after = run(&mut module, &mut ctx, AFTER);
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, count) in ctx.said.claims.rewritten().flat_map(|window| &window.rules) {
        *rules.entry(rule).or_default() += count;
    }
    let mut text = format!("{} nodes, {} after\n", before.len(), after.len());
    for (rule, count) in rules {
        let _ = writeln!(text, "rule {rule}: {count}");
    }
    let (own, its) = (operators(&before), operators(&after));
    for name in own.keys().chain(its.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (a, b) = (own.get(name).copied().unwrap_or(0), its.get(name).copied().unwrap_or(0));
        if a != b {
            let _ = writeln!(text, "{name}: {a}, {b} after");
        }
    }
    let kinds = kinds(changes(&before, &after));
    for (change, count) in kinds.iter().take(MAX_KINDS) {
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let _ = write!(text, "\n{times}\n{change}");
    }
    if kinds.len() > MAX_KINDS {
        let _ = writeln!(text, "\nand {} other changes", kinds.len() - MAX_KINDS);
    }
    text
}

#[test]
fn each_model_is_rewritten_as_its_snapshot_shows() {
    let models = models();
    assert!(models.len() > 10);
    for path in models {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        insta::assert_snapshot!(name.as_str(), shown(&path));
    }
}
