//! Writes a calibrated target: the text of another one, with a line for each kind of kernel.

use crate::line::Lines;

/// Beginning of the tables of kinds.
const TABLE: &str = "[machine.kinds.";

/// Returns the text of a target with another name, summary and lines of kinds; comments and all else stay. `base`
/// is the text of a target, `from` says what was measured.
pub fn calibrated(base: &str, name: &str, from: &str, lines: &Lines) -> String {
    let from: String = from
        .chars()
        .map(|letter| if letter.is_control() || "\"\\".contains(letter) { ' ' } else { letter })
        .collect();
    let mut text = format!("# Calibrated by `memc calibrate` on {from}.\n");
    let mut section = "";
    for line in base.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        match (section, key) {
            (table, _) if table.starts_with(TABLE) => {}
            _ if line.starts_with("# Calibrated by") => {}
            ("", "name") => text += &format!("name = \"{name}\"\n"),
            ("", "summary") => text += &format!("summary = \"{from}\"\n"),
            _ => text += &format!("{line}\n"),
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (kind, line) in lines.iter() {
        let [overhead, rates @ ..] = line.costs;
        text += &format!("\n{TABLE}{}]\n", kind.name());
        if overhead > 0.0 {
            text += &format!("overhead_ns = {:.1}\n", overhead.min(1e12));
        }
        let keys = ["flops_per_second", "gathered_per_second", "cached_bytes_per_second", "bytes_per_second"];
        for (key, cost) in keys.into_iter().zip(rates).filter(|(_, cost)| *cost > 0.0) {
            // Four digits: more would say more than the measurement.
            text += &format!("{key} = {:.3e}\n", (1e9 / cost).clamp(1.0, 1e24));
        }
        text += &format!("error = {:.3}\n", line.error.min(100.0));
    }
    text
}
