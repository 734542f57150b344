//! Watches passes: prints or dumps the IR, and times.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use memc_ir::{Module, text};
use memc_passes::{Changed, Observer, PassInfo};

use super::say;

/// Observer that prints or dumps the IR and times after each pass.
#[derive(Debug)]
pub struct Watch {
    /// Names of passes after which the IR is printed; `all` for every one.
    pub print_after: Vec<String>,
    /// Folder for numbered dumps.
    pub dump_dir: Option<PathBuf>,
    /// Print time and edits.
    pub time: bool,
    count: usize,
    started: Instant,
}

impl Watch {
    /// Creates an observer from the options.
    pub fn new(print_after: Vec<String>, dump_dir: Option<PathBuf>, time: bool) -> Self {
        Self { print_after, dump_dir, time, count: 0, started: Instant::now() }
    }
}

impl Observer for Watch {
    fn watches(&self) -> bool {
        self.time || !self.print_after.is_empty() || self.dump_dir.is_some()
    }
    fn before(&mut self, _pass: &'static PassInfo, _module: &Module) {
        self.started = Instant::now();
    }
    fn after(&mut self, pass: &'static PassInfo, module: &Module, changed: Changed) {
        if self.time {
            let edits = match changed {
                Changed::No => 0,
                Changed::Yes(edits) => edits,
            };
            say(&format!(
                "{:>10} {:>9.3} ms {edits:>8} edits",
                pass.name,
                self.started.elapsed().as_secs_f64() * 1e3
            ));
        }
        if self.print_after.iter().any(|name| name == "all" || name == pass.name) {
            say(&format!("// after {}\n{}", pass.name, text::print(module)));
        }
        if let Some(dir) = &self.dump_dir {
            let path = dir.join(format!("{:02}.{}.mem", self.count, pass.name));
            let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, text::print(module)));
            if let Err(error) = written {
                say(&format!("warning: cannot dump to {}: {error}", path.display()));
            }
        }
        self.count += 1;
    }
}
