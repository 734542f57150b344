//! Times of tests: runs test binaries in cargo's place and notes how long each test took.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::Failure;

/// Names the table that [`run`] adds rows to.
const TABLE: &str = "MEMC_TEST_TIMES";

/// Slowest tests that are printed.
const SLOWEST: usize = 10;

/// Lets cargo run test binaries by this program, and empties the table. Returns the path of the table.
///
/// # Errors
/// This program has no path, or the table cannot be written.
pub(crate) fn watch(cargo: &mut Command) -> Result<PathBuf, Failure> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target");
    fs::create_dir_all(&root)?;
    let table = root.canonicalize()?.join("test-times.csv");
    fs::write(&table, "package,test,seconds\n")?;
    let program = list(&[&std::env::current_exe()?.display().to_string(), "time"]);
    cargo.args(["--config", &format!("target.'cfg(all())'.runner={program}")]).env(TABLE, &table);
    Ok(table)
}

/// Writes strings as a list of TOML.
fn list(words: &[&str]) -> String {
    format!("[{}]", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(","))
}

/// Runs a test binary with these arguments, prints what it prints, and adds a row to the table for each of
/// its tests.
///
/// # Errors
/// The binary cannot be run, or the table cannot be written.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let (binary, arguments) = arguments.split_first().ok_or("`time` needs a test binary")?;
    let mut command = Command::new(binary);
    // The harness of stable Rust prints times for those who ask like this.
    command.args(arguments).args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let mut rows = String::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some((test, seconds)) = row(&line) {
                rows += &format!("{package},{test},{seconds}\n");
            }
            println!("{line}");
        }
    }
    let table = std::env::var_os(TABLE).ok_or("`time` is for `cargo xtask test`")?;
    OpenOptions::new().append(true).open(table)?.write_all(rows.as_bytes())?;
    Ok(child.wait()?.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Reads a line such as `test cli::help ... ok <1.250s>`.
fn row(line: &str) -> Option<(&str, &str)> {
    let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((test, outcome.rsplit_once('<')?.1.strip_suffix("s>")?))
}

/// Prints the seconds of each package and the slowest tests.
///
/// # Errors
/// The table cannot be read.
pub(crate) fn print(table: &PathBuf) -> Result<(), Failure> {
    let text = fs::read_to_string(table)?;
    let mut rows: Vec<(&str, &str, f64)> = text.lines().skip(1).filter_map(parse).collect();
    let mut packages: Vec<&str> = rows.iter().map(|(package, ..)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    println!("\ntests  seconds  package");
    for package in packages {
        let of: Vec<f64> = rows.iter().filter(|row| row.0 == package).map(|row| row.2).collect();
        println!("{:5}  {:7.1}  {package}", of.len(), of.iter().sum::<f64>());
    }
    rows.sort_by(|left, right| right.2.total_cmp(&left.2));
    println!("\nseconds  slowest tests ({} has all)", table.display());
    rows.iter().take(SLOWEST).for_each(|(package, test, seconds)| println!("{seconds:7.1}  {package} {test}"));
    Ok(())
}

fn parse(line: &str) -> Option<(&str, &str, f64)> {
    let (package, rest) = line.split_once(',')?;
    let (test, seconds) = rest.rsplit_once(',')?;
    Some((package, test, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_lines_of_the_harness() {
        assert_eq!(row("test cli::help ... ok <1.250s>"), Some(("cli::help", "1.250")));
        assert_eq!(row("test cli::help ... FAILED <0.001s>"), Some(("cli::help", "0.001")));
        assert_eq!(row("test cli::help ... ok"), None);
        assert_eq!(parse("memc,cli::a,1.5"), Some(("memc", "cli::a", 1.5)));
        assert_eq!(list(&["a b", "c\\d"]), r#"["a b","c\\d"]"#);
    }
}
