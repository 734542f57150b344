//! Checks the house rules by reading the tree: first sentences, sizes, names, dependencies, foreign
//! crates, words, and codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

/// Maximum number of lines of a file.
const MAX_LINES: usize = 800;

/// Crates of this project that each crate may use. `memc` may use all of them.
const ROOMS: &[(&str, &[&str])] = &[
    ("memc-check", &["memc-ir", "memc-layout", "memc-onnx-import", "memc-onnx-proto", "memc-ops"]),
    ("memc-cost", &["memc-ir", "memc-ops"]),
    ("memc-edit", &["memc-ir", "memc-ops"]),
    ("memc-fuzz", &["memc", "memc-onnx-export", "memc-ort"]),
    ("memc-gradient", &["memc-edit", "memc-ir", "memc-ops"]),
    ("memc-ir", &[]),
    ("memc-layout", &[]),
    ("memc-onnx-export", &["memc-ir", "memc-onnx-proto", "memc-ops"]),
    ("memc-onnx-import", &["memc-ir", "memc-onnx-proto", "memc-ops"]),
    ("memc-onnx-proto", &[]),
    ("memc-ops", &["memc-ir"]),
    (
        "memc-ort",
        &["memc-check", "memc-ir", "memc-layout", "memc-onnx-import", "memc-onnx-proto", "memc-ops"],
    ),
    ("memc-ort-ops", &[]),
    ("memc-passes", &["memc-cost", "memc-edit", "memc-ir", "memc-ops", "memc-rewrite", "memc-solve"]),
    (
        "memc-plan",
        &["memc-cost", "memc-edit", "memc-ir", "memc-ops", "memc-passes", "memc-rewrite", "memc-solve"],
    ),
    ("memc-python", &["memc"]),
    ("memc-report", &["memc-layout"]),
    ("memc-rewrite", &["memc-cost", "memc-edit", "memc-ir", "memc-ops"]),
    ("memc-solve", &[]),
    ("xtask", &[]),
];

/// Folders whose code must not access files, print, or read clocks.
const PURE: &[&str] = &[
    "ir/src",
    "ir/ops/src",
    "passes/src",
    "passes/plan/src",
    "passes/rewrite/src",
    "passes/solve/src",
    "passes/cost/src",
    "passes/edit/src",
    "passes/gradient/src",
    "frontends/onnx/src",
    "backends/onnx/src",
    "backends/layout/src",
    "backends/check/src",
    "backends/report/src",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files of the tree, by path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"), text);
            }
        }
    }
    assert!(found.len() > 200 && found.contains_key("tests/all/tidy.rs"), "{}", found.len());
    found
}

/// Runs a script of `benches/` with the Python of the gate or of the system. Returns whether it
/// succeeded, and its output.
fn python(words: &[&str]) -> (bool, String) {
    let python = std::env::var_os("MEMC_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .current_dir(root())
        .env("PYTHONPYCACHEPREFIX", crate::command::COMPILED)
        .args(words)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// Returns the lines of code without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

/// Returns words of letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_file_opens_with_its_purpose() {
    let sentence = |text: &str| {
        let opens = text
            .strip_prefix("//! ")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase() || c == '`'));
        let paragraph: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//! ")).collect();
        opens && paragraph.join(" ").contains(['.', ':'])
    };
    none(
        sources()
            .iter()
            .filter(|(_, text)| !sentence(text))
            .map(|(path, _)| format!("{path} opens without a sentence"))
            .collect(),
    );
}

#[test]
fn no_file_is_too_long() {
    let is_long = |path: &str, text: &str| text.lines().count() > MAX_LINES && !path.contains("/gen/");
    none(
        sources()
            .iter()
            .filter(|(path, text)| is_long(path, text))
            .map(|(path, _)| format!("{path} is too long"))
            .collect(),
    );
}

#[test]
fn no_file_has_a_catch_all_name() {
    let drawers = ["utils", "util", "misc", "helpers", "helper", "common"];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if path.trim_end_matches(".rs").split('/').any(|part| drawers.contains(&part)) {
            wrong.push(format!("{path} has a name that says nothing"));
        }
        for line in code(&text) {
            let mut words = words(line).skip_while(|word| *word != "mod");
            if words.next().is_some() && words.next().is_some_and(|name| drawers.contains(&name)) {
                wrong.push(format!("{path}: {line}"));
            }
        }
    }
    none(wrong);
}

#[test]
fn a_module_with_children_is_in_their_folder() {
    let sources = sources();
    let beside = |path: &&String| {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        sources.keys().any(|other| other.starts_with(&folder))
    };
    none(
        sources
            .keys()
            .filter(beside)
            .map(|path| format!("{path} belongs into its folder, as mod.rs"))
            .collect(),
    );
}

#[test]
fn no_unfinished_code_is_left() {
    // Markers are split in halves, so that the test does not find itself.
    let markers = [
        ("to", "do!"),
        ("unimpl", "emented!"),
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("for", " now"),
        ("#[ig", "nore"),
    ];
    let markers: Vec<String> = markers.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let hit = |marker: &&String| {
                line.match_indices(marker.as_str()).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    let after = line[at + marker.len()..].chars().next();
                    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                    !(marker.starts_with(char::is_alphanumeric) && joins(before)
                        || marker.ends_with(char::is_alphanumeric) && joins(after))
                })
            };
            if let Some(marker) = markers.iter().find(hit) {
                wrong.push(format!("{path}:{}: {marker}", number + 1));
            }
        }
    }
    none(wrong);
}

/// Runs cargo in the root without network; returns its output.
fn cargo(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn crates_use_only_the_crates_allowed_to_them() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed = ROOMS.iter().find(|(room, _)| *room == name).map(|(_, allowed)| *allowed);
        let normal = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null());
        let used = normal.map(|dependency| dependency["name"].as_str().unwrap());
        for used in used.filter(|used| ours.contains(used) && name != "memc") {
            if !allowed.is_some_and(|allowed| allowed.contains(&used)) {
                wrong.push(format!("{name} may not use {used}"));
            }
        }
        if allowed.is_none() && name != "memc" {
            wrong.push(format!(
                "{name} is a room that nobody knows: add it to the table, and to ARCHITECTURE.md"
            ));
        }
    }
    none(wrong);
}

/// Licences of foreign crates, as `deny.toml` lists them.
const LICENCES: &[&str] = &["Apache-2.0", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Most foreign crates that the library without features depends on: the measured number. Users who
/// embed memc build and review every one of them.
const MAX_CRATES: usize = 66;

/// Source of every foreign crate.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Whether the listed licences satisfy an expression of licences: `AND` binds closer than `OR`, `/` is
/// an old `OR`, and an exception only permits more.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let is_allowed = any_of(&mut words);
    assert!(words.next().is_none(), "{expression}");
    is_allowed
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> bool {
    let mut is_any = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        is_any |= all_of(words);
    }
    is_any
}

fn all_of(words: &mut Words<'_>) -> bool {
    let mut are_all = true;
    loop {
        let word = words.next().unwrap();
        are_all &= if word == "(" {
            let is_any = any_of(words);
            assert_eq!(words.next(), Some(")"));
            is_any
        } else {
            LICENCES.contains(&word)
        };
        if words.next_if_eq(&"WITH").is_some() {
            words.next();
        }
        if words.next_if_eq(&"AND").is_none() {
            return are_all;
        }
    }
}

#[test]
fn expressions_of_licences_are_read() {
    for expression in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "(GPL-3.0 OR MIT) AND Zlib",
    ] {
        assert!(is_allowed(expression), "{expression}");
    }
    for expression in [
        "GPL-3.0",
        "GPL-3.0 OR MPL-2.0",
        "MIT AND GPL-3.0",
        "(MIT OR GPL-3.0) AND GPL-3.0",
        "MIT AND (GPL-3.0 OR MPL-2.0)",
    ] {
        assert!(!is_allowed(expression), "{expression}");
    }
}

#[test]
fn foreign_crates_come_under_known_licences() {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // Crates of other platforms need not be on this machine.
    let metadata = cargo(&["metadata", "--format-version", "1", "--offline", "--filter-platform", host]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let foreign: Vec<&serde_json::Value> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| !package["source"].is_null())
        .collect();
    assert!(foreign.len() > 50, "{}", foreign.len());
    let is_refused =
        |package: &&&serde_json::Value| !is_allowed(package["license"].as_str().unwrap_or("none"));
    let refused = foreign.iter().filter(is_refused);
    none(
        refused
            .map(|package| format!("{} has the licence {}", package["name"], package["license"]))
            .collect(),
    );
    let denied = fs::read_to_string(root().join("deny.toml")).unwrap();
    let listed = LICENCES.iter().map(|licence| format!("\"{licence}\"")).collect::<Vec<_>>().join(", ");
    assert!(denied.contains(&format!("allow = [{listed}]")), "deny.toml lists other licences than {listed}");
}

#[test]
fn foreign_crates_come_from_the_registry() {
    let text = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let sources: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert!(!sources.is_empty());
    none(
        sources
            .into_iter()
            .filter(|source| source.trim_matches('"') != REGISTRY)
            .map(str::to_owned)
            .collect(),
    );
}

#[test]
fn the_library_depends_on_few_crates() {
    let tree = cargo(&[
        "tree",
        "-p",
        "memc",
        "--no-default-features",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--offline",
    ]);
    let crates: BTreeSet<&str> = tree
        .lines()
        .filter(|line| !line.starts_with("memc"))
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    assert!(crates.iter().any(|name| name.starts_with("memmap2 ")), "{tree}");
    assert!(
        crates.len() <= MAX_CRATES,
        "{} crates, {MAX_CRATES} are allowed:\n{}",
        crates.len(),
        Vec::from_iter(crates).join("\n")
    );
}

#[test]
fn core_rooms_touch_nothing_outside() {
    let outside = [
        "std::time",
        "Instant::",
        "SystemTime",
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "println!",
        "eprintln!",
        "print!(",
        "dbg!",
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if !PURE.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        // The tests of a module follow it; a whole file of them states so at its beginning.
        let production = text.split("[cfg(test)]").next().unwrap_or_default();
        for line in code(production) {
            if let Some(what) = outside.iter().find(|what| line.contains(**what)) {
                wrong.push(format!("{path}: {what}"));
            }
        }
    }
    none(wrong);
}

#[test]
fn names_come_from_the_glossary() {
    // Words of other fields, and this project's words for them.
    let foreign = [
        ("lifetime", "live range"),
        ("spill", "swap"),
        ("footprint", "peak"),
        ("checkpointing", "recompute"),
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| path != "tests/all/tidy.rs") {
        for line in code(&text) {
            let outside_strings: String = line.split('"').step_by(2).collect();
            for word in words(&outside_strings) {
                let lower = word.to_lowercase();
                if let Some((_, ours)) =
                    foreign.iter().find(|(theirs, _)| lower.split('_').any(|part| part.starts_with(theirs)))
                {
                    wrong.push(format!("{path}: `{word}`; the word is {ours}"));
                }
            }
        }
    }
    none(wrong);
}

/// Crates without cycles of files that use each other. Crates may be added, but not removed.
const WITHOUT_RINGS: &[&str] = &[
    "backends/check/src/",
    "backends/layout/src/",
    "backends/onnx/src/",
    "backends/ort/src/",
    "backends/ort/custom-ops/src/",
    "backends/report/src/",
    "frontends/onnx/src/",
    "frontends/onnx-proto/src/",
    "passes/cost/src/",
    "passes/edit/src/",
    "passes/rewrite/src/",
    "passes/solve/src/",
    "passes/src/",
    "src/",
];

/// Returns the paths in the code that start at the crate's root, at a parent module or at the own
/// module, as paths from the root. `module` is the code's own module.
fn named_paths(text: &str, module: &[String]) -> BTreeSet<Vec<String>> {
    let text: String =
        code(text.split("#[cfg(test)]").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let mut found = BTreeSet::new();
    for (root, above) in [("crate::", module.len()), ("super::", 1), ("self::", 0)] {
        for (at, _) in
            text.match_indices(root).filter(|(at, _)| !text[..*at].ends_with([':', '_']) || root == "self::")
        {
            let (mut base, mut rest) =
                (module[..module.len().saturating_sub(above)].to_vec(), &text[at + root.len()..]);
            while let Some(further) = rest.strip_prefix("super::") {
                (base, rest) = (base[..base.len().saturating_sub(1)].to_vec(), further);
            }
            let items =
                rest.strip_prefix('{').map_or(rest, |list| list.split('}').next().unwrap_or_default());
            let count = if rest.starts_with('{') { usize::MAX } else { 1 };
            for item in items.split(',').take(count) {
                let item = item.trim_start();
                let end =
                    item.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
                let names = item[..end.unwrap_or(item.len())].split("::").map(str::to_owned);
                found.insert(base.iter().cloned().chain(names).collect());
            }
        }
    }
    found
}

#[test]
fn files_have_no_dependency_cycles() {
    let mut wrong = Vec::new();
    for room in WITHOUT_RINGS {
        let texts: BTreeMap<String, String> = sources()
            .into_iter()
            .filter_map(|(path, text)| {
                let name = path.strip_prefix(room)?.strip_suffix(".rs")?;
                let name = name.strip_suffix("/mod").unwrap_or(name);
                (!["lib", "main"].contains(&name) && !name.ends_with("tests"))
                    .then(|| (name.to_owned(), text))
            })
            .collect();
        assert!(!texts.is_empty(), "{room} has no files");
        let used = |name: &String, text: &str| -> BTreeSet<String> {
            let module: Vec<String> = name.split('/').map(str::to_owned).collect();
            // Find the file for the longest prefix of a path.
            let file = |path: Vec<String>| {
                (1..=path.len())
                    .rev()
                    .map(|length| path[..length].join("/"))
                    .find(|name| texts.contains_key(name))
            };
            named_paths(text, &module).into_iter().filter_map(file).filter(|other| other != name).collect()
        };
        let mut graph = DiGraph::<&String, ()>::new();
        let number: BTreeMap<&String, NodeIndex> =
            texts.keys().map(|name| (name, graph.add_node(name))).collect();
        for (name, text) in &texts {
            for other in used(name, text) {
                graph.add_edge(number[name], number[&other], ());
            }
        }
        for ring in tarjan_scc(&graph).into_iter().filter(|ring| ring.len() > 1) {
            let files: Vec<&str> = ring.into_iter().map(|file| graph[file].as_str()).collect();
            wrong.push(format!("files of {room} use each other in a ring: {}", files.join(", ")));
        }
    }
    none(wrong);
}

/// Returns `E0123` and `W0123` between quotation marks.
fn codes(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').filter(|part| {
        part.len() == 5
            && (part.starts_with("E0") || part.starts_with("W0"))
            && part[1..].bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[test]
fn every_code_is_explained_and_every_page_is_of_use() {
    let (mut used, mut explained) = (BTreeMap::new(), BTreeSet::new());
    for (path, text) in
        sources().into_iter().filter(|(path, _)| path.starts_with("src/") || path.contains("/src/"))
    {
        for line in text.split("#[cfg(test)]").next().unwrap().lines() {
            for code in codes(line).map(str::to_owned) {
                // The checker's kinds have their codes only in their pages.
                let is_kind = path.starts_with("backends/check/src/codes/") && !path.ends_with("/mod.rs");
                if is_kind || line.trim_start().starts_with("code: ") {
                    explained.insert(code.clone());
                }
                if is_kind || !line.trim_start().starts_with("code: ") {
                    used.insert(code, path.clone());
                }
            }
        }
    }
    assert!(explained.contains("E0114") && explained.contains("E0507"), "{explained:?}");
    let silent = used
        .iter()
        .filter(|(code, _)| !explained.contains(*code))
        .map(|(code, path)| format!("{path}: {code} has no page"));
    let idle = explained
        .iter()
        .filter(|code| !used.contains_key(*code))
        .map(|code| format!("{code} has a page, and nobody says it"));
    // The fallback for a kind without an entry has no page. A test of the checker excludes this case.
    none(silent.chain(idle).filter(|wrong| !wrong.contains("E0500")).collect());
}

/// Maximum number of lines of BENCHMARKS.md. Readers look for one figure, and `benches/results/` has
/// all of them.
const MAX_BENCHMARK_LINES: usize = 150;

#[test]
fn benchmarks_are_made_from_their_tables() {
    let lines = fs::read_to_string(root().join("BENCHMARKS.md")).unwrap().lines().count();
    assert!(
        lines <= MAX_BENCHMARK_LINES,
        "BENCHMARKS.md has {lines} lines: {MAX_BENCHMARK_LINES} are allowed"
    );
    let (is_made, difference) = python(&["benches/report.py", "--check"]);
    assert!(is_made, "run `python3 benches/report.py`:\n{difference}");
}

#[test]
fn scripts_of_benches_pass_their_tests() {
    let (is_passed, output) = python(&["-m", "unittest", "discover", "-s", "benches"]);
    let count = output
        .split("Ran ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|count| count.parse::<u32>().ok());
    assert!(is_passed && count.is_some_and(|count| count > 0), "{output}");
}

#[test]
fn every_bench_stands_in_their_list() {
    let list = fs::read_to_string(root().join("benches/README.md")).unwrap();
    let folders = ["benches", "benches/random", "benches/results"]
        .map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let names = folders.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = names.filter(|name| [".py", ".c", ".csv"].iter().any(|ending| name.ends_with(ending)));
    none(
        files
            .filter(|name| !list.contains(name.as_str()))
            .map(|name| format!("benches/README.md says nothing of {name}"))
            .collect(),
    );
}
