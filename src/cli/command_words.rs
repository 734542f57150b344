//! Arguments of `memc optimize` as words of a command.

use clap::Parser as _;

use super::args::{IoArg, Optimize};
use super::command::{Cli, Command};
use super::{Failure, optimize, usage};
use memc::Runtime;

/// Returns the command that repeats a plan.
pub fn of(arguments: &Optimize) -> String {
    words(arguments).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Checks that the words of a command ask for the same plan as the arguments.
///
/// # Errors
/// An option has no words.
pub fn repeats(arguments: &Optimize) -> Result<(), Failure> {
    let asked = optimize::request(arguments)?.stated();
    let again = match Cli::try_parse_from(words(arguments)).map(|cli| cli.command) {
        Ok(Command::Optimize(again)) => optimize::request(&again.settled())?.stated(),
        _ => std::collections::BTreeMap::new(),
    };
    let lacking = asked.iter().find(|(name, text)| again.get(*name) != Some(text));
    match lacking {
        Some((name, _)) => {
            let message =
                format!("`memc tune` cannot repeat a plan with the option `{}`", name.replace('_', "-"));
            Err(usage(
                message,
                "leave it out, and give it to `memc optimize` with the command that was chosen",
            ))
        }
        None => Ok(()),
    }
}

/// The words of a command.
fn words(arguments: &Optimize) -> Vec<String> {
    let mut words: Vec<String> = ["memc", "optimize"].map(str::to_owned).to_vec();
    words.push(arguments.input.display().to_string());
    let mut option = |name: &str, values: Vec<String>| {
        for value in values {
            words.extend([format!("--{name}"), value]);
        }
    };
    let some = |text: Option<String>| text.into_iter().collect::<Vec<_>>();
    let machine = &arguments.machine;
    option("output", some(arguments.output.as_ref().map(|path| path.display().to_string())));
    option("dim", arguments.inputs.dims.iter().map(|(name, extent)| format!("{name}={extent}")).collect());
    option("dim-max", arguments.inputs.dim_max.iter().map(ToString::to_string).collect());
    option("dim-from", some(arguments.inputs.dim_from.as_ref().map(|path| path.display().to_string())));
    option("assume", arguments.inputs.assume.iter().map(|(name, size)| format!("{name}={size}")).collect());
    option("budget", arguments.budget.iter().map(ToString::to_string).collect());
    option("slo", some(arguments.slo.map(|slo| slo.to_string())));
    option(
        "slowdown",
        some((arguments.slowdown > 0).then(|| format!("{}%", f64::from(arguments.slowdown) / 100.0))),
    );
    option("nchwc", some(arguments.nchwc.and_then(|blocks| blocks.0).map(|block| block.to_string())));
    option("micro-batches", some(arguments.micro_batches.map(|parts| parts.to_string())));
    option("max-value", some(arguments.max_value.map(|bytes| bytes.to_string())));
    option("engines", some((arguments.engines > 1).then(|| arguments.engines.to_string())));
    option("profile", some(arguments.profile.as_ref().map(|path| path.display().to_string())));
    option("layout", arguments.layout.iter().map(|path| path.display().to_string()).collect());
    let runtime = Some(machine.runtime).filter(|runtime| *runtime != Runtime::default());
    option("runtime", some(runtime.map(|runtime| runtime.name().to_owned())));
    option("target", some((machine.target != "cpu").then(|| machine.target.clone())));
    option(
        "effort",
        some((machine.effort != memc_solve::Limit::default().nodes).then(|| machine.effort.to_string())),
    );
    option("link", machine.links.iter().map(ToString::to_string).collect());
    option("align", some(machine.align.map(|bytes| bytes.to_string())));
    option("weights", some(machine.weights.clone()));
    let io = machine.io.map(|io| match io {
        IoArg::Outputs => "outputs",
        IoArg::Arena => "arena",
        IoArg::External => "external",
    });
    option("io", some(io.map(str::to_owned)));
    option("state", machine.state.iter().map(|pair| format!("{}={}", pair.new, pair.old)).collect());
    let flags = [
        ("exact", arguments.exact),
        ("std-ops", arguments.std_ops),
        ("no-rewrite", arguments.no_rewrite),
        ("integer-kernels", arguments.integer_kernels),
        ("anchors", arguments.anchors),
        ("alias-state", machine.alias_state),
    ];
    words.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("--{name}")));
    words
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=%:,+@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn parsed(line: &str) -> Optimize {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Optimize(arguments) => arguments.settled(),
            _ => panic!("not `memc optimize`"),
        }
    }

    #[test]
    fn commands_repeat_their_plans() {
        for line in [
            "memc optimize in.onnx --output out.onnx",
            "memc optimize in.onnx --output out.onnx --dim batch=8 --dim seq=1..512 --budget 60% --slowdown 1% --exact",
            "memc optimize in.onnx --output o.onnx --nchwc 16 --runtime ort --effort 7 --io external --alias-state",
            "memc optimize in.onnx --output o.onnx --slo 20ms --integer-kernels --no-rewrite --micro-batches 4",
        ] {
            let arguments = parsed(line);
            repeats(&arguments).unwrap();
            assert_eq!(parsed(&of(&arguments)).slowdown, arguments.slowdown);
        }
        assert_eq!(of(&parsed("memc optimize in.onnx --dim ?=1")), "memc optimize in.onnx --dim '?=1'");
        let failure = repeats(&parsed("memc optimize in.onnx --lossy f16")).unwrap_err();
        assert!(failure.diagnostics[0].to_string().contains("`lossy`"), "{}", failure.diagnostics[0]);
    }
}
