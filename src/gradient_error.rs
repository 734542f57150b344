//! Reasons why a model has no training step, as the command prints them: code, exit code, notes, help.

use memc_gradient::GradientError;

/// Code of a reason why there is no step.
pub(crate) fn code(error: &GradientError) -> &'static str {
    match error {
        GradientError::NoTrainable { .. } => "E0330",
        GradientError::Independent { .. } => "E0331",
        GradientError::Missing { .. } => "E0332",
        GradientError::Opset { .. } => "E0333",
        GradientError::Loss { .. } => "E0334",
        GradientError::Taken { .. } => "E0335",
        GradientError::Defect { .. } => "E0904",
    }
}

/// Exit code of a reason why there is no step: 1 for the model, 2 for the request, 70 for a defect.
pub(crate) fn exit_code(error: &GradientError) -> u8 {
    match error {
        GradientError::NoTrainable { .. }
        | GradientError::Loss { .. }
        | GradientError::Independent { .. } => 2,
        GradientError::Missing { .. } | GradientError::Opset { .. } | GradientError::Taken { .. } => 1,
        GradientError::Defect { .. } => 70,
    }
}

/// Facts about a reason why there is no step, as lines of text.
pub(crate) fn notes(error: &GradientError) -> Vec<String> {
    match error {
        GradientError::Missing { missing } => missing
            .iter()
            .map(|rule| {
                let node = if rule.node.is_empty() { String::new() } else { format!(" \"{}\"", rule.node) };
                let why = rule.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let path = if rule.path.is_empty() {
                    String::new()
                } else {
                    format!("; on the path {}", rule.path.join(", "))
                };
                format!("{}{node}{why}{path}", rule.operator)
            })
            .collect(),
        GradientError::Independent { stops, .. } if !stops.is_empty() => {
            vec![format!("gradients stop at {}", stops.join(", "))]
        }
        _ => Vec::new(),
    }
}

/// Advice on a reason why there is no step.
pub(crate) fn help(error: &GradientError) -> &'static str {
    match error {
        GradientError::NoTrainable { .. } => {
            "name tensors with `--trainable PATTERN`; `memc print MODEL` lists them as `const`"
        }
        GradientError::Independent { .. } => {
            "name other parameters with `--trainable`, or another output with `of=NAME` after the loss"
        }
        GradientError::Missing { .. } => {
            "freeze the parameters before these nodes with `--freeze PATTERN`, or export the model with other operators"
        }
        GradientError::Opset { .. } => "convert the model with ONNX's version converter",
        GradientError::Loss { .. } => "`memc print MODEL` shows the outputs after `return`, with their types",
        GradientError::Taken { .. } => "rename it in the model",
        GradientError::Defect { .. } => {
            "this is a defect of memc: please report it with the model, if it may be shown"
        }
    }
}
