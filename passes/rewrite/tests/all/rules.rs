//! Tests of rules: every rule applies to its cases, changes the graph as its snapshot shows, and each
//! condition refuses some case.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::cases;

use memc_ir::{Module, text};
use memc_rewrite::{Rule, RuleBook};

fn rules() -> &'static [Rule] {
    RuleBook::standard().unwrap().rules()
}

/// Returns the printed graph without the header.
fn graph(module: &Module) -> String {
    let printed = text::print(module);
    printed[printed.find("graph @").unwrap()..].to_owned()
}

#[test]
fn each_rule_applies_as_its_snapshot_shows() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let book = cases::book(rule, None);
        let cases = cases::read(&rule.name);
        assert!(cases.cases.iter().any(|case| case.applies), "{}: no case in which it applies", rule.name);
        let mut shown = String::new();
        for case in &cases.cases {
            let forms = cases::forms(&case.module, &book);
            if forms.is_empty() == case.applies {
                let word = if case.applies { "does not apply" } else { "applies" };
                wrong.push(format!(
                    "{} {word}: {}\n{}",
                    rule.name,
                    case.title,
                    graph(forms.first().unwrap_or(&case.module))
                ));
                continue;
            }
            if case.applies && shown.is_empty() {
                shown = format!("{}\n{}\nis\n{}", case.title, graph(&case.module), graph(&forms[0]));
            }
        }
        insta::assert_snapshot!(rule.name.as_str(), shown);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_condition_keeps_a_case_away() {
    let mut idle = Vec::new();
    for rule in rules() {
        let cases = cases::read(&rule.name);
        for (condition, found) in cases::mutants(rule, &cases) {
            let implied = cases.implied.contains(&condition);
            if found.is_some() == implied {
                idle.push(format!(
                    "{}: {condition}: {}",
                    rule.name,
                    if implied { "refuses a case" } else { "refuses no case" }
                ));
            }
        }
    }
    assert!(idle.is_empty(), "\n{}", idle.join("\n"));
}
