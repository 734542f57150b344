//! Reports for pipelines: a table in Markdown for comments, and the lines that GitHub shows beside a
//! change.

use memc_layout::Layout;

use crate::facts::Facts;
use crate::limits::Row;
use crate::quantity::{bytes, change, share, shortened};
use crate::summary::lines;

/// Maximum number of tensors in the table.
const ALIVE: usize = 8;
/// Longest name of a tensor, in characters.
const NAME: usize = 60;
/// Longest line of the summary, in characters.
const LINE: usize = 300;

/// Returns the plan as Markdown: sizes with their limits, the last line of [`crate::summary_line`], and
/// the largest tensors alive at the peak.
pub fn markdown(layout: &Layout, title: &str, rows: &[Row]) -> String {
    let facts = Facts::of(layout);
    let mut text = format!(
        "### memc: {}\n\n| | size | limit | before | change | |\n|---|--:|--:|--:|--:|---|\n",
        code(title, NAME)
    );
    for row in rows {
        let size = |size: Option<u64>| size.map(bytes).unwrap_or_default();
        let verdict = match (row.limit, row.exceeds()) {
            (None, _) => "",
            (Some(_), false) => "kept",
            (Some(_), true) => "**exceeded**",
        };
        text += &format!(
            "| {} | {} | {} | {} | {} | {verdict} |\n",
            cell(&row.title()),
            row.bytes.map_or_else(|| "unknown".to_owned(), bytes),
            size(row.limit),
            size(row.before),
            growth(row)
        );
    }
    let summary: Vec<String> = lines(&facts).iter().map(|line| code(line, LINE)).collect();
    text += &format!("\n{}\n", summary.join("<br>"));
    let Some(space) = facts.first() else { return text };
    let profile = &space.profile;
    text += "\n<details><summary>Largest tensors alive at the peak</summary>\n\n| tensor | size | share |\n|---|--:|--:|\n";
    for owner in profile.alive_at(profile.peak_step).iter().take(ALIVE) {
        let name = layout.tensors.get(owner.tensor).map_or("", |tensor| tensor.name.as_str());
        text += &format!(
            "| {} | {} | {} |\n",
            code(name, NAME),
            bytes(owner.bytes),
            share(owner.bytes, profile.peak)
        );
    }
    text + "\n</details>\n"
}

/// Returns workflow commands of GitHub: an error for each size beyond its limit, then the summary as a
/// notice.
pub fn github(layout: &Layout, file: &str, rows: &[Row]) -> String {
    let line = |kind: &str, title: &str, text: &str| {
        format!("::{kind} file={},title={}::{}\n", property(file), property(title), data(text))
    };
    let exceeded = rows.iter().filter(|row| row.exceeds());
    let mut text: String =
        exceeded.map(|row| line("error", &format!("memc: {}", row.title()), &sentence(row))).collect();
    text += &line("notice", "memc", &lines(&Facts::of(layout)).join("\n"));
    text
}

/// Describes a size beyond its limit: `arena of device: 640.0 KiB (655,360 B) exceeds 512.0 KiB
/// (524,288 B)`.
pub fn sentence(row: &Row) -> String {
    let exact = |size: u64| format!("{} ({} B)", bytes(size), grouped(size));
    let size = row.bytes.map_or_else(|| "an unknown size".to_owned(), exact);
    let limit = row.limit.map_or_else(|| "no limit".to_owned(), exact);
    let before = row.before.map_or_else(String::new, |before| format!("; {} before", exact(before)));
    format!("{}: {size} exceeds {limit}{before}", row.title())
}

/// Change against the earlier plan, in percent.
fn growth(row: &Row) -> String {
    match (row.bytes, row.before) {
        (Some(bytes), Some(before)) if before > 0 => change((bytes as f64 - before as f64) / before as f64),
        (Some(bytes), Some(_)) if bytes > 0 => "new".to_owned(),
        _ => String::new(),
    }
}

/// Formats a number with separators of thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats untrusted text of at most `width` characters as a code span in a cell.
fn code(text: &str, width: usize) -> String {
    let plain = shortened(text, width).replace('`', "'");
    format!("`{}`", plain.replace('|', "\\|"))
}

/// Escapes a text in a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(code("a|b`c\nd", NAME), "`a\\|b'c?d`");
        assert_eq!(data("50 %\nnext"), "50 %25%0Anext");
        assert_eq!(property("a:b,c%"), "a%3Ab%2Cc%25");
        assert_eq!(cell("<b>|"), "&lt;b>\\|");
    }

    #[test]
    fn numbers_have_separators() {
        assert_eq!(
            [0, 999, 1000, 524_288, 1_048_576].map(grouped),
            ["0", "999", "1,000", "524,288", "1,048,576"]
        );
    }
}
