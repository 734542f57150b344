//! Names of tensors and spaces as identifiers of programming languages, and as text inside comments and strings.

use std::collections::BTreeMap;

/// Characters of an identifier, at most. With the longest words that emitters put around it, it stays below 60: C99 tells apart the
/// first 63 characters of a macro's name, and no more.
const MAX_LENGTH: usize = 36;
/// Bytes of a name in a string, at most: C99 promises 4,095 characters, with up to four for a byte.
const MAX_STRING: usize = 1000;

/// Hands out identifiers that are unique among all it handed out.
#[derive(Default)]
pub(crate) struct Identifiers {
    /// Each identifier with the last number that was tried behind it.
    taken: BTreeMap<String, u64>,
}

impl Identifiers {
    /// An identifier for a name, of at most [`MAX_LENGTH`] characters: ASCII letters in upper case, digits, and `_` for everything else
    /// but at the front.
    ///
    /// A longer name keeps its beginning and its end, with a hash of the whole between them, so that it is called the same in the plan
    /// of a changed model. A number is added where two names would become one; the order of calls decides who gets it.
    pub(crate) fn upper(&mut self, name: &str) -> String {
        let base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        // Names often begin with a slash; the underscore that it becomes tells nothing.
        let trimmed = base.trim_start_matches('_');
        let short = if trimmed.len() > MAX_LENGTH { shortened(trimmed, name) } else { trimmed.to_owned() };
        self.unique(if short.is_empty() { "UNNAMED".to_owned() } else { short }, MAX_LENGTH)
    }

    /// The name itself without what separates fields of a CSV file, made unique in the same way.
    pub(crate) fn field(&mut self, name: &str) -> String {
        let base: String = name.chars().map(|c| if matches!(c, ',' | '"') || c.is_control() { '_' } else { c }).collect();
        self.unique(base, usize::MAX)
    }

    /// The base, or its beginning with the least number behind it that makes it unique. A base of more than `length` bytes is ASCII.
    fn unique(&mut self, base: String, length: usize) -> String {
        let mut candidate = base.clone();
        // Where the last search for this base ended: ten thousand equal names take ten thousand looks, not their square.
        let mut count = self.taken.get(&base).copied().unwrap_or(1);
        while self.taken.contains_key(&candidate) {
            count += 1;
            let number = format!("_{count}");
            let room = length.saturating_sub(number.len());
            candidate = base.get(..room).unwrap_or(&base).to_owned() + &number;
        }
        if candidate != base {
            self.taken.insert(base, count);
        }
        self.taken.insert(candidate.clone(), 1);
        candidate
    }
}

/// The beginning and the end of an ASCII identifier around a hash of the name that it comes from.
fn shortened(identifier: &str, name: &str) -> String {
    // FNV-1a: the same on every machine and in every version.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let digits = format!("_{hash:08X}_");
    let kept = MAX_LENGTH - digits.len();
    let (front, back) = (kept / 2, identifier.len() - (kept - kept / 2));
    format!("{}{digits}{}", identifier.get(..front).unwrap_or_default(), identifier.get(back..).unwrap_or_default())
}

/// A name as it may stand in a comment of C or Rust: printable ASCII, and nothing that ends the comment or continues a line.
pub(crate) fn comment(name: &str) -> String {
    name.chars().map(|c| if (c.is_ascii_graphic() || c == ' ') && !matches!(c, '*' | '\\' | '?') { c } else { '_' }).collect()
}

/// A name as a string literal of C: UTF-8, octal escapes for what is not printable ASCII, no trigraph; the beginning of a name that is
/// longer than compilers must take.
pub(crate) fn c_string(name: &str) -> String {
    let mut text = String::from("\"");
    for byte in name.bytes().take(MAX_STRING) {
        match byte {
            b'"' | b'\\' | b'?' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text.push('"');
    text
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
