//! Arguments of `memc optimize` as words of a command.

use clap::ValueEnum;

use super::args::{Codes, Inputs, Machine, Optimize};
use memc::{Runtime, Size};

/// Returns the command that repeats a plan. Options that change no plan and no file of the plan are left out.
pub fn of(arguments: &Optimize) -> String {
    words(arguments).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The words of a command. The patterns name every option, so that a new one cannot be forgotten.
fn words(arguments: &Optimize) -> Vec<String> {
    let Optimize {
        input,
        second,
        output,
        budget,
        slo,
        slowdown,
        exact,
        layout,
        report,
        inputs,
        max_value,
        pareto,
        time_limit,
        engines,
        profile,
        no_rewrite,
        std_ops,
        integer_kernels,
        nchwc,
        micro_batches,
        last_token,
        encode,
        lossy,
        keep_wide,
        encode_weights,
        anchors,
        weights_in_place,
        force: _,
        external_data,
        depfile: _,
        session: _,
        json: _,
        machine,
        log_plans: _,
        time_passes: _,
        print_ir_after: _,
        dump_dir: _,
    } = arguments;
    let Machine {
        runtime,
        target,
        effort,
        threads: _,
        links,
        scratch,
        align,
        weights,
        io,
        alias_state,
        state,
        max_fold_bytes,
        passes,
    } = machine;
    let folded = Size::Bytes(memc_passes::Options::default().max_fold_bytes.0);
    let mut words: Vec<String> = ["memc", "optimize"].map(str::to_owned).to_vec();
    words.push(input.display().to_string());
    let mut option = |name: &str, values: Vec<String>| {
        words.extend(values.into_iter().flat_map(|value| [format!("--{name}"), value]));
    };
    option("output", some(output.as_ref().or(second.as_ref()).map(|path| path.display())));
    for (name, values) in of_inputs(inputs) {
        option(name, values);
    }
    option("budget", all(budget));
    option("slo", some(*slo));
    option("slowdown", some((*slowdown > 0).then(|| format!("{}%", f64::from(*slowdown) / 100.0))));
    option("max-value", some(*max_value));
    option("pareto", some((*pareto > 0).then_some(pareto)));
    option("time-limit", some(time_limit.map(|time| time.as_secs_f64())));
    option("engines", some((*engines > 1).then_some(engines)));
    option("profile", some(profile.as_ref().map(|path| path.display())));
    option("nchwc", some(nchwc.and_then(|blocks| blocks.0)));
    option("micro-batches", some(*micro_batches));
    option("encode", some((*encode != Codes::Exact).then(|| name(encode))));
    option("lossy", lossy.iter().map(name).collect());
    option("keep-wide", all(keep_wide));
    option("encode-weights", some(encode_weights.as_ref().map(name)));
    option("layout", layout.iter().map(|path| path.display().to_string()).collect());
    option("report", report.iter().map(|path| path.display().to_string()).collect());
    option("external-data", some(external_data.as_ref()));
    option("runtime", some((*runtime != Runtime::default()).then(|| runtime.name())));
    option("target", some((target != "cpu").then_some(target)));
    option("effort", some((*effort != memc_solve::Limit::default().nodes).then_some(effort)));
    option("link", all(links));
    option("scratch", some(scratch.as_ref().map(|path| path.display())));
    option("align", some(*align));
    option("weights", some(weights.as_ref()));
    option("io", some(io.as_ref().map(name)));
    option("state", state.iter().map(|pair| format!("{}={}", pair.new, pair.old)).collect());
    option("max-fold-bytes", some((*max_fold_bytes != folded).then_some(max_fold_bytes)));
    option("passes", some(passes.as_ref()));
    let flags = [
        ("exact", *exact),
        ("std-ops", *std_ops),
        ("no-rewrite", *no_rewrite),
        ("integer-kernels", *integer_kernels),
        ("last-token", *last_token),
        ("anchors", *anchors),
        ("weights-in-place", *weights_in_place),
        ("alias-state", *alias_state),
        ("allow-unbound", inputs.allow_unbound),
    ];
    words.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("--{name}")));
    words
}

/// The options of inputs, with their values.
fn of_inputs(inputs: &Inputs) -> Vec<(&'static str, Vec<String>)> {
    let Inputs {
        dims,
        dim_max,
        #[cfg(feature = "ort")]
        dim_from,
        assume,
        allow_unbound: _,
    } = inputs;
    vec![
        ("dim", dims.iter().map(|(name, extent)| format!("{name}={extent}")).collect()),
        ("dim-max", all(dim_max)),
        #[cfg(feature = "ort")]
        ("dim-from", some(dim_from.as_ref().map(|path| path.display()))),
        ("assume", assume.iter().map(|(name, size)| format!("{name}={size}")).collect()),
    ]
}

fn all(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn some(value: Option<impl ToString>) -> Vec<String> {
    value.iter().map(ToString::to_string).collect()
}

/// The name of a value on the command line.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
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
    use crate::cli::command::{Cli, Command};
    use crate::cli::optimize;
    use clap::Parser as _;

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
            "memc optimize in.onnx --budget 1MB --encode-weights int8 --last-token --max-value 3000 --pareto 3",
            "memc optimize in.onnx --lossy f16 --lossy inverse --keep-wide a* --encode off --max-fold-bytes 1KiB",
            "memc optimize in.onnx --link host=16GB/s --weights host --engines 2 --align 64 --target cpu --state a=b",
            "memc optimize in.onnx --passes fold,place --time-limit 2.5 --assume n=3 --dim-max a*b<=9 --anchors",
        ] {
            let arguments = parsed(line);
            let again = parsed(&of(&arguments).replace('\'', ""));
            assert_eq!(format!("{again:?}"), format!("{arguments:?}"));
            let stated = |arguments| optimize::request(arguments).unwrap().stated();
            assert_eq!(stated(&again), stated(&arguments));
        }
        assert_eq!(of(&parsed("memc optimize in.onnx --dim ?=1")), "memc optimize in.onnx --dim '?=1'");
    }
}
