//! The command without a verb: `memc in.onnx out.onnx` is `memc optimize in.onnx out.onnx`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory as _;

use super::command::Cli;

/// The verb that is left out.
const DEFAULT: &str = "optimize";

/// Inserts the verb `optimize` if the words after the program's name start with a model, or with an
/// option of `optimize` and name a model later.
pub fn with_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_global = |word: &OsString| word == "-q" || word == "--quiet";
    let Some(at) = words.iter().skip(1).position(|word| !is_global(word)).map(|at| at + 1) else {
        return words;
    };
    let first = words[at].as_os_str();
    let is_option = first.to_string_lossy().starts_with('-') && first != "-";
    let names_model = if is_option {
        !is_answered(first) && words[at..].iter().any(|word| has_extension(word))
    } else {
        !is_verb(first) && (has_extension(first) || first == "-" || Path::new(first).is_file())
    };
    if names_model {
        words.insert(at, DEFAULT.into());
    }
    words
}

/// Whether the command itself answers an option.
fn is_answered(word: &OsStr) -> bool {
    ["-h", "--help", "-V", "--version"].iter().any(|known| word == *known)
}

/// Whether a word is a verb of the command.
fn is_verb(word: &OsStr) -> bool {
    word == "help" || Cli::command().get_subcommands().any(|verb| word == verb.get_name())
}

/// Whether a word ends like the name of a model.
fn has_extension(word: &OsStr) -> bool {
    Path::new(word).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        let words = with_verb(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_model_or_an_option_before_one_implies_optimize() {
        for (given, full) in [
            ("memc in.onnx out.onnx", "memc optimize in.onnx out.onnx"),
            ("memc -q in.onnx", "memc -q optimize in.onnx"),
            ("memc dir/IN.ONNX --exact", "memc optimize dir/IN.ONNX --exact"),
            ("memc --budget 60% in.onnx -o out.onnx", "memc optimize --budget 60% in.onnx -o out.onnx"),
            ("memc - -o -", "memc optimize - -o -"),
        ] {
            assert_eq!(completed(given), full);
        }
    }

    #[test]
    fn verbs_and_mistyped_verbs_stay() {
        for line in ["memc", "memc -q", "memc --help in.onnx", "memc --version", "memc --budget 60%"] {
            assert_eq!(completed(line), line);
        }
        for line in
            ["memc report in.onnx", "memc help optimize", "memc optimise in.onnx", "memc optimize in.onnx"]
        {
            assert_eq!(completed(line), line);
        }
    }
}
