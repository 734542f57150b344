//! Settings of rewriting: rules, runtime, costs and limits.

use memc_cost::CostModel;
use memc_ir::{Bytes, Operator};
use memc_ops::Profile;

use crate::rules::{Class, Rule, RuleBook, Template};

/// Limits of one fragment, all in counts: results are equal on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of nodes of a fragment.
    pub nodes: usize,
    /// Maximum number of e-nodes of its e-graph.
    pub terms: usize,
    /// Maximum number of rounds over all rules.
    pub rounds: usize,
    /// Maximum number of matches of one rule in one round.
    pub matches: usize,
    /// Maximum number of candidates to keep, the original included.
    pub candidates: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 96, terms: 5_000, rounds: 8, matches: 500, candidates: 6 }
    }
}

/// Settings of rewriting.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The rules.
    pub book: &'a RuleBook,
    /// Runtime that executes the result.
    pub profile: &'a Profile,
    /// Cost model of nodes.
    pub cost: &'a CostModel,
    /// Version of ONNX's operator set in the module.
    pub opset: i64,
    /// Whether only rules that change no bit are used.
    pub exact: bool,
    /// Whether only operators of the ONNX standard are made.
    pub standard: bool,
    /// Maximum size of a folded constant, in bytes.
    pub fold_cap: Bytes,
    /// Whether the bytes of all weights can be read, so that they can be joined and split before the
    /// model runs.
    pub weights: bool,
    /// Whether values may have no elements, so that only kernels that take this are made.
    pub empty: bool,
    /// Limits of each fragment.
    pub limits: Limits,
}

impl Setting<'_> {
    /// Returns whether a rule may be applied.
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
    /// Returns an operator in the version that the result uses, or `None` if the result may not use it.
    pub(crate) fn operator(&self, domain: &str, name: &str) -> Option<Operator> {
        let version = if domain.is_empty() { self.opset } else { 1 };
        let operator = Operator { domain: domain.into(), name: name.into(), overload: "".into(), version };
        let admitted = !(self.standard && self.profile.is_own(&operator)) && self.profile.may_have(&operator);
        (admitted && (!self.empty || self.profile.takes_empty(&operator))).then_some(operator)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rules_make_kernels_for_empty_operands() {
        let (book, cost) = (RuleBook::standard().unwrap(), CostModel::default());
        let with = |empty: bool| Setting {
            book,
            profile: &Profile::ORT,
            cost: &cost,
            opset: 21,
            exact: false,
            standard: false,
            fold_cap: Bytes(0),
            weights: true,
            empty,
            limits: Limits::default(),
        };
        let is_made = |empty: bool, name: &str| with(empty).operator("", name).is_some();
        assert!(is_made(false, "GroupNormalization") && !is_made(true, "GroupNormalization"));
        assert!(is_made(true, "SimplifiedLayerNormalization"));
        let is_lost = |rule: &&Rule| with(false).admits(rule) && !with(true).admits(rule);
        let lost: Vec<&str> = book.rules().iter().filter(is_lost).map(|rule| rule.name.as_str()).collect();
        let is_lost = |name: &str| lost.contains(&name);
        assert!(is_lost("product-scaled") && !is_lost("rms-normalization-18"), "{lost:?}");
    }
}
