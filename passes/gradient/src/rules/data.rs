//! Rules as data: reads `.grad` files and emits their forms.
//!
//! The spelling is that of templates of rewriting rules, but not their reader: those templates are built in
//! the e-graph of a fragment and have no bare numbers, while these are emitted into a module once, with
//! numbers of the element type of the gradient.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memc_ir::{NodeData, Value};

use super::{Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

/// Files of rules.
const FILES: &[&str] = &[include_str!("../../rules/elementwise.grad")];

/// Most nested applications in a form.
const MAX_DEPTH: usize = 32;

/// A form: what a gradient equals.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// An operand, the result `y`, the gradient `g` of the result, or a named part.
    Name(String),
    /// An attribute of the node.
    Attribute(String),
    /// A number.
    Number(f64),
    /// An application of an operator of the standard.
    Apply(String, Vec<Form>),
}

/// The rule of one operator, for one form of its attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataRule {
    /// Domain of the operator.
    pub(crate) domain: String,
    /// Name of the operator.
    pub(crate) name: String,
    operands: Vec<String>,
    /// Attributes that are numbers, with their defaults.
    attributes: BTreeMap<String, f64>,
    /// Attribute that must have this value, as text; the first rule of an operator has its default.
    when: Option<(String, String)>,
    parts: Vec<(String, Form)>,
    forms: Vec<(String, Form)>,
}

/// All rules, in the order of their files; an error names the line that cannot be read.
static RULES: LazyLock<Result<Vec<DataRule>, String>> = LazyLock::new(|| {
    let mut rules = Vec::new();
    for file in FILES {
        read(file, &mut rules)?;
    }
    Ok(rules)
});

/// Returns all rules. A file that cannot be read gives none, and a test reads all files.
pub(crate) fn all() -> &'static [DataRule] {
    RULES.as_ref().map_or(&[], Vec::as_slice)
}

fn read(text: &str, rules: &mut Vec<DataRule>) -> Result<(), String> {
    for line in text.lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let wrong = || format!("cannot read `{content}`");
        let (word, rest) = content.split_once(char::is_whitespace).ok_or_else(wrong)?;
        let rest = rest.trim();
        if word == "gradient" {
            rules.push(head(rest).ok_or_else(wrong)?);
            continue;
        }
        let rule = rules.last_mut().ok_or_else(wrong)?;
        match word {
            "when" => {
                let (name, value) = rest.split_once(' ').ok_or_else(wrong)?;
                rule.when = Some((name.to_owned(), value.trim().to_owned()));
            }
            "let" => {
                let (name, form) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
                rule.parts.push((name.to_owned(), parse(form).ok_or_else(wrong)?));
            }
            _ => {
                let operand =
                    word.strip_prefix('?').filter(|name| rule.operands.iter().any(|other| other == name));
                rule.forms.push((operand.ok_or_else(wrong)?.to_owned(), parse(rest).ok_or_else(wrong)?));
            }
        }
    }
    Ok(())
}

/// Reads `domain::Name ?operand $attribute=default`.
fn head(text: &str) -> Option<DataRule> {
    let mut words = text.split_whitespace();
    let operator = words.next()?;
    let (domain, name) = operator.split_once("::").unwrap_or(("", operator));
    let mut rule = DataRule { domain: domain.to_owned(), name: name.to_owned(), ..DataRule::default() };
    for word in words {
        if let Some(operand) = word.strip_prefix('?') {
            rule.operands.push(operand.to_owned());
        } else {
            let (name, default) = word.strip_prefix('$')?.split_once('=')?;
            rule.attributes.insert(name.to_owned(), default.parse().ok()?);
        }
    }
    Some(rule)
}

/// Reads a form, and nothing after it.
fn parse(text: &str) -> Option<Form> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let form = form(&words, &mut at, 0)?;
    (at == words.len()).then_some(form)
}

fn form(words: &[&str], at: &mut usize, depth: usize) -> Option<Form> {
    let word = *words.get(*at)?;
    *at += 1;
    if depth > MAX_DEPTH {
        return None;
    }
    if word != "(" {
        return match word.split_at_checked(1)? {
            ("?", name) => Some(Form::Name(name.to_owned())),
            ("$", name) => Some(Form::Attribute(name.to_owned())),
            _ => word.parse().ok().map(Form::Number),
        };
    }
    let name = (*words.get(*at)?).to_owned();
    *at += 1;
    let mut operands = Vec::new();
    while *words.get(*at)? != ")" {
        operands.push(form(words, at, depth + 1)?);
    }
    *at += 1;
    Some(Form::Apply(name, operands))
}

impl Form {
    /// Whether the form reads a name.
    fn reads(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Apply(_, operands) => operands.iter().any(|operand| operand.reads(name)),
            _ => false,
        }
    }
}

impl DataRule {
    /// Whether the rule reads an operand, rather than the result alone.
    pub(crate) fn reads_operands(&self) -> bool {
        let forms = || self.forms.iter().chain(&self.parts).map(|(_, form)| form);
        self.operands.iter().any(|operand| forms().any(|form| form.reads(operand)))
    }

    /// Whether the rule is for the attributes of a node. `is_first` says that it is the first rule of its
    /// operator, which also holds if the attribute is left out.
    fn fits(&self, node: &NodeData, is_first: bool) -> bool {
        let Some((name, value)) = &self.when else { return true };
        node.string(name).map_or(is_first, |own| own == value)
    }

    /// Emits the gradients of the wanted operands, each reduced to the extents of its operand.
    fn emit(&self, emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
        let gradient = site.gradient()?;
        let mut names: BTreeMap<&str, Value> = BTreeMap::from([("g", gradient)]);
        names.extend(site.result(0).map(|result| ("y", result)));
        for (position, name) in self.operands.iter().enumerate() {
            names.extend(site.operand_or_none(position).map(|value| (name.as_str(), value)));
        }
        let wanted: Vec<&(String, Form)> = self
            .forms
            .iter()
            .filter(|(name, _)| {
                self.operands.iter().position(|own| own == name).is_some_and(|at| site.wants(at))
            })
            .collect();
        let mut made = Builder { emit, site, rule: self, names, known: Vec::new() };
        for (name, form) in &self.parts {
            if wanted.iter().any(|(_, wanted)| wanted.reads(name)) {
                let value = made.build(form)?;
                made.names.insert(name, value);
            }
        }
        let mut gradients = vec![None; self.operands.len()];
        for (name, form) in wanted {
            let Some(position) = self.operands.iter().position(|own| own == name) else { continue };
            let Some(operand) = site.operand_or_none(position) else { continue };
            let whole = made.build(form)?;
            gradients[position] = Some(made.emit.unbroadcast(whole, operand)?);
        }
        Ok(gradients)
    }
}

/// Builder of the forms of one rule at one node.
struct Builder<'b, 'e, 'm> {
    emit: &'b mut Emit<'e>,
    site: &'b Site,
    rule: &'m DataRule,
    names: BTreeMap<&'m str, Value>,
    /// Applications built so far: equal parts of a rule are one node.
    known: Vec<(String, Vec<Value>, Value)>,
}

impl<'m> Builder<'_, '_, 'm> {
    fn build(&mut self, form: &'m Form) -> Result<Value, Refusal> {
        let gradient = self.site.gradient()?;
        match form {
            Form::Name(name) => {
                let value = self.names.get(name.as_str()).copied();
                value.ok_or_else(|| Refusal::form(format!("operand `{name}` is left out")))
            }
            Form::Number(number) => Ok(self.emit.number(*number, gradient)),
            Form::Attribute(name) => {
                let default = self.rule.attributes.get(name).copied().unwrap_or_default();
                let stated =
                    self.site.data.attribute(name).map(|_| f64::from(self.site.data.float(name, 0.0)));
                Ok(self.emit.number(stated.unwrap_or(default), gradient))
            }
            Form::Apply(name, operands) => {
                let operands =
                    operands.iter().map(|operand| self.build(operand)).collect::<Result<Vec<_>, _>>()?;
                let is_it =
                    |(other, inputs, _): &&(String, Vec<Value>, Value)| other == name && *inputs == operands;
                if let Some((.., made)) = self.known.iter().find(is_it) {
                    return Ok(*made);
                }
                let made = self.emit.op(name, &operands);
                self.known.push((name.clone(), operands, made));
                Ok(made)
            }
        }
    }
}

/// Emits the gradients of a node by its rule; `None` if no rule is for its operator.
pub(crate) fn gradients(emit: &mut Emit<'_>, site: &Site) -> Option<Result<Gradients, Refusal>> {
    let operator = &site.data.operator;
    let of = |rule: &&DataRule| rule.domain == *operator.domain && rule.name == *operator.name;
    let mut rules = all().iter().filter(of).enumerate().peekable();
    rules.peek()?;
    let rule = rules.find(|(at, rule)| rule.fits(&site.data, *at == 0));
    let missing = || Refusal::form("no rule is for these attributes");
    Some(rule.ok_or_else(missing).and_then(|(_, rule)| rule.emit(emit, site)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_files_can_be_read() {
        assert_eq!(RULES.as_ref().err(), None);
        assert!(all().len() > 30);
    }

    #[test]
    fn forms_read_names_of_their_rule() {
        fn names(form: &Form, found: &mut Vec<String>) {
            match form {
                Form::Name(name) | Form::Attribute(name) => found.push(name.clone()),
                Form::Number(_) => {}
                Form::Apply(_, operands) => operands.iter().for_each(|operand| names(operand, found)),
            }
        }
        for rule in all() {
            let mut found = Vec::new();
            rule.forms.iter().chain(&rule.parts).for_each(|(_, form)| names(form, &mut found));
            for name in found {
                let is_known = ["g", "y"].contains(&name.as_str())
                    || rule.operands.contains(&name)
                    || rule.attributes.contains_key(&name)
                    || rule.parts.iter().any(|(part, _)| *part == name);
                assert!(is_known, "{}: {name}", rule.name);
            }
        }
    }

    #[test]
    fn a_line_that_is_no_rule_is_refused() {
        for text in [
            "?x ?g",
            "gradient Neg ?x\n  ?z ?g",
            "gradient Neg ?x\n  ?x (Neg ?g",
            "gradient Neg ?x $a\n  ?x ?g",
        ] {
            assert!(read(text, &mut Vec::new()).is_err(), "{text}");
        }
    }
}
