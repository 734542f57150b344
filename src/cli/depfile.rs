//! Rules for make: the files that outputs follow from.

use std::path::{Path, PathBuf};

use memc::Model;

use super::args::Machine;

/// Files that every plan of a model reads: the model, those of its weight files that exist, the target
/// file and the scratch file. Make would look for a rule for a missing file.
pub fn sources(input: &Path, file: &Model, machine: &Machine) -> Vec<PathBuf> {
    let folder = input.parent().unwrap_or(Path::new(""));
    let weights = memc_onnx_export::weight_files(file)
        .into_iter()
        .map(|name| folder.join(name))
        .filter(|path| path.is_file());
    let target = PathBuf::from(&machine.target);
    let target = target.extension().is_some_and(|extension| extension == "toml").then_some(target);
    let model = (!super::is_stream(input)).then(|| input.to_owned());
    model.into_iter().chain(weights).chain(target).chain(machine.scratch.clone()).collect()
}

/// Returns the rule `outputs: sources`, with the characters escaped that make treats specially.
pub fn rule<'p>(outputs: impl IntoIterator<Item = &'p Path>, sources: &[PathBuf]) -> String {
    let outputs: Vec<String> = outputs.into_iter().map(escaped).collect();
    let sources: Vec<String> = sources.iter().map(|path| escaped(path)).collect();
    format!("{}: {}\n", outputs.join(" "), sources.join(" \\\n  "))
}

/// Escapes blanks, `#`, `:` and `$` of a path.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for letter in path.to_string_lossy().chars() {
        match letter {
            ' ' | '#' | ':' | '\t' => text.push('\\'),
            '$' => text.push('$'),
            _ => {}
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        let sources = [PathBuf::from("a b.onnx"), PathBuf::from("c$#.bin")];
        assert_eq!(
            rule([Path::new("out.onnx"), Path::new("o.h")], &sources),
            "out.onnx o.h: a\\ b.onnx \\\n  c$$\\#.bin\n"
        );
    }
}
