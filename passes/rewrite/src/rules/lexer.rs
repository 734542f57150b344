//! Words, brackets and strings of one field of a rule.

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// One of `( ) [ ] { } =`.
    Mark(char),
    /// Anything else that holds no blank.
    Word(String),
    /// Text between quotation marks, without them.
    Text(String),
}

/// Splits a field; `None` where a quotation mark is missing.
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
