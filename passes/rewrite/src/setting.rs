//! What rewriting is told: rules, runtime, costs and limits.

use memc_cost::CostModel;
use memc_ir::{Bytes, Operator};
use memc_ops::Profile;

use crate::rules::{Class, Rule, RuleBook, Template};

/// Limits of one fragment, all in counts: results are the same on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes of a fragment.
    pub nodes: usize,
    /// E-nodes of its e-graph.
    pub terms: usize,
    /// Rounds over all rules.
    pub rounds: usize,
    /// Matches of one rule in one round.
    pub matches: usize,
    /// Candidates that are kept, the original included.
    pub candidates: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 96, terms: 5_000, rounds: 8, matches: 500, candidates: 6 }
    }
}

/// What rewriting is told.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The rules.
    pub book: &'a RuleBook,
    /// Who runs the result.
    pub profile: &'a Profile,
    /// What nodes cost.
    pub cost: &'a CostModel,
    /// Version of ONNX's operator set in the module.
    pub opset: i64,
    /// Only rules that change no bit.
    pub exact: bool,
    /// Only operators of the ONNX standard.
    pub standard: bool,
    /// What depends on constants alone is folded up to this size.
    pub fold_cap: Bytes,
    /// Whether the bytes of all weights can be read, so that they can be joined and taken apart before the model runs.
    pub weights: bool,
    /// Limits of each fragment.
    pub limits: Limits,
}

impl Setting<'_> {
    /// Whether a rule may be applied.
    pub(crate) fn admits(&self, rule: &Rule) -> bool {
        let class = if self.exact { rule.class == Class::Exact } else { rule.class <= Class::Reassociates };
        class
            && (rule.opset.0..=rule.opset.1).contains(&self.opset)
            && rule.make.iter().all(|(_, template)| self.has_operators(template))
    }
    fn has_operators(&self, template: &Template) -> bool {
        match template {
            Template::Apply { domain, name, operands, .. } => {
                let operator = self.operator(domain, name);
                operator.is_some() && operands.iter().all(|operand| self.has_operators(operand))
            }
            _ => true,
        }
    }
    /// An operator that the result may use.
    pub(crate) fn operator(&self, domain: &str, name: &str) -> Option<Operator> {
        let version = if domain.is_empty() { self.opset } else { 1 };
        let operator = Operator { domain: domain.into(), name: name.into(), overload: "".into(), version };
        let admitted = !(self.standard && self.profile.is_own(&operator)) && self.profile.may_have(&operator);
        admitted.then_some(operator)
    }
}
