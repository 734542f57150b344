//! The known name that a mistyped name most likely means.

/// Number of characters that are compared. Names in models may be long, and the time is quadratic.
const MAX_NAME: usize = 64;

/// Returns the known name with the fewest typing errors, or `None` if more than half of the letters of the
/// longer name are wrong.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let start = |name: &str| name.chars().take(MAX_NAME).collect::<String>();
    let name = start(name);
    let ranked = known.into_iter().map(|other| (strsim::damerau_levenshtein(&name, &start(other)), other));
    let longest = |other: &str| name.chars().count().max(other.chars().count());
    ranked.min().filter(|(errors, other)| errors * 2 <= longest(other)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_few_typing_errors_is_found() {
        let known = ["moment_1", "moment_2", "weight"];
        assert_eq!(nearest("moment2", known), Some("moment_2"));
        assert_eq!(nearest("wieght", known), Some("weight"));
        assert_eq!(nearest("loss", known), None);
        assert_eq!([nearest("gg", ["g"]), nearest("z", ["x"])], [Some("g"), None]);
    }
}
