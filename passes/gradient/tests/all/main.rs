//! Tests of gradient rules against the operator table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_gradient::{RuleReads, rule_names, rule_reads};
use memc_ops::{Gradient, all, gradient_named};

#[test]
fn table_and_rules_agree() {
    let mut wrong = Vec::new();
    for info in all() {
        let expected = match rule_reads(info.domain, info.name) {
            Some(RuleReads::Operands) => Gradient::FromOperands,
            Some(RuleReads::Results) => Gradient::FromResults,
            None => Gradient::None,
        };
        let stated = gradient_named(info.domain, info.name);
        let is_zero = stated == Gradient::Zero && expected == Gradient::None;
        if stated != expected && !is_zero {
            wrong.push(format!("{}: the table says {stated:?}, the rule {expected:?}", info.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_for_an_operator_of_the_table() {
    for (domain, name) in rule_names() {
        assert!(memc_ops::find(domain, name).is_some(), "{domain} {name}");
    }
}
