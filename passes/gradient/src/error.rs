//! Reasons why a module has no training step.

/// Reason why a rule has no gradient for a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The rule needs extents that are not known.
    #[error("the extents of `{value}` are not known")]
    Shape {
        /// Name of the value.
        value: String,
    },
    /// The rule does not cover this form of the operator.
    #[error("{why}")]
    Form {
        /// The part of the form that is not covered.
        why: String,
    },
}

impl Refusal {
    /// Refuses a form of an operator.
    pub(crate) fn form(why: impl Into<String>) -> Self {
        Self::Form { why: why.into() }
    }
}

/// A node between a trainable parameter and the loss that has no gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRule {
    /// Operator of the node.
    pub operator: String,
    /// Name of the node; empty if it has none.
    pub node: String,
    /// Nodes from the loss to this one, by operator and name, the loss first.
    pub path: Vec<String>,
    /// Reason, if a rule exists that does not cover the node.
    pub why: Option<String>,
}

/// Reason why a module has no training step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GradientError {
    /// No parameter is trainable: the model has none, or all are frozen (the request's fault).
    #[error("no parameter is trainable: {why}")]
    NoTrainable {
        /// What was looked for.
        why: String,
    },
    /// The loss does not depend on parameters that the request names, or on any parameter.
    #[error("the loss does not depend on {}", list(names))]
    Independent {
        /// Names of the parameters.
        names: Vec<String>,
        /// Nodes at which gradients stop on the way, by operator and name.
        stops: Vec<String>,
    },
    /// Nodes without a gradient rule.
    #[error("{} on the way to the loss {} no gradient", count(missing.len()), if missing.len() == 1 { "has" } else { "have" })]
    Missing {
        /// The nodes, in the order of the graph.
        missing: Vec<MissingRule>,
    },
    /// The operator set is too old for the operators that gradients need.
    #[error(
        "the model imports operator set {version}, and {} operator set {least} or later",
        node.as_ref().map_or_else(|| "gradients need".to_owned(), |node| format!("{node} needs"))
    )]
    Opset {
        /// Version of the operator set.
        version: i64,
        /// Oldest version that is supported.
        least: i64,
        /// Node whose form is not converted, if one is the reason.
        node: Option<String>,
    },
    /// The output that the loss is computed from does not exist or does not fit (the request's fault).
    #[error("the loss `{loss}` cannot be computed: {why}")]
    Loss {
        /// Name of the loss.
        loss: &'static str,
        /// Reason.
        why: String,
    },
    /// A name of the step's interface is taken by an input or output of the model.
    #[error("the model already has {what} `{name}`, which the step needs for itself")]
    Taken {
        /// `an input` or `an output`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A rule made a node that does not fit its operands (a defect of memc).
    #[error("the gradient of {node} is wrong: {why}")]
    Defect {
        /// The node.
        node: String,
        /// Reason.
        why: String,
    },
}

fn list(names: &[String]) -> String {
    match names {
        [] => "any trainable parameter".to_owned(),
        [one] => format!("`{one}`"),
        [first, rest @ ..] => format!("`{first}` and {} more", rest.len()),
    }
}

fn count(nodes: usize) -> String {
    if nodes == 1 { "a node".to_owned() } else { format!("{nodes} nodes") }
}
