//! Names of tensors and spaces as identifiers of programming languages, and as text inside comments.

use std::collections::BTreeMap;

/// Hands out identifiers that are unique among all it handed out.
#[derive(Default)]
pub(crate) struct Identifiers {
    /// Each identifier with the last number that was tried behind it.
    taken: BTreeMap<String, u64>,
}

impl Identifiers {
    /// An identifier for a name: ASCII letters in upper case, digits, and `_` for everything else
    /// but at the front. A number is added where two names
    /// would become one; the order of calls decides who gets it.
    pub(crate) fn upper(&mut self, name: &str) -> String {
        let base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        // Names often begin with a slash; the underscore that it becomes tells nothing.
        let trimmed = base.trim_start_matches('_');
        self.unique(if trimmed.is_empty() { "UNNAMED".to_owned() } else { trimmed.to_owned() })
    }

    /// The name itself without what separates fields of a CSV file, made unique in the same way.
    pub(crate) fn field(&mut self, name: &str) -> String {
        let base: String = name.chars().map(|c| if matches!(c, ',' | '"') || c.is_control() { '_' } else { c }).collect();
        self.unique(base)
    }

    fn unique(&mut self, base: String) -> String {
        let mut candidate = base.clone();
        // Where the last search for this base ended: ten thousand equal names take ten thousand looks, not their square.
        let mut count = self.taken.get(&base).copied().unwrap_or(1);
        while self.taken.contains_key(&candidate) {
            count += 1;
            candidate = format!("{base}_{count}");
        }
        if candidate != base {
            self.taken.insert(base, count);
        }
        self.taken.insert(candidate.clone(), 1);
        candidate
    }
}

/// A name as it may stand in a comment of C or Rust: printable ASCII, and nothing that ends the comment or continues a line.
pub(crate) fn comment(name: &str) -> String {
    name.chars().map(|c| if (c.is_ascii_graphic() || c == ' ') && !matches!(c, '*' | '\\' | '?') { c } else { '_' }).collect()
}

/// A string that consists of hexadecimal digits only; anything else is dropped, so that it is safe in a literal.
pub(crate) fn hexadecimal(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).collect()
}

/// Dimensions as `[1, 64, 56, 56]`.
pub(crate) fn shape(dimensions: &[u64]) -> String {
    let text: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", text.join(", "))
}
