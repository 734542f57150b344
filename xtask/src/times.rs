//! Times of tests, from the output of the harness.

use std::fs;
use std::path::Path;

use crate::Failure;

/// Slowest tests that are printed.
const SLOWEST: usize = 10;

/// Seconds of each test.
#[derive(Default)]
pub(crate) struct Times(Vec<Row>);

struct Row {
    package: String,
    test: String,
    seconds: f64,
}

impl Times {
    /// Adds the tests of which a binary of this package printed times.
    pub(crate) fn add(&mut self, package: &str, printed: &str) {
        let row = |(test, seconds): (&str, f64)| Row {
            package: package.to_owned(),
            test: test.to_owned(),
            seconds,
        };
        self.0.extend(printed.lines().filter_map(read).map(row));
    }

    /// Writes a table of all tests to this path. Prints the seconds of each package and the slowest tests.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn print(mut self, table: &Path) -> Result<(), Failure> {
        let line = |row: &Row| format!("{},{},{:.3}\n", row.package, row.test, row.seconds);
        fs::write(table, "package,test,seconds\n".to_owned() + &self.0.iter().map(line).collect::<String>())?;
        let mut packages: Vec<&str> = self.0.iter().map(|row| row.package.as_str()).collect();
        packages.sort_unstable();
        packages.dedup();
        println!("\ntests  seconds  package");
        for package in packages {
            let of: Vec<f64> =
                self.0.iter().filter(|row| row.package == package).map(|row| row.seconds).collect();
            println!("{:5}  {:7.1}  {package}", of.len(), of.iter().sum::<f64>());
        }
        self.0.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
        println!("\nseconds  slowest tests ({} has all)", table.display());
        self.0
            .iter()
            .take(SLOWEST)
            .for_each(|row| println!("{:7.1}  {} {}", row.seconds, row.package, row.test));
        Ok(())
    }
}

/// Reads a line such as `test cli::help ... ok <1.250s>`.
fn read(line: &str) -> Option<(&str, f64)> {
    let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((test, outcome.rsplit_once('<')?.1.strip_suffix("s>")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_lines_of_the_harness() {
        assert_eq!(read("test cli::help ... ok <1.250s>"), Some(("cli::help", 1.25)));
        assert_eq!(read("test cli::help ... FAILED <0.001s>"), Some(("cli::help", 0.001)));
        assert_eq!(read("test cli::help ... ok"), None);
    }
}
