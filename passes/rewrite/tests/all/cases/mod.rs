//! Cases of rules: small modules to which a rule applies, and modules that one of its conditions
//! refuses.
//!
//! `rules/NAME.mem` contains the cases of a rule: `// applies: SENTENCE` or `// refused: SENTENCE`, then
//! a module in the text form. A line `// also refused by types: CONDITION` names a condition that types
//! and kernels imply whenever the rule applies. `// careful: CONDITION: REASON` names a condition
//! without which ONNX Runtime computes equal results, and says why the rule states it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use memc_cost::CostModel;
use memc_ir::{Bytes, Module, text};
use memc_ops::Profile;
use memc_rewrite::{Limits, Rule, RuleBook, Setting, Shift, apply, every_form, fragments, own_bytes};

/// One case of a rule.
pub struct Case {
    /// Sentence about the purpose of the case.
    pub title: String,
    /// Whether the rule applies.
    pub applies: bool,
    pub module: Module,
}

/// All cases of a rule.
#[derive(Default)]
pub struct Cases {
    pub cases: Vec<Case>,
    /// Conditions that types and kernels imply.
    pub implied: Vec<String>,
    /// Conditions that are stated for another reason than the results of ONNX Runtime.
    pub careful: Vec<String>,
}

/// Returns the folder of this crate, also when the test runs from another crate of the repository.
pub fn home() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let below = here.join("passes/rewrite");
    if below.is_dir() { below } else { here.to_owned() }
}

/// Reads the cases of a rule.
pub fn read(rule: &str) -> Cases {
    let path = home().join(format!("tests/rules/{rule}.mem"));
    let whole = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("rule `{rule}` has no cases: {}: {error}", path.display()));
    let mut found = Cases::default();
    let mut open: Option<(bool, String, String)> = None;
    for line in whole.lines().chain(["// end"]) {
        let next =
            [("// applies: ", true), ("// refused: ", false)].into_iter().find_map(|(word, applies)| {
                line.strip_prefix(word).map(|title| (applies, title.to_owned(), String::new()))
            });
        if next.is_some() || line == "// end" {
            if let Some((applies, title, text)) = std::mem::replace(&mut open, next) {
                found.cases.push(Case { module: module(rule, &title, &text), title, applies });
            }
        } else if let Some(condition) = line.strip_prefix("// also refused by types: ") {
            found.implied.push(condition.to_owned());
        } else if let Some(condition) = line.strip_prefix("// careful: ") {
            let (condition, reason) =
                condition.split_once(": ").unwrap_or_else(|| panic!("{rule}: no reason: {line}"));
            assert!(!reason.is_empty(), "{rule}: {line}");
            found.careful.push(condition.to_owned());
        } else if let Some((_, _, text)) = &mut open {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

fn module(rule: &str, title: &str, body: &str) -> Module {
    let parsed = text::parse(&format!("mem 1\nir_version 8\n{body}"));
    let mut module = parsed.unwrap_or_else(|errors| panic!("{rule}, {title}: {}", errors[0]));
    let inference = memc_ops::infer(&mut module);
    assert!(inference.diagnostics.is_empty(), "{rule}, {title}: {}", inference.diagnostics[0]);
    module
}

/// Returns a book with one rule, or with that rule without the condition of number `without`.
pub fn book(rule: &Rule, without: Option<usize>) -> RuleBook {
    let lines = rule
        .text
        .lines()
        .enumerate()
        .filter(|(number, _)| without.is_none_or(|gone| places(rule)[gone] != *number));
    let text: Vec<&str> = lines.map(|(_, line)| line).collect();
    let whole = format!("{}\n", text.join("\n"));
    RuleBook::parse(&[("one", &whole)]).unwrap_or_else(|error| panic!("{error}\n{whole}"))
}

/// Returns the numbers of the lines with conditions in the rule's text.
fn places(rule: &Rule) -> Vec<usize> {
    let is_condition = |line: &str| ["where ", "and "].iter().any(|word| line.trim_start().starts_with(word));
    rule.text.lines().enumerate().filter(|(_, line)| is_condition(line)).map(|(number, _)| number).collect()
}

/// Returns the conditions of a rule as they are written, without the leading word.
pub fn conditions(rule: &Rule) -> Vec<String> {
    let lines: Vec<&str> = rule.text.lines().collect();
    let written = |number: usize| lines[number].trim().split_once(' ').unwrap().1.trim().to_owned();
    places(rule).into_iter().map(written).collect()
}

/// Returns the distinct forms of a module that the only rule of a book makes.
pub fn forms(module: &Module, book: &RuleBook) -> Vec<Module> {
    let cost = CostModel::default();
    let limits = Limits::default();
    let setting = Setting {
        book,
        profile: &Profile::ORT,
        cost: &cost,
        opset: module.opsets.get("").copied().unwrap_or(0),
        exact: false,
        standard: false,
        fold_cap: Bytes(64 << 10),
        weights: true,
        empty: false,
        limits,
    };
    let mut found: Vec<Module> = Vec::new();
    for fragment in fragments(module, &limits, Shift::None, &own_bytes) {
        for replacement in every_form(module, &fragment, &setting) {
            let mut other = module.clone();
            apply(&mut other, &[(&fragment, &replacement)]);
            memc_ops::infer(&mut other);
            if !found.iter().any(|known| text::print(known) == text::print(&other)) {
                found.push(other);
            }
        }
    }
    found
}

/// A condition, a case that only this condition refuses, and the forms that the rule makes without it.
pub type Mutant<'c> = (String, Option<(&'c Case, Vec<Module>)>);

/// Finds, for each condition of a rule, a case that only this condition refuses.
pub fn mutants<'c>(rule: &Rule, cases: &'c Cases) -> Vec<Mutant<'c>> {
    let refused: Vec<&Case> = cases.cases.iter().filter(|case| !case.applies).collect();
    let conditions = conditions(rule).into_iter().enumerate();
    conditions
        .map(|(number, condition)| {
            let mutated = book(rule, Some(number));
            let found = refused.iter().find_map(|case| {
                let forms = forms(&case.module, &mutated);
                (!forms.is_empty()).then_some((*case, forms))
            });
            (condition, found)
        })
        .collect()
}
