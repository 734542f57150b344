//! Gradient rules: element-wise ones as data, all others as code, one file an operator family.

mod arithmetic;
mod convolution;
pub(crate) mod data;
mod indexing;
mod losses;
mod normalization;
mod pooling;
mod products;
mod recurrent;
mod reduction;
mod resize;
mod shape;
mod signal;
mod slicing;
mod softmax;
mod weights;

use memc_ir::{Node, NodeData, Value};

use crate::emit::Emit;
use crate::error::Refusal;

/// Gradients of the operands of a node, by position; `None` for operands that want none.
pub(crate) type Gradients = Vec<Option<Value>>;

/// A rule: emits the gradients of the operands that want one.
pub(crate) type RuleFn = fn(&mut Emit<'_>, &Site) -> Result<Gradients, Refusal>;

/// Values of a node that a rule reads, besides the gradients of its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleReads {
    /// Operands, and perhaps results. Extents are not counted.
    Operands,
    /// Results alone, or nothing: the operands need not be kept for the gradient.
    Results,
}

/// A rule as code.
pub(crate) struct CodeRule {
    domain: &'static str,
    name: &'static str,
    reads: RuleReads,
    run: RuleFn,
}

impl CodeRule {
    /// Rule of an operator of the standard that reads operands.
    pub(crate) const fn of(name: &'static str, run: RuleFn) -> Self {
        Self { domain: "", name, reads: RuleReads::Operands, run }
    }
    /// Marks a rule that reads results alone, or nothing.
    pub(crate) const fn by_results(mut self) -> Self {
        self.reads = RuleReads::Results;
        self
    }
}

/// Rules as code of all families.
const FAMILIES: &[&[CodeRule]] = &[
    arithmetic::RULES,
    convolution::RULES,
    indexing::RULES,
    losses::RULES,
    normalization::RULES,
    pooling::RULES,
    products::RULES,
    recurrent::RULES,
    reduction::RULES,
    resize::RULES,
    shape::RULES,
    signal::RULES,
    slicing::RULES,
    softmax::RULES,
];

fn code_rules() -> impl Iterator<Item = &'static CodeRule> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Returns the domain and name of every operator with a rule, sorted and without repeats.
#[must_use]
pub fn rule_names() -> Vec<(&'static str, &'static str)> {
    let code = code_rules().map(|rule| (rule.domain, rule.name));
    let mut all: Vec<_> =
        code.chain(data::all().iter().map(|rule| (rule.domain.as_str(), rule.name.as_str()))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns what the rule of an operator reads; `None` without a rule.
#[must_use]
pub fn rule_reads(domain: &str, name: &str) -> Option<RuleReads> {
    let code = code_rules().find(|rule| rule.domain == domain && rule.name == name).map(|rule| rule.reads);
    code.or_else(|| {
        let rules: Vec<_> =
            data::all().iter().filter(|rule| rule.domain == domain && rule.name == name).collect();
        let reads = if rules.iter().any(|rule| rule.reads_operands()) {
            RuleReads::Operands
        } else {
            RuleReads::Results
        };
        (!rules.is_empty()).then_some(reads)
    })
}

/// Whether an operator has a rule.
pub(crate) fn has_rule(data: &NodeData) -> bool {
    rule_reads(&data.operator.domain, &data.operator.name).is_some()
}

/// Emits the gradients of the operands of a node.
pub(crate) fn gradients(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let operator = &site.data.operator;
    if let Some(rule) =
        code_rules().find(|rule| rule.domain == &*operator.domain && rule.name == &*operator.name)
    {
        return (rule.run)(emit, site);
    }
    data::gradients(emit, site).unwrap_or_else(|| Err(Refusal::form("the operator has no rule")))
}

/// A node of the forward pass, with the gradients of its results.
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) data: NodeData,
    /// Gradients of the results, by position.
    pub(crate) gradients: Vec<Option<Value>>,
    /// Whether each operand wants a gradient.
    pub(crate) wanted: Vec<bool>,
    /// Whether statistics of a BatchNormalization are those of the batch, so that its gradient includes
    /// their change.
    pub(crate) of_batch: bool,
}

impl Site {
    /// Returns an operand that may be left out.
    pub(crate) fn operand_or_none(&self, position: usize) -> Option<Value> {
        self.data.inputs.get(position).copied().flatten()
    }

    /// Returns an operand.
    pub(crate) fn operand(&self, position: usize) -> Result<Value, Refusal> {
        self.operand_or_none(position).ok_or_else(|| Refusal::form(format!("operand {position} is left out")))
    }

    /// Returns a result that may be left out.
    pub(crate) fn result(&self, position: usize) -> Option<Value> {
        self.data.outputs.get(position).copied().flatten()
    }

    /// Returns result 0.
    pub(crate) fn first_result(&self) -> Result<Value, Refusal> {
        self.result(0).ok_or_else(|| Refusal::form("result 0 is left out"))
    }

    /// Returns the gradient of result 0, which other results may not have beside it.
    pub(crate) fn gradient(&self) -> Result<Value, Refusal> {
        if let Some(position) = self.gradients.iter().skip(1).position(Option::is_some) {
            return Err(Refusal::form(format!("result {} has no gradient", position + 1)));
        }
        self.gradients.first().copied().flatten().ok_or_else(|| Refusal::form("result 0 has no gradient"))
    }

    /// Whether an operand wants a gradient.
    pub(crate) fn wants(&self, position: usize) -> bool {
        self.wanted.get(position).copied().unwrap_or(false)
    }

    /// Returns the one gradient of operand 0.
    pub(crate) fn only(gradient: Value) -> Result<Gradients, Refusal> {
        Ok(vec![Some(gradient)])
    }
}
