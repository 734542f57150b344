//! The command: everything that prints, reads clocks, touches files, and exits.
//!
//! The binary calls [`main`]. A program of another language that contains memc calls [`run`] with its
//! arguments, or [`Options`] to state a request with the words of `memc optimize`.

mod args;
#[cfg(feature = "ort")]
mod calibrate;
#[cfg(feature = "ort")]
mod calibrate_args;
mod check;
mod cluster;
mod command;
#[cfg(feature = "ort")]
mod command_words;
mod counting;
mod depfile;
mod diff;
mod exit;
mod fit;
mod fit_args;
mod knowledge;
mod observe;
mod optimize;
mod options;
mod plain_sessions;
#[cfg(feature = "ort")]
mod playing;
#[cfg(feature = "ort")]
mod profile;
mod progress;
#[cfg(feature = "ort")]
mod race;
mod report;
#[cfg(feature = "ort")]
mod run;
#[cfg(feature = "ort")]
mod run_joint;
#[cfg(feature = "ort")]
mod run_sections;
mod sessions;
mod share;
mod share_args;
mod signals;
mod solve;
mod solve_args;
mod split;
mod split_args;
mod text;
mod this_machine;
mod train;
mod train_args;
#[cfg(feature = "ort")]
mod tune;
#[cfg(feature = "ort")]
mod tune_args;
mod verb;
#[cfg(feature = "ort")]
mod verify;
mod weights;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use memc::{Error, Extent, Model, Request, ScratchFile, read};
use memc_cost::target::{self, Target};
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_passes::Io;

pub use exit::ExitCode;
pub use options::Options;

use args::{Inputs, IoArg, Machine, Planning};
use command::{Cli, Command};

/// Exit code of defects of memc.
const DEFECT: u8 = 70;

/// Exit code of a command that did not fail, or the failure.
type Outcome = Result<ExitCode, Failure>;

/// Failure of a command: diagnostics to print, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// Diagnostics to print; at least one.
    pub diagnostics: Vec<Diagnostic>,
    /// Exit code.
    pub code: u8,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { diagnostics: vec![error.diagnostic()], code: error.exit_code() }
    }
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    signals::watch();
    counting::set_command();
    run(std::env::args_os())
}

/// Parses words, the first of which names the program, and runs the command.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    memc::watch_panics();
    let words: Vec<OsString> = words.into_iter().collect();
    let line = line(&words);
    let cli = match Cli::try_parse_from(verb::with_verb(words)) {
        Ok(cli) => cli,
        Err(answer) => {
            // Help goes to stdout, errors go to stderr; neither stream may be open.
            let _ = answer.print();
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2));
        }
    };
    let voice = Voice { quiet: cli.quiet };
    settled(|| answer(cli.command, &voice), &line)
}

/// The words of a command as a line.
fn line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command.
fn answer(command: Command, voice: &Voice) -> Outcome {
    match command {
        Command::Optimize(arguments) => optimize::run(&arguments.settled(), voice),
        Command::Train(arguments) => train::run(&arguments.settled(), voice),
        Command::Fit(arguments) => fit::run(&arguments.settled(), voice),
        Command::Split(arguments) => split::run(&arguments, voice),
        Command::Share(arguments) => share::run(&arguments, voice),
        Command::Report(arguments) => report::run(&arguments, voice),
        Command::Check(arguments) => check::run(&arguments, voice),
        Command::Diff(arguments) => diff::run(&arguments, voice),
        #[cfg(feature = "ort")]
        Command::Run(arguments) => run::run(&arguments, voice),
        #[cfg(feature = "ort")]
        Command::Profile(arguments) => profile::run(&arguments, voice),
        #[cfg(feature = "ort")]
        Command::Tune(arguments) => tune::run(&arguments.settled(), voice),
        #[cfg(feature = "ort")]
        Command::Calibrate(arguments) => calibrate::run(&arguments, voice),
        #[cfg(feature = "ort")]
        Command::Verify(arguments) => verify::run(&arguments, voice),
        Command::Print(arguments) => text::print(&arguments, voice),
        Command::Opt(arguments) => text::opt(&arguments, voice),
        Command::Passes { name } => knowledge::passes(name.as_deref()),
        Command::Ops { name } => knowledge::ops(name.as_deref()),
        Command::Explain { code } => knowledge::explain(code.as_deref()),
        Command::Schema { what } => knowledge::schema(what),
        Command::Completions { shell } => completions(shell),
        Command::Targets { name } => knowledge::targets(name.as_deref()),
        Command::Solve(arguments) => solve::run(&arguments, voice),
    }
}

/// Does the work of a command and prints its failure; a panic is a failure too.
fn settled(work: impl FnOnce() -> Outcome, line: &str) -> ExitCode {
    let outcome = memc::caught(work).unwrap_or_else(|error| Err(error.into()));
    match outcome {
        Ok(code) => code,
        Err(mut failure) => {
            if let Some(last) = failure.diagnostics.last_mut().filter(|_| failure.code == DEFECT) {
                last.notes.push(format!("the command was: {line}"));
            }
            // Errors are printed even with `--quiet`.
            failure.diagnostics.iter().for_each(|diagnostic| say(&diagnostic.to_string()));
            ExitCode::from(failure.code)
        }
    }
}

/// Writer of messages on stderr.
#[derive(Clone, Copy, Debug)]
struct Voice {
    quiet: bool,
}

impl Voice {
    /// Prints a line unless `--quiet` is given.
    fn say(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
    /// Prints remarks and warnings, at most `MAX_MESSAGES`.
    fn diagnostics(&self, all: &[Diagnostic]) {
        const MAX_MESSAGES: usize = 10;
        for diagnostic in all.iter().take(MAX_MESSAGES) {
            self.say(&diagnostic.to_string());
        }
        if all.len() > MAX_MESSAGES {
            self.say(&format!("… and {} more warnings or remarks", all.len() - MAX_MESSAGES));
        }
    }
    /// Whether a person watches: stderr is a terminal.
    fn is_watched(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }
}

fn say(line: &str) {
    // If stderr is closed, there is no place to report the error.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes data to stdout; a closed pipe (`| head`) is not a failure.
fn print(text: &str) -> Outcome {
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure {
            diagnostics: vec![Diagnostic::new(
                "E0401",
                Severity::Error,
                format!("cannot write to stdout: {error}"),
            )],
            code: 1,
        }),
    }
}

/// Prints the completions of a shell.
fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "memc", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Whether a path stands for stdin or stdout.
fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a model: maps a file, or reads stdin.
fn open(path: &Path) -> Result<Model, Error> {
    if !is_stream(path) {
        return Ok(Model::open(path)?);
    }
    let mut bytes = Vec::new();
    let told = |source| Error::File { what: "read", path: "the model from stdin".into(), source };
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(told)?;
    Ok(Model::from_bytes(bytes)?)
}

/// Rejects an argument that clap accepts.
fn usage(message: String, help: &str) -> Failure {
    Failure { diagnostics: vec![Diagnostic::new("E0306", Severity::Error, message).with_help(help)], code: 2 }
}

impl Planning {
    /// Returns the request that the shared options state.
    fn request(&self) -> Result<Request, Failure> {
        self.machine.request(&self.inputs)
    }
}

impl Inputs {
    /// Returns the request with the extents of dimensions and sizes.
    fn request(&self) -> Result<Request, Failure> {
        let mut request = dims(&self.dims)?;
        #[cfg(feature = "ort")]
        {
            request.import.feed =
                self.dim_from.as_deref().map(playing::extents).transpose()?.unwrap_or_default();
        }
        request.import.limits.clone_from(&self.dim_max);
        request.import.assume = self.assume.iter().cloned().collect();
        request.import.allow_unbound = self.allow_unbound;
        Ok(request)
    }
}

/// Returns a request with the extents of options `--dim`; a dimension may be named once.
fn dims(stated: &[(String, Extent)]) -> Result<Request, Failure> {
    let mut all: std::collections::BTreeMap<&str, &Extent> = std::collections::BTreeMap::new();
    for (name, extent) in stated {
        if let Some(other) = all.insert(name, extent).filter(|other| *other != extent) {
            let message = format!("`--dim {name}` is given twice, as {other} and as {extent}");
            return Err(usage(message, "leave out one of both"));
        }
    }
    Ok(all.into_iter().fold(Request::new(), |request, (name, extent)| request.dim(name, extent.clone())))
}

impl Machine {
    /// Returns the request that these options and the inputs state.
    fn request(&self, inputs: &Inputs) -> Result<Request, Failure> {
        let given = inputs.request()?;
        Ok(Request {
            import: given.import,
            buckets: given.buckets,
            runtime: self.runtime,
            target: target(&self.target)?,
            links: self.links.clone(),
            io: self.io.map(|io| match io {
                IoArg::Outputs => Io::Outputs,
                IoArg::Arena => Io::Arena,
                IoArg::External => Io::External,
            }),
            alias_state: self.alias_state,
            state: self.state.clone(),
            weights: self.weights.clone(),
            scratch: self.scratch.as_deref().map(scratch).transpose()?,
            alignment: self.align,
            max_fold_bytes: Bytes(self.max_fold_bytes.resolve(Bytes(0))),
            effort: self.effort,
            threads: self.threads.map(NonZeroUsize::get),
            passes: self.passes.clone(),
            ..Request::default()
        })
    }
}

/// The target of a name: one that comes with memc, this machine, or a file.
fn target(name: &str) -> Result<Target, Failure> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    let text = match target::built_in(name) {
        Some(text) => text.to_owned(),
        None if name == this_machine::NAME => this_machine::text(),
        None if is_file => read(path)?,
        None => return Err(knowledge::unknown_target(name)),
    };
    Ok(Target::parse(&text).map_err(|source| Error::Target { path: path.to_owned(), source })?)
}

/// Reads a scratch file.
fn scratch(path: &Path) -> Result<ScratchFile, Failure> {
    let wrong = |source| Error::Scratch { path: path.to_owned(), source };
    Ok(ScratchFile::from_json(&read(path)?).map_err(wrong)?)
}

/// Help for a mistyped name: the nearest known name, then `list`, which says how to list all names.
fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>, list: &str) -> String {
    memc::nearest(name, known)
        .map_or_else(|| list.to_owned(), |nearest| format!("did you mean `{nearest}`? {list}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn a_panic_ends_with_its_own_exit_code() {
        memc::watch_panics();
        assert_eq!(settled(|| panic!("a test panics"), "memc optimize in.onnx"), ExitCode::from(DEFECT));
        assert_eq!(settled(|| Ok(ExitCode::SUCCESS), "memc ops"), ExitCode::SUCCESS);
    }
}
