//! Prints the candidates of each window of a text module: `forms FILE`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc_cost::CostModel;
use memc_ir::{Bytes, text};
use memc_ops::Profile;
use memc_rewrite::{Limits, Measure, RuleBook, Setting, Shift, candidates, own_bytes, windows};

fn main() -> Result<(), Box<dyn Error>> {
    let source = std::fs::read_to_string(std::env::args().nth(1).ok_or("give a file of a text module")?)?;
    let mut module = text::parse(&source).map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    memc_ops::infer(&mut module);
    let cost = CostModel::default();
    let setting = Setting {
        book: RuleBook::standard()?,
        profile: &Profile::ARENA,
        cost: &cost,
        opset: module.opsets.get("").copied().unwrap_or(0),
        exact: false,
        standard: false,
        fold_cap: Bytes(64 << 10),
        weights: true,
        limits: Limits::default(),
    };
    let judge = |piece: &memc_ir::Module| Measure { peak: Bytes(0), nanos: cost.total_nanos(piece) };
    let mut seen = std::collections::BTreeSet::new();
    for window in windows(&module, &setting.limits, Shift::None, &own_bytes) {
        if !seen.insert(window.key.clone()) {
            continue;
        }
        println!("window of {} nodes", window.nodes.len());
        for candidate in candidates(&module, &window, &setting, &judge) {
            println!("  {:?}", candidate.measure);
            for piece in candidate.fragment.iter().flat_map(|fragment| &fragment.pieces) {
                println!("    {} {:?} {:?}", piece.operator, piece.inputs, piece.original);
            }
            println!("    {:?}", candidate.fragment.map(|fragment| fragment.rules));
        }
    }
    Ok(())
}
