//! Splits one field of a rule into words, brackets and strings.

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// One of `( ) [ ] { } =`.
    Mark(char),
    /// Any other text without blanks.
    Word(String),
    /// Text between quotation marks, without these.
    Text(String),
}

/// Splits a field into tokens; `None` if a quotation mark is missing.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            _ if next.is_whitespace() => {}
            '(' | ')' | '[' | ']' | '{' | '}' | '=' => found.push(Token::Mark(next)),
            '"' => {
                let inner: String = rest.by_ref().take_while(|c| *c != '"').collect();
                if !text.contains(&format!("\"{inner}\"")) {
                    return None;
                }
                found.push(Token::Text(inner));
            }
            _ => {
                let mut word = String::from(next);
                while let Some(more) = rest.next_if(|c| !c.is_whitespace() && !"()[]{}=\"".contains(*c)) {
                    word.push(more);
                }
                found.push(Token::Word(word));
            }
        }
    }
    Some(found)
}
