//! Reads rule files. The grammar is in `doc/rules.md`.

use memc_ir::Attribute;

use super::compute::function;
use super::condition::predicate;
use super::lexer::{Token, tokens};
use super::pattern::{ApplyPattern, AttributePattern, Condition, Expression, Pattern, Template, Wanted};
use super::{Class, Memory, Rule, RuleBook};

/// Maximum depth of nested patterns.
const MAX_DEPTH: usize = 64;

/// Reason why a rule file cannot be read (the file's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{family}: rule `{rule}`: {why}")]
pub struct RuleError {
    /// Family of the file.
    pub family: String,
    /// Name of the rule, as far as it is known.
    pub rule: String,
    /// Description of the error.
    pub why: String,
}

/// Words that begin a field.
const FIELDS: [&str; 10] =
    ["rule", "class", "memory", "opset", "find", "where", "and", "make", "also", "why"];

/// Reads the rules of a file into the book.
pub(super) fn read(family: &'static str, text: &str, book: &mut RuleBook) -> Result<(), RuleError> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        if FIELDS.contains(&word) {
            fields.push((word.to_owned(), rest.trim().to_owned()));
        } else if let Some((_, value)) = fields.last_mut().filter(|_| !line.trim().is_empty()) {
            value.push(' ');
            value.push_str(line.trim());
        }
    }
    let mut rest = fields.as_slice();
    while let Some(((word, value), tail)) = rest.split_first() {
        if word != "rule" {
            let why = format!("`{word}` stands before the first rule");
            return Err(RuleError { family: family.to_owned(), rule: String::new(), why });
        }
        let end = tail.iter().position(|(word, _)| word == "rule").unwrap_or(tail.len());
        let (own, after) = tail.split_at(end);
        rest = after;
        let rule = rule(family, value, own, text)?;
        if book.find(&rule.name).is_some() {
            return Err(RuleError {
                family: family.to_owned(),
                rule: rule.name,
                why: "stands twice".to_owned(),
            });
        }
        book.rules.push(rule);
    }
    Ok(())
}

fn rule(
    family: &'static str,
    head: &str,
    fields: &[(String, String)],
    text: &str,
) -> Result<Rule, RuleError> {
    let (name, summary) = head.split_once(':').unwrap_or((head, ""));
    let error = |why: String| RuleError { family: family.to_owned(), rule: name.trim().to_owned(), why };
    let mut rule = Rule {
        name: name.trim().to_owned(),
        summary: summary.trim().to_owned(),
        why: String::new(),
        family,
        class: Class::Approximate,
        memory: Memory::Raises,
        opset: (0, i64::MAX),
        text: source(text, name.trim()),
        find: Vec::new(),
        conditions: Vec::new(),
        make: Vec::new(),
        operands: 0,
        attributes: 0,
    };
    // Read the fields; operands and attributes share their numbers across all fields.
    let mut names = Names::default();
    let mut stated = (false, false);
    for (word, value) in fields {
        let mut reader = Reader {
            tokens: tokens(value).ok_or_else(|| error("a quotation mark is missing".into()))?,
            at: 0,
            depth: 0,
        };
        let outcome = match word.as_str() {
            "class" => class(value).map(|class| {
                rule.class = class;
                stated.0 = true;
            }),
            "memory" => memory(value).map(|memory| {
                rule.memory = memory;
                stated.1 = true;
            }),
            "opset" => opset(value).map(|opset| rule.opset = opset),
            "find" => reader.pattern(&mut names).map(|pattern| rule.find.push(pattern)),
            "where" | "and" => reader.condition(&mut names).map(|condition| rule.conditions.push(condition)),
            "make" => reader.template(&mut names).map(|template| rule.make.push((None, template))),
            "also" => {
                reader.also(&mut names).map(|(target, template)| rule.make.push((Some(target), template)))
            }
            _ => {
                rule.why.clone_from(value);
                reader.at = reader.tokens.len();
                Some(())
            }
        };
        let whole = matches!(word.as_str(), "class" | "memory" | "opset") || reader.at == reader.tokens.len();
        outcome.filter(|_| whole).ok_or_else(|| error(format!("cannot read `{word} {value}`")))?;
    }
    // Check that no required field is missing.
    (rule.operands, rule.attributes) = (names.operands.len(), names.attributes.len());
    let complete =
        stated == (true, true) && !rule.find.is_empty() && !rule.make.is_empty() && !rule.summary.is_empty();
    if !complete {
        return Err(error("needs a sentence, `class`, `memory`, `find` and `make`".to_owned()));
    }
    Ok(rule)
}

/// Returns the lines of a rule in its file.
fn source(text: &str, name: &str) -> String {
    let begins =
        |line: &&str| line.strip_prefix("rule ").is_some_and(|rest| rest.split(':').next() == Some(name));
    let mut lines = text.lines().skip_while(|line| !begins(line));
    let mut found: Vec<&str> = lines.next().into_iter().collect();
    found.extend(lines.take_while(|line| !line.starts_with("rule ") && !line.starts_with('#')));
    format!("{}\n", found.join("\n").trim_end())
}

fn class(text: &str) -> Option<Class> {
    [Class::Exact, Class::Reassociates, Class::Approximate].into_iter().find(|class| class.name() == text)
}

fn memory(text: &str) -> Option<Memory> {
    [Memory::Lowers, Memory::Same, Memory::Raises, Memory::Halves]
        .into_iter()
        .find(|memory| memory.name() == text)
}

/// Reads `13..`, `..17` or `13..17`, the last version included.
fn opset(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once("..")?;
    let bound = |text: &str, open: i64| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some((bound(first, 0)?, bound(last, i64::MAX)?))
}

/// Names of operands and attributes, in order of first occurrence.
#[derive(Default)]
struct Names {
    operands: Vec<String>,
    attributes: Vec<String>,
}

fn number_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|other| other == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

impl Names {
    fn operand(&mut self, name: &str) -> usize {
        number_of(&mut self.operands, name)
    }
    fn attribute(&mut self, name: &str) -> usize {
        number_of(&mut self.attributes, name)
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }
    fn next(&mut self) -> Option<Token> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }
    fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }
    fn word(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }
    /// Returns whether the next tokens are `name=`.
    fn is_attribute(&self) -> bool {
        let named = matches!(self.peek(), Some(Token::Word(word)) if !word.starts_with('?'));
        named && self.tokens.get(self.at + 1) == Some(&Token::Mark('='))
    }
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { None } else { inner(self) };
        self.depth -= 1;
        result
    }

    fn pattern(&mut self, names: &mut Names) -> Option<Pattern> {
        self.deeper(|reader| reader.pattern_inner(names))
    }
    fn pattern_inner(&mut self, names: &mut Names) -> Option<Pattern> {
        if self.take('(') {
            return self.apply_pattern(names).map(Pattern::Apply);
        }
        let word = self.word()?;
        if word == "_" {
            return Some(Pattern::Absent);
        }
        if let Some(name) = word.strip_prefix('?') {
            let number = names.operand(name);
            if self.take('=') {
                return Some(Pattern::Named(number, Box::new(self.pattern(names)?)));
            }
            return Some(Pattern::Variable(number));
        }
        let (digits, near) = word.strip_suffix('~').map_or((word.as_str(), false), |digits| (digits, true));
        digits.parse().ok().map(|value| Pattern::Number { value, near })
    }
    fn apply_pattern(&mut self, names: &mut Names) -> Option<ApplyPattern> {
        let (domain, name, result) = head(&self.word()?)?;
        let result = result.map(|(position, _)| position);
        let mut pattern = ApplyPattern {
            domain,
            name,
            result,
            attributes: Vec::new(),
            open: None,
            operands: Vec::new(),
            rest: None,
        };
        while !self.take(')') {
            if self.is_attribute() {
                let name = self.word()?;
                self.take('=');
                let (name, optional) =
                    name.strip_suffix('?').map_or((name.clone(), false), |name| (name.to_owned(), true));
                let wanted = match self.peek()? {
                    Token::Word(word) if word.starts_with('$') => {
                        Wanted::Variable(names.attribute(&self.word()?[1..]))
                    }
                    _ => Wanted::Literal(self.literal()?),
                };
                pattern.attributes.push(AttributePattern { name, optional, wanted });
                continue;
            }
            match self.peek()? {
                Token::Word(word) if word.starts_with("..$") => {
                    let word = self.word()?;
                    pattern.open = Some(names.attribute(&word[3..]));
                }
                Token::Word(word) if word.starts_with('?') && word.ends_with("...") => {
                    let word = self.word()?;
                    pattern.rest = Some(names.operand(&word[1..word.len() - 3]));
                }
                _ => pattern.operands.push(self.pattern(names)?),
            }
        }
        Some(pattern)
    }

    fn template(&mut self, names: &mut Names) -> Option<Template> {
        self.deeper(|reader| reader.template_inner(names))
    }
    fn template_inner(&mut self, names: &mut Names) -> Option<Template> {
        if self.take('(') {
            return self.apply_template(names);
        }
        if self.take('{') {
            let value = self.expression(names)?;
            let mut like = None;
            if !self.take('}') {
                (self.word()? == "like").then_some(())?;
                like = Some(names.operand(self.word()?.strip_prefix('?')?));
                self.take('}').then_some(())?;
            }
            return Some(Template::Constant { value, like });
        }
        let word = self.word()?;
        match word.strip_prefix('?') {
            None => (word == "_").then_some(Template::Absent),
            Some(name) => Some(match name.strip_suffix("...") {
                Some(name) => Template::Splice(names.operand(name)),
                None => Template::Variable(names.operand(name)),
            }),
        }
    }
    fn apply_template(&mut self, names: &mut Names) -> Option<Template> {
        let (domain, name, result) = head(&self.word()?)?;
        let result = match result {
            Some((position, count)) => Some((position, count?)),
            None => None,
        };
        let (mut attributes, mut open, mut operands) = (Vec::new(), None, Vec::new());
        while !self.take(')') {
            if self.is_attribute() {
                let name = self.word()?;
                self.take('=');
                attributes.push((name, self.expression(names)?));
                continue;
            }
            match self.peek()? {
                Token::Word(word) if word.starts_with("..$") => {
                    let word = self.word()?;
                    open = Some(names.attribute(&word[3..]));
                }
                _ => operands.push(self.template(names)?),
            }
        }
        Some(Template::Apply { domain, name, result, attributes, open, operands })
    }
    fn also(&mut self, names: &mut Names) -> Option<(usize, Template)> {
        let target = names.operand(self.word()?.strip_prefix('?')?);
        Some((target, self.template(names)?))
    }

    fn condition(&mut self, names: &mut Names) -> Option<Condition> {
        let mut word = self.word()?;
        let negated = word == "not";
        if negated {
            word = self.word()?;
        }
        let predicate = predicate(&word)?;
        let mut arguments = Vec::new();
        while self.peek().is_some() {
            arguments.push(self.expression(names)?);
        }
        (arguments.len() >= predicate.arguments).then_some(Condition { negated, predicate, arguments })
    }
    fn expression(&mut self, names: &mut Names) -> Option<Expression> {
        self.deeper(|reader| reader.expression_inner(names))
    }
    fn expression_inner(&mut self, names: &mut Names) -> Option<Expression> {
        if self.take('(') {
            let function = function(&self.word()?)?;
            let mut arguments = Vec::new();
            while !self.take(')') {
                arguments.push(self.expression(names)?);
            }
            return Some(Expression::Call(function, arguments));
        }
        match self.peek()? {
            Token::Word(word) if word.starts_with('$') => {
                Some(Expression::Attribute(names.attribute(&self.word()?[1..])))
            }
            Token::Word(word) if word.starts_with('?') => {
                let word = self.word()?;
                Some(Expression::Operand(names.operand(word[1..].trim_end_matches("..."))))
            }
            _ => self.literal().map(Expression::Literal),
        }
    }

    /// Reads an integer, a number with a point, a text, a bare word (a text too), or a list of integers
    /// or numbers.
    fn literal(&mut self) -> Option<Attribute> {
        match self.next()? {
            Token::Text(text) => Some(Attribute::String(text.into_bytes().into())),
            Token::Word(word) => {
                Some(number(&word).unwrap_or_else(|| Attribute::String(word.into_bytes().into())))
            }
            Token::Mark('[') => {
                let mut items = Vec::new();
                while !self.take(']') {
                    items.push(number(&self.word()?)?);
                }
                list(&items)
            }
            Token::Mark(_) => None,
        }
    }
}

fn number(word: &str) -> Option<Attribute> {
    word.parse().map(Attribute::Int).ok().or_else(|| word.parse().map(Attribute::Float).ok())
}

fn list(items: &[Attribute]) -> Option<Attribute> {
    let int = |item: &Attribute| if let Attribute::Int(value) = item { Some(*value) } else { None };
    let float = |item: &Attribute| if let Attribute::Float(value) = item { Some(*value) } else { None };
    let ints: Option<Vec<i64>> = items.iter().map(int).collect();
    let floats = || items.iter().map(float).collect::<Option<Vec<f32>>>();
    ints.map(Attribute::Ints).or_else(|| floats().map(Attribute::Floats))
}

/// Position of a result, and the number of results if it is written.
type Place = (u32, Option<u32>);

/// Splits `domain::Name#2/3` into domain, name, and the position and number of results.
fn head(word: &str) -> Option<(String, String, Option<Place>)> {
    let (operator, result) = match word.split_once('#') {
        None => (word, None),
        Some((operator, result)) => match result.split_once('/') {
            Some((position, count)) => (operator, Some((position.parse().ok()?, Some(count.parse().ok()?)))),
            None => (operator, Some((result.parse().ok()?, None))),
        },
    };
    let (domain, name) = operator.split_once("::").unwrap_or(("", operator));
    Some((domain.to_owned(), name.to_owned(), result))
}
