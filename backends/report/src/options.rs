//! Describes requested options in words. The names of options belong to the command line.

use memc_layout::{Io, Layout};

use crate::quantity::{bytes, time};

/// Returns a phrase for each option that differs from memc's default.
pub(crate) fn phrases(layout: &Layout) -> Vec<String> {
    let held = match layout.io {
        Io::Outputs => "the arena holds outputs",
        Io::Arena => "the arena holds inputs and outputs",
        Io::External => "the caller holds inputs and outputs",
    };
    std::iter::once(held.to_owned())
        .chain(layout.options.iter().filter_map(|(key, value)| phrase(key, value)))
        .collect()
}

/// Returns the phrase of one option, or `None` for a default and for an option that another part of the
/// page shows.
fn phrase(key: &str, value: &str) -> Option<String> {
    let is_on = value == "true";
    let said = match (key, value) {
        ("io" | "pareto", _) | ("rewrite", "true") | ("max_fold_bytes", "65536") => return None,
        ("anchors" | "exact" | "std_ops" | "integer_kernels" | "alias_state", "false") => return None,
        ("runtime", "arena") => "for a runtime that obeys the layout".to_owned(),
        ("runtime", "ort") => "for sessions of ONNX Runtime".to_owned(),
        ("runtime", "cuda") => "for sessions of ONNX Runtime on a CUDA device".to_owned(),
        ("runtime", "player") => "for memc run".to_owned(),
        ("anchors", _) if is_on => "order pinned by anchors".to_owned(),
        ("exact", _) if is_on => "exact results, bit for bit".to_owned(),
        ("std_ops", _) if is_on => "only operators of the ONNX standard".to_owned(),
        ("integer_kernels", _) if is_on => "integer kernels".to_owned(),
        ("alias_state", _) if is_on => "new values of state overwrite the old ones".to_owned(),
        ("rewrite", _) => "not rewritten".to_owned(),
        ("budget", _) => format!("budget {}", sizes(value)),
        ("dims", _) => format!("with {}", value.replace(',', ", ")),
        ("effort", _) => format!("search effort {}", grouped(value)),
        ("lossy", _) => lossy(value),
        ("link", _) => value.split(' ').map(link).collect::<Vec<_>>().join(", "),
        ("max_fold_bytes", _) => format!("constants folded up to {}", sizes(value)),
        ("max_value", _) => format!("values up to {}", sizes(value)),
        ("micro_batches", _) => format!("batch in {value} parts"),
        ("last_token", _) => "logits of the last token only".to_owned(),
        ("nchwc", _) => format!("images in blocks of {value} channels"),
        ("passes", _) => format!("pipeline {value}"),
        ("plain", _) => format!("for sessions with default options, {}", value.replace(',', ", ")),
        ("profile", _) => "measured times".to_owned(),
        ("slowdown", _) => format!("up to {value} slower"),
        ("state", _) => format!("state {}", value.replace(' ', ", ")),
        ("time_limit", _) => format!("searches ended after {value} s"),
        ("weights", _) => format!("weights in {value}"),
        _ => format!("{} {value}", key.replace('_', " ")),
    };
    Some(said)
}

/// Tells the lossy forms of values.
fn lossy(value: &str) -> String {
    let (inverse, rounded): (Vec<&str>, Vec<&str>) =
        value.split([',', ' ']).partition(|form| *form == "inverse");
    let rounded = (!rounded.is_empty()).then(|| format!("values rounded to {}", rounded.join(", ")));
    let inverse = inverse.first().map(|_| "values computed back from results".to_owned());
    rounded.into_iter().chain(inverse).collect::<Vec<_>>().join(", ")
}

/// Formats sizes of budgets: `1048576`, `host=1048576`, or per cent.
fn sizes(value: &str) -> String {
    let size = |text: &str| text.parse().map_or_else(|_| text.to_owned(), bytes);
    let one = |text: &str| match text.split_once('=') {
        Some((space, rest)) => format!("{} in {space}", size(rest)),
        None => size(text),
    };
    value.split(',').map(one).collect::<Vec<_>>().join(", ")
}

/// Formats a link, `host=16000000000B/s,10000ns`.
fn link(value: &str) -> String {
    let parts = value.split_once('=').and_then(|(space, rest)| {
        let (rate, latency) = rest.split_once("B/s,")?;
        Some((space, rate.parse::<f64>().ok()?, latency.strip_suffix("ns")?.parse::<f64>().ok()?))
    });
    match parts {
        Some((space, rate, latency)) => {
            format!("{space} linked at {} GB/s after {}", rate / 1e9, time(latency))
        }
        None => format!("linked with {value}"),
    }
}

/// Formats a whole number with a separator between groups of three digits.
fn grouped(value: &str) -> String {
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.to_owned();
    }
    let mut text = String::new();
    for (index, digit) in value.chars().enumerate() {
        if index > 0 && (value.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_said_in_words_and_defaults_not_at_all() {
        let said = |key: &str, value: &str| phrase(key, value).unwrap_or_default();
        assert_eq!(said("exact", "false"), "");
        assert_eq!(said("exact", "true"), "exact results, bit for bit");
        assert_eq!(said("budget", "host=1048576,60%"), "budget 1.0 MiB in host, 60%");
        assert_eq!(said("effort", "20000"), "search effort 20,000");
        assert_eq!(said("link", "host=16000000000B/s,10000ns"), "host linked at 16 GB/s after 10.0 us");
        assert_eq!(said("lossy", "f16,int8"), "values rounded to f16, int8");
        assert_eq!(said("lossy", "inverse"), "values computed back from results");
        assert_eq!(
            said("lossy", "bf16,inverse"),
            "values rounded to bf16, values computed back from results"
        );
        assert_eq!(said("new_option", "7"), "new option 7");
    }
}
