//! Names and strings of the text form: which names may be bare, and how the others are quoted.

use std::fmt::Write as _;

/// Whether `byte` may occur in a bare `%name` or `@name`.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'/' | b':' | b'-')
}

/// Length in bytes of the bare name at the start of `text`. `//` begins a comment, and a trailing colon
/// is not part of the name.
pub(super) fn bare_name_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while bytes.get(len).copied().is_some_and(is_name_byte)
        && !(bytes[len] == b'/' && bytes.get(len + 1) == Some(&b'/'))
    {
        len += 1;
    }
    while len > 0 && bytes[len - 1] == b':' {
        len -= 1;
    }
    len
}

/// Length in bytes of the word at the start of `text`: a letter or underscore, then letters, digits,
/// underscores and dots.
pub(super) fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return 0;
    }
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')).count()
}

/// Writes a sigil and a name: bare if possible, else quoted.
pub(super) fn write_name(out: &mut String, sigil: char, name: &str) {
    out.push(sigil);
    if !name.is_empty() && bare_name_len(name) == name.len() {
        out.push_str(name);
    } else {
        write_quoted(out, name.as_bytes());
    }
}

/// Writes a word: bare if possible, else quoted. A lone underscore is quoted, because bare it marks an
/// omitted operand.
pub(super) fn write_word(out: &mut String, word: &str) {
    if word != "_" && !word.is_empty() && word_len(word) == word.len() {
        out.push_str(word);
    } else {
        write_quoted(out, word.as_bytes());
    }
}

/// Writes a quoted string. Printable text stays readable; control characters and bytes that are not
/// UTF-8 become escapes.
pub(super) fn write_quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for ch in chunk.valid().chars() {
            match ch {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                // C1 controls and bidirectional overrides would change the displayed text.
                ch if ch.is_control()
                    || matches!(ch, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}') =>
                {
                    write_bytes(out, ch.encode_utf8(&mut [0; 4]).as_bytes());
                }
                ch => out.push(ch),
            }
        }
        write_bytes(out, chunk.invalid());
    }
    out.push('"');
}

fn write_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// Writes bytes as pairs of hexadecimal digits between quotes.
pub(super) fn write_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('"');
}

/// Decodes pairs of hexadecimal digits; `None` if the text is anything else.
pub(super) fn parse_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
