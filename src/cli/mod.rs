//! The command: everything that prints, reads clocks, touches files, and exits.

mod args;
mod check;
mod files;
mod knowledge;
mod limits;
mod observe;
mod optimize;
#[cfg(feature = "ort")]
mod playing;
#[cfg(feature = "ort")]
mod profile;
mod report;
#[cfg(feature = "ort")]
mod run;
mod solve;
mod text;
#[cfg(feature = "ort")]
mod verify;
mod weights;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use memc::Error;
use memc::cost::target::{self, Target};
use memc::import::ImportOptions;
use memc::ir::{Bytes, Diagnostic, Severity};
use memc::ops::Profile;
use memc::passes::{Io, Options};

use args::{Cli, Command, IoArg, Planning, Runtime};

/// How a command ended, where it did not fail.
type Outcome = Result<ExitCode, Failure>;

/// Why a command failed: what to print, and the exit code.
#[derive(Debug)]
struct Failure {
    diagnostics: Vec<Diagnostic>,
    code: u8,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { diagnostics: vec![error.diagnostic()], code: error.exit_code() }
    }
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    limits::heed_file_size();
    let cli = Cli::parse();
    let voice = Voice { quiet: cli.quiet };
    let outcome = match cli.command {
        Command::Optimize(arguments) => optimize::run(&arguments, &voice),
        Command::Report(arguments) => report::run(&arguments, &voice),
        Command::Check(arguments) => check::run(&arguments, &voice),
        #[cfg(feature = "ort")]
        Command::Run(arguments) => run::run(&arguments, &voice),
        #[cfg(feature = "ort")]
        Command::Profile(arguments) => profile::run(&arguments, &voice),
        #[cfg(feature = "ort")]
        Command::Verify(arguments) => verify::run(&arguments, &voice),
        Command::Print(arguments) => text::print(&arguments, &voice),
        Command::Opt(arguments) => text::opt(&arguments, &voice),
        Command::Passes { name } => knowledge::passes(name.as_deref()),
        Command::Ops { name } => knowledge::ops(name.as_deref()),
        Command::Explain { code } => knowledge::explain(code.as_deref()),
        Command::Schema { what } => knowledge::schema(what),
        Command::Targets { name } => knowledge::targets(name.as_deref()),
        Command::Solve(arguments) => solve::run(&arguments, &voice),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            // Errors are printed even when the rest is silent.
            failure.diagnostics.iter().for_each(|diagnostic| say(&diagnostic.to_string()));
            ExitCode::from(failure.code)
        }
    }
}

/// Talks on stderr.
#[derive(Clone, Copy, Debug)]
struct Voice {
    quiet: bool,
}

impl Voice {
    /// A line for people.
    fn say(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
    /// Remarks and warnings, at most so many.
    fn diagnostics(&self, all: &[Diagnostic]) {
        const MAX_MESSAGES: usize = 10;
        for diagnostic in all.iter().take(MAX_MESSAGES) {
            self.say(&diagnostic.to_string());
        }
        if all.len() > MAX_MESSAGES {
            self.say(&format!("… and {} more of this kind", all.len() - MAX_MESSAGES));
        }
    }
    /// Whether somebody watches.
    fn is_watched(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }
}

fn say(line: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes data to stdout; a reader that went away (`| head`) is no failure.
fn print(text: &str) -> Outcome {
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure {
            diagnostics: vec![Diagnostic::new("E0401", Severity::Error, format!("cannot write to stdout: {error}"))],
            code: 1,
        }),
    }
}

/// A wrong argument that clap cannot know of.
fn usage(message: String, help: &str) -> Failure {
    Failure { diagnostics: vec![Diagnostic::new("E0306", Severity::Error, message).with_help(help)], code: 2 }
}

impl Planning {
    fn import(&self) -> Result<ImportOptions, Failure> {
        #[cfg(feature = "ort")]
        let feed = self.dim_from.as_deref().map(playing::extents).transpose()?.unwrap_or_default();
        #[cfg(not(feature = "ort"))]
        let feed = std::collections::BTreeMap::new();
        Ok(ImportOptions {
            dims: self.dims.iter().cloned().collect(),
            feed,
            assume: self.assume.iter().cloned().collect(),
            allow_unbound: self.allow_unbound,
        })
    }
    fn options(&self) -> Result<Options, Failure> {
        let profile = match self.runtime {
            Runtime::Arena => &Profile::ARENA,
            Runtime::Ort => &Profile::ORT,
            Runtime::Player => &Profile::PLAYER,
        };
        let io = match self.io {
            IoArg::Outputs => Io::Outputs,
            IoArg::Arena => Io::Arena,
            IoArg::External => Io::External,
        };
        let max_fold_bytes = Bytes(self.max_fold_bytes.resolve(Bytes(0)));
        if (self.alias_state || !self.state.is_empty()) && io != Io::External {
            return Err(usage(
                "--alias-state and --state need outputs that the caller holds".to_owned(),
                "leave out --io, or write --io external",
            ));
        }
        let target = self.target()?;
        if let Some(space) = &self.weights
            && target.space(space).and_then(|far| target.link(far, 0)).is_none()
        {
            return Err(usage(
                format!("no link leads from a space named `{space}` to the first one"),
                &format!("add one: --link {space}=16GB/s"),
            ));
        }
        let own = Options { io, max_fold_bytes, effort: self.effort, ..Options::on(profile, target) };
        Ok(Options { alias_state: self.alias_state, state: self.state.clone(), weights: self.weights.clone(), ..own })
    }

    /// The target, from what comes with memc or from a file, with the links that are asked for.
    fn target(&self) -> Result<Target, Failure> {
        let path = Path::new(&self.target);
        let is_file = path.extension().is_some_and(|extension| extension == "toml");
        let text = match target::built_in(&self.target) {
            Some(text) => text.to_owned(),
            None if is_file => files::read(path)?,
            None => {
                let names = target::BUILT_IN.map(|(name, _)| name).join(", ");
                return Err(usage(
                    format!("there is no target named `{}`", self.target),
                    &format!("name one of {names}, or a file that ends in .toml; `memc targets` says what they are"),
                ));
            }
        };
        let mut target = Target::parse(&text).map_err(|source| Error::Target { path: path.to_owned(), source })?;
        for link in &self.links {
            link.add_to(&mut target).map_err(|error| usage(error.to_string(), "name another space"))?;
        }
        Ok(target)
    }
}
