//! Converts names of tensors and spaces to identifiers of programming languages, and to text for
//! comments and strings.

use std::collections::BTreeMap;

/// Maximum length of an identifier, in characters. With the longest prefix and suffix that emitters
/// add, the total stays below 60: C99 distinguishes only the first 63 characters of a macro's name.
const MAX_LENGTH: usize = 36;
/// Maximum length of a name in a string literal, in bytes. C99 guarantees 4,095 characters, and a byte
/// takes up to four.
const MAX_STRING: usize = 1000;

/// Creates identifiers that are unique within this object.
#[derive(Default)]
pub(crate) struct Identifiers {
    /// Each identifier with the last number that was tried as its suffix.
    taken: BTreeMap<String, u64>,
}

impl Identifiers {
    /// Returns a unique identifier for a name, of at most [`MAX_LENGTH`] characters: ASCII letters in
    /// upper case, digits, and `_` for every other character. It does not begin with `_`.
    ///
    /// A longer name keeps its beginning and its end, with a hash of the whole name between them, so
    /// that it keeps its identifier in the plan of a changed model. If two names would become equal,
    /// the later call gets a number.
    pub(crate) fn upper(&mut self, name: &str) -> String {
        let base: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        // Names often begin with a slash, and its underscore has no meaning.
        let trimmed = base.trim_start_matches('_');
        let short = if trimmed.len() > MAX_LENGTH { shortened(trimmed, name) } else { trimmed.to_owned() };
        self.unique(if short.is_empty() { "UNNAMED".to_owned() } else { short }, MAX_LENGTH)
    }

    /// Returns the name with separators of CSV fields replaced by `_`, made unique by a number.
    pub(crate) fn field(&mut self, name: &str) -> String {
        let base: String =
            name.chars().map(|c| if matches!(c, ',' | '"') || c.is_control() { '_' } else { c }).collect();
        self.unique(base, usize::MAX)
    }

    /// Returns the base if it is unused. Otherwise shortens the base and appends the smallest number
    /// that makes it unique. A base of more than `length` bytes is ASCII.
    fn unique(&mut self, base: String, length: usize) -> String {
        let mut candidate = base.clone();
        // Continue at the end of the last search for this base: 10,000 equal names take 10,000 lookups,
        // not the square of that.
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

/// Returns the beginning and the end of an ASCII identifier with a hash of the original name between
/// them.
fn shortened(identifier: &str, name: &str) -> String {
    // FNV-1a gives equal hashes on every machine and in every version.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let digits = format!("_{hash:08X}_");
    let kept = MAX_LENGTH - digits.len();
    let (front, back) = (kept / 2, identifier.len() - (kept - kept / 2));
    format!(
        "{}{digits}{}",
        identifier.get(..front).unwrap_or_default(),
        identifier.get(back..).unwrap_or_default()
    )
}

/// Returns a name as text for a comment of C or Rust: printable ASCII, without characters that end the
/// comment or continue a line.
pub(crate) fn comment(name: &str) -> String {
    name.chars()
        .map(|c| if (c.is_ascii_graphic() || c == ' ') && !matches!(c, '*' | '\\' | '?') { c } else { '_' })
        .collect()
}

/// Returns a name as a string literal of C. UTF-8; bytes other than printable ASCII become octal
/// escapes; no trigraphs. A name beyond [`MAX_STRING`] bytes is cut.
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

/// Returns the hexadecimal digits of a string, which are safe in a literal. Drops all other characters.
pub(crate) fn hexadecimal(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).collect()
}

/// Formats dimensions as `[1, 64, 56, 56]`.
pub(crate) fn shape(dimensions: &[u64]) -> String {
    let text: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", text.join(", "))
}
