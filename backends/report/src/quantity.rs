//! Formats sizes, shares and times for readers.

/// Formats a size in the largest binary unit in which it is at least 1, with one decimal: `640.0 KiB`.
/// Below 1 KiB: `40 B`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would round to 1024.0, so the next unit starts there.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a fraction with its sign as `+2.1 %`.
pub(crate) fn change(fraction: f64) -> String {
    // Adding zero turns a negative zero, which would print a minus, into zero.
    format!("{:+.1} %", (fraction * 1000.0).round() / 10.0 + 0.0)
}

/// Formats a change as [`change`] does; `?` if it is not known.
pub(crate) fn change_or_unknown(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| "?".to_owned(), change)
}

/// Formats a part of a whole as `31.4 %`; 0 if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}

/// Formats nanoseconds as `12 ns`, `3.4 us`, `1.820 ms` or `2.000 s`.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.3} ms", ns / 1e6),
        ns => format!("{:.3} s", ns / 1e9),
    }
}

/// Formats a count with its noun in singular or plural: `1 view`, `2 views`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Shortens a text to at most `width` characters of printable ASCII. The middle of a longer text
/// becomes `..`, because both ends of a tensor's name help to locate it.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let plain: Vec<char> =
        text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    if plain.len() <= width || width < 4 {
        return plain.into_iter().take(width).collect();
    }
    let tail = (width - 2) / 2;
    let head = width - 2 - tail;
    let mut short: String = plain[..head].iter().collect();
    short.push_str("..");
    short.extend(&plain[plain.len() - tail..]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_round_to_1024_use_the_next_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_525, "1.0 MiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn changes_have_a_sign_and_no_negative_zero() {
        assert_eq!([0.0, -0.0001, 0.021, -0.5].map(change), ["+0.0 %", "+0.0 %", "+2.1 %", "-50.0 %"]);
    }

    #[test]
    fn times_change_unit() {
        assert_eq!(
            [0.0, 999.0, 1500.0, 1.82e6, 2e9].map(time),
            ["0 ns", "999 ns", "1.5 us", "1.820 ms", "2.000 s"]
        );
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("/encoder/layer.0/output", 12), "/enco..utput");
        assert_eq!(shortened("a\tb\u{e9}", 12), "a?b?");
        assert_eq!(shortened("abcdef", 3), "abc");
    }
}
