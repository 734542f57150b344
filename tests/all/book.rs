//! The book in `docs/`: every page opens with a command that works, every link and include leads to a
//! file, and every page is listed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::Folder;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Pages below a folder, by path.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The page that a page includes as a whole, if it is an include and no more.
fn included(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{#include ")?.strip_suffix("}}")
}

/// The first block of shell commands of a page.
fn first_command(text: &str) -> Option<&str> {
    text.split("```sh\n").nth(1)?.split("```").next()
}

/// Runs commands of a page in an empty folder with links to the models of the repository.
fn run(page: &str, commands: &str) -> Result<(), String> {
    let folder = Folder::new(&format!("book-{}", page.replace('/', "-")));
    for name in ["examples", "tests", "targets"] {
        std::os::unix::fs::symlink(root().join(name), folder.path(name)).unwrap();
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_memc")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let output =
        shell.args(["-e", "-c", commands]).current_dir(folder.path("")).env("PATH", path).output().unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{page}: {commands}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

#[test]
fn every_page_opens_with_a_command_that_works() {
    let folder = root().join("docs/src");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in pages(&folder) {
        let (text, name) =
            (fs::read_to_string(&path).unwrap(), path.strip_prefix(&folder).unwrap().display().to_string());
        if included(&text).is_some() || name == "SUMMARY.md" {
            continue;
        }
        count += 1;
        match first_command(&text) {
            Some(commands) => wrong.extend(run(&name, commands).err()),
            None => wrong.push(format!("{name} has no command")),
        }
    }
    assert!(count >= 12, "{count} pages");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// All blocks of shell commands of a page, as one program.
fn all_commands(text: &str) -> String {
    text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_command_of_the_questions_works() {
    let text = fs::read_to_string(root().join("docs/src/asks.md")).unwrap();
    for number in 1..=21 {
        assert!(text.contains(&format!("**{number}. ")), "question {number} has no answer");
    }
    let commands = all_commands(&text);
    assert!(commands.matches("memc ").count() > 20, "{commands}");
    run("questions", &commands).unwrap();
}

/// Targets of links and pictures in a page, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    after.map(str::trim).filter(|link| !link.contains("://") && !link.starts_with('#')).collect()
}

#[test]
fn every_link_leads_to_a_file() {
    let mut wrong = Vec::new();
    let tops = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"]
        .map(|name| root().join(name));
    for path in pages(&root().join("docs/src")).into_iter().chain(tops) {
        let text = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap();
        let targets =
            links(&text).into_iter().map(|link| link.split('#').next().unwrap()).chain(included(&text));
        wrong.extend(
            targets
                .filter(|target| !folder.join(target).exists())
                .map(|target| format!("{}: {target}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_summary_and_every_pass_has_one() {
    let folder = root().join("docs/src");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    let names =
        pages(&folder).into_iter().map(|path| path.strip_prefix(&folder).unwrap().display().to_string());
    let missing: Vec<String> =
        names.filter(|name| name != "SUMMARY.md" && !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "SUMMARY.md lacks {missing:?}");
    for pass in memc_plan::registry::REGISTRY {
        assert!(listed.contains(format!("passes/{}.md", pass.name).as_str()), "{} has no page", pass.name);
    }
}

#[test]
fn every_option_is_on_the_page_of_options() {
    let page = fs::read_to_string(root().join("docs/src/options.md")).unwrap();
    let folder = Folder::new("book-options");
    let help = folder.memc("optimize --help").out;
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    let names =
        options.map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric()).split('=').next().unwrap());
    let missing: BTreeSet<&str> = names.filter(|name| *name != "--help" && !page.contains(*name)).collect();
    assert!(missing.is_empty(), "options.md lacks {missing:?}");
}

/// The cells of a row of a table, without its outer bars.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The last two cells of each row of the page's table of sessions, by the first one.
fn sessions_of(page: &str) -> Vec<(String, [String; 2])> {
    let table = page.split("| session | bytes | time |\n").nth(1).expect("a table of sessions");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[0].to_owned(), [row[1].to_owned(), row[2].to_owned()])).collect()
}

#[test]
fn tables_of_sessions_state_the_measured_means() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let measured = read("BENCHMARKS.md");
    let mut lines =
        measured.lines().skip_while(|line| *line != "## Memory and time in a stock ONNX Runtime session");
    let mean = cells(lines.find(|line| line.starts_with("| geometric mean, share of plain |")).unwrap());
    // Bytes of five sessions, two shares at rest, and times of all but the first one.
    assert_eq!(mean.len(), 12, "{mean:?}");
    let stated = |session: usize| {
        [mean[1 + session], if session == 0 { "1.00" } else { mean[7 + session] }].map(str::to_owned)
    };
    for (page, words) in [
        ("README.md", &["settings", "plain session, planned", "fast", "smallest"][..]),
        (
            "docs/src/inference.md",
            &["plain session, given", "settings", "plain session, planned", "`fast`, planned", "smallest"],
        ),
    ] {
        let rows = sessions_of(&read(page));
        assert_eq!(rows.len(), words.len(), "{page}");
        let first = 5 - words.len();
        for (at, ((session, figures), word)) in rows.iter().zip(words).enumerate() {
            assert!(session.contains(word), "{page}: {session} is not {word}");
            assert_eq!(*figures, stated(first + at), "{page}: {session}");
        }
    }
}
