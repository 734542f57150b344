//! Judges the fit of lines on public times of kernels: for each kind and device, lines of a few probes
//! predict all other kernels. `judge TIMES.csv [PROBES]` prints the mean and median error of each kind in
//! percent.
//!
//! The file has columns `kind` or `op`, `flops` and `bytes`, and after them a column for each device with
//! times in milliseconds, empty where nothing was measured.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;

use memc_cost::Amounts;
use memc_cost::fit::{Probe, fit};

/// Sets of probes that are drawn for each kind and device.
const DRAWS: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("name a file of times")?;
    let count: usize = words.next().map_or(Ok(10), |text| text.parse())?;
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().ok_or("the file is empty")?.split(',').collect();
    let column = |name: &str| head.iter().position(|known| *known == name).ok_or(format!("no column {name}"));
    let (flops, bytes) = (column("flops")?, column("bytes")?);
    let mut kernels: BTreeMap<(String, usize), Vec<Probe>> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        let (Some(flops), Some(far)) = (number(flops), number(bytes)) else { continue };
        for device in bytes + 1..head.len() {
            if let Some(milliseconds) = number(device).filter(|time| *time > 0.0) {
                let amounts = Amounts { flops, far, ..Amounts::default() };
                let probe = Probe { amounts, nanos: milliseconds * 1e6 };
                kernels.entry((cells[0].to_owned(), device)).or_default().push(probe);
            }
        }
    }
    let mut errors: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
    for ((kind, _), probes) in &kernels {
        if probes.len() > 2 * count {
            errors
                .entry(kind.clone())
                .or_default()
                .extend((0..DRAWS).map(|seed| judged(probes, count, seed)));
        }
    }
    for (kind, draws) in errors {
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        let means: Vec<f64> = draws.iter().map(|draw| mean(draw)).collect();
        let mut all: Vec<f64> = draws.into_iter().flatten().collect();
        all.sort_by(f64::total_cmp);
        println!(
            "{kind:<12} mean {:5.1} %, median {:5.1} %",
            100.0 * mean(&means),
            100.0 * all[all.len() / 2]
        );
    }
    Ok(())
}

/// Errors of all kernels but some drawn ones, predicted by the line of these.
fn judged(kernels: &[Probe], count: usize, seed: u64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..kernels.len()).collect();
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    let (drawn, others) = order.split_at(count);
    let probes: Vec<Probe> = drawn.iter().map(|index| kernels[*index]).collect();
    let Some(line) = fit(&probes, 0.0) else { return Vec::new() };
    others
        .iter()
        .map(|index| (line.time(&kernels[*index].amounts) / kernels[*index].nanos - 1.0).abs())
        .collect()
}
