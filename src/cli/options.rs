//! The options of `memc optimize` for programs of other languages, which state them in the words of the
//! command.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use memc::{Model, Planned, Request};
use memc_ir::Diagnostic;

use super::args::Optimize;
use super::command::{Cli, Command};
use super::{Failure, optimize, usage};

/// Options of `memc optimize`, read and checked as the command does.
#[derive(Debug)]
pub struct Options(Optimize);

impl Options {
    /// Names of the options of `memc optimize`, without hyphens before them.
    pub fn names() -> Vec<String> {
        let command = Cli::command();
        let verb = command.find_subcommand("optimize").into_iter();
        let options = verb.flat_map(|verb| verb.get_arguments()).filter_map(clap::Arg::get_long);
        options.filter(|name| *name != "help").map(str::to_owned).collect()
    }

    /// Reads the words after `memc optimize`.
    ///
    /// # Errors
    /// A word is no option, or two options exclude each other.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Failure> {
        let start = ["memc", "optimize"].map(OsString::from);
        let cli = Cli::try_parse_from(start.into_iter().chain(words)).map_err(refused)?;
        let Command::Optimize(arguments) = cli.command else {
            return Err(usage(
                "the words belong to another command".to_owned(),
                "write the options of `memc optimize`",
            ));
        };
        let arguments = arguments.settled();
        optimize::check(&arguments)?;
        Ok(Self(arguments))
    }

    /// The model to plan.
    pub fn input(&self) -> &Path {
        &self.0.input
    }

    /// Returns the request that the options state.
    ///
    /// # Errors
    /// A named file cannot be read, or two options contradict each other.
    pub fn request(&self) -> Result<Request, Failure> {
        let request = optimize::request(&self.0)?;
        request.options()?;
        Ok(request)
    }

    /// Writes the files that the options name. Returns a warning if the written model reads weights
    /// that are not beside it.
    ///
    /// # Errors
    /// The system refuses to write a file; then none is left.
    pub fn write(&self, file: &Model, planned: &Planned) -> Result<Option<Diagnostic>, Failure> {
        optimize::write(&self.0, file, &optimize::layouts(&self.0), planned)
    }
}

/// Converts an error of the parser to a failure with its first paragraph.
fn refused(error: clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let message = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = match error.kind() {
        ErrorKind::UnknownArgument => "`memc optimize --help` lists all options",
        _ => "`memc optimize --help` describes the option",
    };
    usage(message, help)
}
