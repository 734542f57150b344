//! Fits the line of a kind of kernel to measured times.
//!
//! The line is a sum of terms with costs that are not negative, and minimizes the squares of relative
//! errors, as times spread over many orders of magnitude. With five terms there are 31 sets of terms that
//! may be above zero; the normal equations of each are solved, and the best admissible solution is the
//! optimum. Times that are too long and times that are too short by the same factor weigh the same, and
//! times that are far off weigh less (Huber's loss): the solution is repeated with the weights that follow
//! from the one before. On kernels of eleven public sets of devices, sums of arithmetic and traffic err by
//! less than the larger of both.

use crate::line::{Amounts, Line, TERMS};

/// Least number of probes of a line: as many as terms, and one to tell the error.
pub const FEWEST: usize = TERMS + 1;

/// A measured kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probe {
    /// Amounts of the node.
    pub amounts: Amounts,
    /// Measured time in nanoseconds, above 0.
    pub nanos: f64,
}

/// Position of the term of bytes from and to memory.
const FAR: usize = TERMS - 1;

/// Share of a probe's bytes from which those of memory tell about their rate.
const TELLING: f64 = 0.1;

/// Number of such probes from which the rate of memory is fitted.
const TELLERS: usize = 4;

/// Returns the line of a kind with its left-out error; `None` with fewer probes than [`FEWEST`]. Probes
/// without time are ignored. Kinds of which few probes read memory get `memory` nanoseconds per byte from
/// there. O(n²).
pub fn fit(probes: &[Probe], memory: f64) -> Option<Line> {
    let timed: Vec<&Probe> = probes.iter().filter(|probe| probe.nanos > 0.0).collect();
    if timed.len() < FEWEST {
        return None;
    }
    let tells = |probe: &&&Probe| probe.amounts.far >= TELLING * (probe.amounts.far + probe.amounts.near);
    let is_told = timed.iter().filter(tells).count() >= TELLERS;
    let rows: Vec<[f64; TERMS]> = timed.iter().map(|probe| relative(probe, is_told)).collect();
    let mut errors = 0.0;
    for left_out in 0..rows.len() {
        let mut others = rows.clone();
        let row = others.swap_remove(left_out);
        errors += predicted(&best(&others), &row).max(f64::MIN_POSITIVE).ln().abs();
    }
    let mut costs = best(&rows);
    if !is_told {
        costs[FAR] = memory;
    }
    // The mean factor: a time that is twice as long as predicted is as wrong as one of half the length.
    Some(Line { costs, error: (errors / rows.len() as f64).exp_m1() })
}

/// Factors of the terms over the measured time: a line that predicts 1 is right.
fn relative(probe: &Probe, is_told: bool) -> [f64; TERMS] {
    let mut row = probe.amounts.factors().map(|factor| factor / probe.nanos);
    if !is_told {
        row[FAR] = 0.0;
    }
    row
}

/// Number of solutions, each with weights from the one before.
const ROUNDS: usize = 10;

/// Logarithm of the ratio of two times beyond which a probe weighs less.
const FAR_OFF: f64 = 0.25;

/// Costs that are not negative, with the least loss.
fn best(rows: &[[f64; TERMS]]) -> [f64; TERMS] {
    let mut weights = vec![1.0; rows.len()];
    let mut costs = least_squares(rows, &weights);
    for _ in 1..ROUNDS {
        for (weight, row) in weights.iter_mut().zip(rows) {
            let ratio = predicted(&costs, row).clamp(1e-3, 1e3);
            *weight = (FAR_OFF / ratio.ln().abs()).min(1.0) / ratio;
        }
        costs = least_squares(rows, &weights);
    }
    costs
}

fn predicted(costs: &[f64; TERMS], row: &[f64; TERMS]) -> f64 {
    costs.iter().zip(row).map(|(cost, factor)| cost * factor).sum()
}

/// Costs with the least weighted sum of squares among those that are not negative.
fn least_squares(rows: &[[f64; TERMS]], weights: &[f64]) -> [f64; TERMS] {
    // Scales of the terms keep the equations well conditioned.
    let mut scales = [0.0_f64; TERMS];
    let (mut squares, mut sums) = ([[0.0_f64; TERMS]; TERMS], [0.0_f64; TERMS]);
    for row in rows {
        for (scale, factor) in scales.iter_mut().zip(row) {
            *scale = scale.max(factor.abs());
        }
    }
    for (row, weight) in rows.iter().zip(weights) {
        let row: [f64; TERMS] =
            std::array::from_fn(|term| if scales[term] > 0.0 { row[term] / scales[term] } else { 0.0 });
        for (left, own) in row.iter().enumerate() {
            sums[left] += weight * own;
            for (right, other) in row.iter().enumerate() {
                squares[left][right] += weight * own * other;
            }
        }
    }
    let mut found: Option<(f64, [f64; TERMS])> = None;
    for set in 1..1_u32 << TERMS {
        let terms: Vec<usize> = (0..TERMS).filter(|term| set >> term & 1 == 1).collect();
        let Some(costs) = solved(&squares, &sums, &terms) else { continue };
        // Squares of errors, up to the sum of the weights, which is common to all.
        let lost: f64 = terms.iter().map(|term| -costs[*term] * sums[*term]).sum();
        if found.as_ref().is_none_or(|(least, _)| lost < *least - 1e-12) {
            found = Some((lost, costs));
        }
    }
    let costs = found.map_or([0.0; TERMS], |(_, costs)| costs);
    std::array::from_fn(|term| if scales[term] > 0.0 { costs[term] / scales[term] } else { 0.0 })
}

/// Solves the normal equations of some terms; `None` if they have no solution, or one that is not positive.
fn solved(squares: &[[f64; TERMS]; TERMS], sums: &[f64; TERMS], terms: &[usize]) -> Option<[f64; TERMS]> {
    let count = terms.len();
    let mut rows: Vec<Vec<f64>> = terms
        .iter()
        .map(|left| terms.iter().map(|right| squares[*left][*right]).chain([sums[*left]]).collect())
        .collect();
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-12 {
            return None;
        }
        for other in (0..count).filter(|other| *other != column) {
            let factor = rows[other][column] / rows[column][column];
            let pivot = rows[column].clone();
            rows[other].iter_mut().zip(pivot).skip(column).for_each(|(cell, own)| *cell -= factor * own);
        }
    }
    let mut costs = [0.0; TERMS];
    for (position, term) in terms.iter().enumerate() {
        costs[*term] = rows[position][count] / rows[position][position];
    }
    terms.iter().all(|term| costs[*term] > 0.0).then_some(costs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Probes whose times follow a law, each off by a share that alternates in sign.
    fn probes(costs: [f64; TERMS], noise: f64) -> Vec<Probe> {
        let law = Line { costs, error: 0.0 };
        let amounts = |index: u32| {
            let (flops, bytes) =
                (1e4 * 3.1_f64.powi((index % 7) as i32), 1e3 * 2.7_f64.powi((index * 5 % 11) as i32));
            Amounts {
                flops,
                gathered: f64::from(index * 7 % 13) * 1e3,
                near: bytes,
                far: f64::from(index * 3 % 5) * 1e4,
            }
        };
        let probe = |index| {
            let sign = if index % 2 == 0 { 1.0 } else { -1.0 };
            Probe { amounts: amounts(index), nanos: law.time(&amounts(index)) * (1.0 + sign * noise) }
        };
        (0..40).map(probe).collect()
    }

    #[test]
    fn exact_laws_are_found() {
        for costs in
            [[2_000.0, 0.02, 0.5, 0.03, 0.2], [1_500.0, 0.0, 0.0, 0.1, 0.0], [0.0, 0.01, 0.0, 0.0, 0.3]]
        {
            let line = fit(&probes(costs, 0.0), 0.1).unwrap();
            let close = |(found, law): (&f64, &f64)| (found - law).abs() <= 1e-6 * law.max(1e-3);
            assert!(line.costs.iter().zip(&costs).all(close), "{:?} for {costs:?}", line.costs);
            assert!(line.error < 1e-6, "{}", line.error);
        }
    }

    #[test]
    fn the_error_is_that_of_probes_left_out() {
        let line = fit(&probes([2_000.0, 0.02, 0.5, 0.03, 0.2], 0.1), 0.1).unwrap();
        assert!((0.08..0.16).contains(&line.error), "{}", line.error);
    }

    #[test]
    fn scaled_times_scale_all_costs() {
        let probes = probes([2_000.0, 0.02, 0.5, 0.03, 0.2], 0.07);
        let thrice: Vec<Probe> =
            probes.iter().map(|probe| Probe { nanos: 3.0 * probe.nanos, ..*probe }).collect();
        let (line, other) = (fit(&probes, 0.1).unwrap(), fit(&thrice, 0.3).unwrap());
        for (cost, other) in line.costs.iter().zip(other.costs) {
            assert!((3.0 * cost - other).abs() <= 1e-6 * other.max(1e-9), "{cost} {other}");
        }
        assert!((line.error - other.error).abs() < 1e-9);
    }

    #[test]
    fn costs_are_never_negative() {
        // Times that fall with traffic: the best line has no term for it.
        let probe = |index: u32| {
            let amounts =
                Amounts { flops: 1e6 * f64::from(index), near: 1e6 / f64::from(index), ..Amounts::default() };
            Probe { amounts, nanos: 1e4 * f64::from(index) }
        };
        let line = fit(&(1..20).map(probe).collect::<Vec<_>>(), 0.1).unwrap();
        assert!(line.costs.iter().all(|cost| *cost >= 0.0), "{:?}", line.costs);
        assert!((line.costs[1] - 0.01).abs() < 1e-6 && line.costs[3] == 0.0, "{:?}", line.costs);
    }

    #[test]
    fn memory_has_its_own_rate_if_probes_read_it() {
        let mut probes = probes([2_000.0, 0.02, 0.5, 0.03, 0.2], 0.0);
        assert!((fit(&probes, 7.0).unwrap().costs[FAR] - 0.2).abs() < 1e-6);
        for probe in &mut probes {
            probe.amounts.far = 0.01 * probe.amounts.near;
        }
        assert!((fit(&probes, 7.0).unwrap().costs[FAR] - 7.0).abs() < 1e-9);
    }

    #[test]
    fn one_wild_probe_moves_a_line_little() {
        let mut probes = probes([2_000.0, 0.02, 0.0, 0.03, 0.0], 0.02);
        let line = fit(&probes, 0.1).unwrap();
        probes[3].nanos *= 30.0;
        let other = fit(&probes, 0.1).unwrap();
        assert!((other.costs[1] / line.costs[1] - 1.0).abs() < 0.1, "{:?} {:?}", line.costs, other.costs);
    }

    #[test]
    fn few_probes_give_no_line() {
        let probes = probes([2_000.0, 0.02, 0.5, 0.03, 0.2], 0.0);
        assert!(fit(&probes[..FEWEST - 1], 0.1).is_none());
        assert!(fit(&probes[..FEWEST], 0.1).is_some());
        let idle: Vec<Probe> = probes.iter().map(|probe| Probe { nanos: 0.0, ..*probe }).collect();
        assert!(fit(&idle, 0.1).is_none());
    }
}
