//! Patterns of names, as options state them.

/// Returns whether a name fits a pattern, in which each `*` stands for any text. O(pattern x name).
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("fc1.weight", "fc1.weight", true),
            ("fc1.weight", "fc1.weights", false),
            ("*.bias", "fc1.bias", true),
            ("*.bias", "bias", false),
            ("h.*.attn.*", "h.11.attn.c_proj.weight", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("*b*b*", "abcb", true),
            ("*b*b*", "abc", false),
            ("a*c*e", "abde", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
