//! Plots budgets and the extra time of the plans within them.

use std::fmt::Write as _;

use memc_layout::{Layout, ParetoPoint};

use crate::quantity::{bytes, time};

/// Size of the plot, and of the margins for the axes, in pixels of the SVG.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;
/// Maximum number of ticks of an axis, without the tick at 0.
const TICKS: f64 = 5.0;

/// Returns a section with the curve of extra time over budgets, its lower bound, and a table of the
/// points. Empty if the layout has no points.
pub(crate) fn plot(layout: &Layout) -> String {
    let mut points = layout.pareto.clone();
    points.sort_by_key(|point| (point.budget, point.arena, point.extra_ns));
    let base = base_ns(layout);
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
        return String::new();
    };
    let frame = Frame::of(&points, (first.budget, last.budget), base);
    let mut text = String::from("<section class=\"pareto\"><h2>Budget and time</h2>\n");
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Extra time over budget\">"
    );
    frame.axes(&mut text);
    let bounds: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((frame.x(point.budget), frame.y(point.bound?)))).collect();
    line(&mut text, "bound", &bounds);
    let curve: Vec<(f64, f64)> =
        points.iter().map(|point| (frame.x(point.budget), frame.y(point.extra_ns))).collect();
    line(&mut text, "curve", &curve);
    for (point, (x, y)) in points.iter().zip(&curve) {
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}</title></circle>",
            words(point, base)
        );
    }
    text.push_str("</svg>\n");
    table(&mut text, &points, base);
    text.push_str("</section>\n");
    text
}

/// Returns the time of a plan without a limit, in nanoseconds. Extra time is a share of this time.
fn base_ns(layout: &Layout) -> f64 {
    layout.cost.modelled_ns_before.max(1.0)
}

fn percent(ns: u64, base: f64) -> String {
    format!("+{:.2} %", ns as f64 * 100.0 / base)
}

fn words(point: &ParetoPoint, base: f64) -> String {
    let bound = point.bound.map_or_else(String::new, |bound| format!(", at least {}", percent(bound, base)));
    format!(
        "{}: arena {}, {} ({}){bound}",
        bytes(point.budget),
        bytes(point.arena),
        percent(point.extra_ns, base),
        time(point.extra_ns as f64)
    )
}

/// Ranges of budgets (bytes) and extra times (ns) on the plot.
struct Frame {
    least: f64,
    most: f64,
    slowest: f64,
    base: f64,
}

impl Frame {
    fn of(points: &[ParetoPoint], (least, most): (u64, u64), base: f64) -> Self {
        let slowest = points.iter().map(|point| point.extra_ns).max().unwrap_or(0) as f64;
        let room = (most - least) as f64 * 0.04 + 1.0;
        Self {
            least: (least as f64 - room).max(0.0),
            most: most as f64 + room,
            slowest: (slowest * 1.08).max(base * 1e-3),
            base,
        }
    }

    fn x(&self, budget: u64) -> f64 {
        LEFT + (budget as f64 - self.least) / (self.most - self.least) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ns: u64) -> f64 {
        HEIGHT - BOTTOM - ns as f64 / self.slowest * (HEIGHT - BOTTOM - TOP)
    }

    /// Draws ticks at round numbers: powers of two in bytes, and 1, 2 or 5 times a power of ten in per
    /// cent.
    fn axes(&self, text: &mut String) {
        let base = HEIGHT - BOTTOM;
        for budget in
            ticks(self.least, self.most, 2f64.powf(((self.most - self.least) / TICKS).max(1.0).log2().ceil()))
        {
            let x = self.x(budget as u64);
            // Align the last label at its end, or the border would cut it off.
            let anchor = if x > WIDTH - RIGHT - 24.0 { "end" } else { "middle" };
            let words = bytes(budget as u64).replace(".0 ", " ");
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{base:.1}\" y2=\"{:.1}\"/>",
                base + 5.0
            );
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
                base + 20.0
            );
        }
        let most = self.slowest * 100.0 / self.base;
        let step = round_step(most / TICKS);
        // Show the number of decimals of the step.
        let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        for percent in ticks(0.0, most, step) {
            let y = self.y((percent / 100.0 * self.base) as u64);
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - RIGHT
            );
            let (x, y) = (LEFT - 8.0, y + 4.0);
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">+{percent:.decimals$} %</text>"
            );
        }
    }
}

/// Returns the multiples of a step within a range, at most 64.
fn ticks(least: f64, most: f64, step: f64) -> Vec<f64> {
    let first = (least / step).ceil();
    (0..64).map(|index| (first + f64::from(index)) * step).take_while(|value| *value <= most).collect()
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least)
        .unwrap_or(power * 10.0)
}

fn line(text: &mut String, class: &str, points: &[(f64, f64)]) {
    if points.len() < 2 {
        return;
    }
    let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(text, "<polyline class=\"{class}\" points=\"{}\"/>", list.join(" "));
}

/// Writes the numbers of the plot as a table, for copying and for readers who cannot see the plot.
fn table(text: &mut String, points: &[ParetoPoint], base: f64) {
    text.push_str(
        "<div class=\"scroll\"><table class=\"plain\"><thead><tr><th class=\"num\">Budget</th><th class=\"num\">Arena</th>\
         <th class=\"num\">Extra time</th><th class=\"num\">Of the whole</th><th class=\"num\">Lower bound</th></tr></thead><tbody>\n",
    );
    for point in points.iter().rev() {
        let bound = point.bound.map_or_else(|| "?".to_owned(), |bound| percent(bound, base));
        let cells = [
            bytes(point.budget),
            bytes(point.arena),
            time(point.extra_ns as f64),
            percent(point.extra_ns, base),
            bound,
        ];
        let row: String = cells.iter().map(|cell| format!("<td class=\"num\">{cell}</td>")).collect();
        let _ = writeln!(text, "<tr>{row}</tr>");
    }
    text.push_str("</tbody></table></div>\n");
}
