//! The words of comments, pages and names of functions: few fillers, short lines. Fillers are pronouns and
//! comparisons that replace a noun.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that stand in place of a noun. "such as" names examples and is not counted.
const FILLERS: &[&[&str]] = &[
    &["what"],
    &["whatever"],
    &["whoever"],
    &["where"],
    &["wherever"],
    &["such"],
    &["so", "many"],
    &["so", "much"],
    &["so", "long"],
    &["as", "many"],
    &["as", "much"],
    &["the", "same"],
    &["all", "else"],
    &["anew"],
    &["once", "more"],
    &["thereof"],
];

/// Most fillers in 1,000 words. Comments of egg have 2.5 and of regalloc2 4.7, counted by this list.
const MAX_FILLERS: f64 = 5.0;

/// Widest line of a comment or a page, in characters, with its indentation. Tables and code may be wider.
const MAX_COLUMNS: usize = 110;

/// Rooms whose words are counted apart: each crate, the tests, and the pages at the top.
const ROOMS: &[&str] = &[
    "ir/src",
    "ir/tests",
    "ir/ops",
    "passes/src",
    "passes/doc",
    "passes/cost",
    "passes/edit",
    "passes/gradient",
    "passes/plan",
    "passes/rewrite",
    "passes/solve",
    "frontends/onnx-proto",
    "frontends/onnx",
    "backends/onnx",
    "backends/layout",
    "backends/check",
    "backends/report",
    "backends/ort",
    "src",
    "tests",
    "examples",
    "python",
    "xtask",
    "docs",
    "targets",
    "benches",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

/// A line of prose: its number in the file, its text without code spans, and whether it is too wide.
struct Prose {
    line: usize,
    text: String,
    is_wide: bool,
}

/// Replaces spans between backticks by spaces.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Comments of Rust code, by line. A comment begins at the start of a line or after a space, so that
/// addresses are left out.
fn comments(text: &str) -> Vec<Prose> {
    let comment = |line: &str| {
        let start = if line.starts_with("//") { Some(0) } else { line.find(" //").map(|at| at + 1) }?;
        (!line[..start].contains('"')).then(|| line[start..].trim_start_matches(['/', '!']).to_owned())
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(number, line)| {
            let text = without_code(&comment(line)?);
            Some(Prose { line: number + 1, text, is_wide: line.chars().count() > MAX_COLUMNS })
        })
        .collect()
}

/// Prose of a page, by line: everything outside code fences. Lines with links and tables may be wide.
fn page(text: &str) -> Vec<Prose> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let is_wide = line.chars().count() > MAX_COLUMNS && !line.contains('|') && !line.contains("](");
            found.push(Prose { line: number + 1, text: without_code(line), is_wide });
        }
    }
    found
}

/// Words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphabetic() && c != '\'');
    split.filter(|word| word.starts_with(char::is_alphabetic)).map(str::to_lowercase).collect()
}

/// Positions of fillers in a list of words.
fn fillers(words: &[String]) -> usize {
    let is_filler = |at: usize| {
        let is_as = words.get(at + 1).is_some_and(|next| next == "as");
        let starts = |filler: &&&[&str]| {
            filler.iter().zip(&words[at..]).filter(|(one, other)| one == other).count() == filler.len()
        };
        FILLERS.iter().find(starts).is_some_and(|filler| filler[0] != "such" || !is_as)
    };
    (0..words.len()).filter(|at| is_filler(*at)).count()
}

/// Names of functions in Rust code, with the numbers of their lines.
fn functions(text: &str) -> Vec<(usize, String)> {
    let name = |line: &str| {
        let at = if line.starts_with("fn ") { 0 } else { line.find(" fn ")? + 1 };
        let is_code = !line[..at].contains("//") && !line[..at].contains('"');
        let rest = &line[at + "fn ".len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (is_code && end > 0).then(|| rest[..end].to_owned())
    };
    text.lines().enumerate().filter_map(|(number, line)| Some((number + 1, name(line)?))).collect()
}

/// Whether a name contains a filler or a pronoun for a person.
fn has_filler(name: &str) -> bool {
    let words = words(name);
    fillers(&words) > 0 || words.iter().any(|word| ["nobody", "somebody"].contains(&word.as_str()))
}

/// Rust files and pages below a path, by path; results, generated code and expectations are left out.
fn files(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    if path.is_dir() {
        if name.starts_with('.')
            || ["target", "gen", "filetests", "snapshots", "results"].contains(&name.as_str())
        {
            return Vec::new();
        }
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.flat_map(|entry| files(&entry)).collect();
    }
    if name.ends_with(".rs") || name.ends_with(".md") { vec![path.to_owned()] } else { Vec::new() }
}

fn prose(path: &Path) -> Vec<Prose> {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "md") { page(&text) } else { comments(&text) }
}

#[test]
fn comments_and_pages_name_things() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for room in ROOMS {
        let (mut total, mut hits, mut worst) = (0, 0, BTreeMap::new());
        for file in files(&root.join(room)) {
            for line in prose(&file) {
                let words = words(&line.text);
                let found = fillers(&words);
                (total, hits) = (total + words.len(), hits + found);
                if found > 0 {
                    worst.insert((file.clone(), line.line), line.text);
                }
            }
        }
        assert!(total > 50, "{room} has {total} words: is it counted?");
        let rate = 1000.0 * hits as f64 / total as f64;
        if rate > MAX_FILLERS {
            wrong.push(format!(
                "{room}: {hits} fillers in {total} words, {rate:.1} per 1,000; {MAX_FILLERS} are allowed"
            ));
            wrong.extend(
                worst
                    .iter()
                    .map(|((file, line), text)| format!("  {}:{line}: {}", file.display(), text.trim())),
            );
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn function_names_name_things() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ROOMS.iter().flat_map(|room| files(&root.join(room)));
    let mut wrong = Vec::new();
    let mut total = 0;
    for file in sources.filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        for (line, name) in functions(&fs::read_to_string(&file).unwrap()) {
            total += 1;
            if has_filler(&name) {
                wrong.push(format!("{}:{line}: {name}", file.display()));
            }
        }
    }
    assert!(total > 1000, "{total} functions: are they counted?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn comments_and_pages_fit_their_width() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wide: Vec<String> = ROOMS
        .iter()
        .flat_map(|room| files(&root.join(room)))
        .flat_map(|file| prose(&file).into_iter().map(move |line| (file.clone(), line)))
        .filter(|(_, line)| line.is_wide)
        .map(|(file, line)| format!("{}:{} is wider than {MAX_COLUMNS} columns", file.display(), line.line))
        .collect();
    assert!(wide.is_empty(), "\n{}", wide.join("\n"));
}

#[test]
fn functions_are_found_and_names_with_fillers_are_counted() {
    let text = "fn one() {\n    pub(crate) fn at_once(\n// a fn two()\n\"a fn three()\"\nf: fn(u8)\n";
    assert_eq!(functions(text), [(1, "one".to_owned()), (2, "at_once".to_owned())]);
    assert!(["what_is_kept", "as_many_axes", "keeps_the_same", "nobody_asks"].into_iter().all(has_filler));
    assert!(
        !["whatnot", "as_bytes", "so_far", "the_copy", "operators_such_as_conv"].into_iter().any(has_filler)
    );
}

#[test]
fn fillers_are_counted_and_nouns_are_not() {
    let count = |text: &str| fillers(&words(text));
    assert_eq!(count("What is computed again, so many times, at the same place"), 3);
    assert_eq!(count("operators such as Conv; the number of copies"), 0);
    assert_eq!(count("Such a part"), 1);
    assert_eq!(comments("let at = \"// what\"; // what\n/// Where `what` is").len(), 1);
    assert_eq!(fillers(&words(&comments("/// Where `what` is")[0].text)), 1);
    assert_eq!(
        page("what\n```\nwhat\n```\n| what |").iter().map(|line| fillers(&words(&line.text))).sum::<usize>(),
        2
    );
}
