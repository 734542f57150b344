//! Random models with free dimensions: planned for ranges, checked, and run at corners, beside them and
//! inside, where written model, plan and given model must be equal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use crate::support;

use memc::Io;
use memc_ort::{Error, Runtime, Tolerance, VerifyOptions, verify};
use prost::Message as _;
use support::dynamic::{Random, dynamic};
use support::runtime;

/// Seeds of the models. `MEMC_SEEDS=0..4000` names others.
const SEEDS: std::ops::Range<u64> = 0..24;

/// Seeds whose plans were once wrong: a sum over a part that is aligned at the largest extents alone
/// (12184), and a size with too many terms (25).
const KNOWN: [u64; 2] = [12_184, 25];

/// Outcome of a model.
#[derive(PartialEq)]
enum Outcome {
    /// Equal at so many points.
    Equal(usize),
    /// The given model does not run at all extents of its ranges.
    Unfit,
}

/// Writes the model of a seed to the folder in `MEMC_TO`, if there is one, and prints its ranges.
fn write(seed: u64) {
    let Some(folder) = std::env::var_os("MEMC_TO") else { return };
    let made = dynamic(seed);
    std::fs::write(std::path::Path::new(&folder).join(format!("{seed}.onnx")), made.model.encode_to_vec())
        .unwrap();
    let dims = made.dims.iter().map(|(name, extent)| format!("--dim {name}={extent}"));
    let limits = made.limits.iter().map(|limit| format!("--dim-max {limit}"));
    eprintln!("{seed}: {} {}", dims.chain(limits).collect::<Vec<_>>().join(" "), made.told);
}

/// Plans, checks and runs the model of a seed with random options.
fn holds(runtime: &Runtime, seed: u64) -> Result<Outcome, String> {
    let made = dynamic(seed);
    let mut random = Random(!seed);
    let is_exact = random.below(2) == 0;
    let io = [Io::Outputs, Io::Arena, Io::External][random.below(3)];
    let mut request = made.request().effort(200).exact(is_exact).io(io);
    request = match random.below(6) {
        0 => request.runtime(memc::Runtime::Ort),
        1 => request.runtime(memc::Runtime::Player),
        2 => request.slowdown(5.0),
        3 => request.budget(memc::Size::Percent(100.0)),
        4 => request.anchors(true),
        _ => request,
    };
    let given = memc_onnx_proto::ModelFile::from_bytes(made.model.encode_to_vec())
        .map_err(|error| error.to_string())?;
    let planned = match memc::plan(&given, &request) {
        Ok(planned) => planned,
        // A range where an operator does not fit, or an extent is negative; or a limit that no plan keeps.
        Err(error) if ["E0123", "E0129", "E0301"].contains(&error.diagnostic().code) => {
            return Ok(Outcome::Unfit);
        }
        Err(error) => return Err(format!("no plan: {error}")),
    };
    let mut bytes = Vec::new();
    planned.model.write_to(&mut bytes).map_err(|error| error.to_string())?;
    let out = memc_onnx_proto::ModelFile::from_bytes(bytes).map_err(|error| error.to_string())?;
    let report = memc_check::check(&given, &out, &planned.layout, memc_check::Options::default());
    if let Some(violation) = report.violations.first() {
        return Err(format!("check: {}", violation.diagnostic));
    }
    let tolerance = if is_exact { Tolerance::default() } else { Tolerance::of_roundings() };
    let options = VerifyOptions { tolerance, seed, ..VerifyOptions::default() };
    match verify(runtime, &given, &out, &planned.layout, None, options) {
        Ok(found) if found.holds() => Ok(Outcome::Equal(found.points.len())),
        Ok(found) => {
            let first = found.differences.iter().find(|(.., difference)| !difference.is_within());
            Err(first.map_or("nothing was compared".to_owned(), |(round, subject, difference)| {
                format!("{subject}, {}: {difference}, first at {:?}", found.round(*round), found.first)
            }))
        }
        Err(Error::At { error, .. }) if matches!(*error, Error::Given { .. }) => Ok(Outcome::Unfit),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn plans_for_ranges_hold_at_all_extents() {
    let runtime = runtime();
    let seeds = std::env::var("MEMC_SEEDS").ok().and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse::<u64>().ok()?..end.parse().ok()?)
    });
    let (mut points, mut unfit, mut wrong) = (0, 0, Vec::new());
    let seeds: Vec<u64> = seeds.map_or_else(|| SEEDS.chain(KNOWN).collect(), Iterator::collect);
    let count = seeds.len();
    for seed in seeds {
        write(seed);
        match holds(&runtime, seed) {
            Ok(Outcome::Equal(more)) => points += more,
            Ok(Outcome::Unfit) => unfit += 1,
            Err(reason) => {
                eprintln!("seed {seed}, {}: {reason}", dynamic(seed).told);
                wrong.push(seed);
            }
        }
    }
    eprintln!("{count} models at {points} points, {unfit} do not fit their ranges, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(unfit * 3 < count, "{unfit} of {count} models fit no range");
}
