//! Which names stand bare in the text form, and how all other names and strings are quoted.

use std::fmt::Write as _;

/// Whether `byte` may stand in a bare `%name` or `@name`.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'/' | b':' | b'-')
}

/// How many bytes of `text` a bare name at its start takes. `//` begins a comment, and a colon at the end belongs to what follows.
pub(super) fn bare_name_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while bytes.get(len).copied().is_some_and(is_name_byte) && !(bytes[len] == b'/' && bytes.get(len + 1) == Some(&b'/')) {
        len += 1;
    }
    while len > 0 && bytes[len - 1] == b':' {
        len -= 1;
    }
    len
}

/// How many bytes of `text` a word at its start takes: a letter or underscore, then letters, digits, underscores and dots.
pub(super) fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return 0;
    }
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')).count()
}

/// Writes a name after its sigil: bare where it can, quoted otherwise.
pub(super) fn write_name(out: &mut String, sigil: char, name: &str) {
    out.push(sigil);
    if !name.is_empty() && bare_name_len(name) == name.len() {
        out.push_str(name);
    } else {
        write_quoted(out, name.as_bytes());
    }
}

/// Writes a word: bare where it is one (and not the lone underscore, which marks what is left out), quoted otherwise.
pub(super) fn write_word(out: &mut String, word: &str) {
    if word != "_" && !word.is_empty() && word_len(word) == word.len() {
        out.push_str(word);
    } else {
        write_quoted(out, word.as_bytes());
    }
}

/// Writes a string between quotes. Text stays readable; control characters and bytes that are no UTF-8 become escapes.
pub(super) fn write_quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for ch in chunk.valid().chars() {
            match ch {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                // C1 controls and bidirectional overrides would change what a reader sees.
                ch if ch.is_control() || matches!(ch, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}') => {
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

/// The bytes that pairs of hexadecimal digits stand for; `None` where they are no such pairs.
pub(super) fn parse_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
