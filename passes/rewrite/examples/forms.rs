//! Prints the candidates of each fragment of a text module: `forms FILE`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc_cost::CostModel;
use memc_ir::{Bytes, text};
use memc_ops::Profile;
use memc_rewrite::{Limits, Measure, RuleBook, Setting, Shift, candidates, fragments, own_bytes};

fn main() -> Result<(), Box<dyn Error>> {
    let source = std::fs::read_to_string(std::env::args().nth(1).ok_or("give a file of a text module")?)?;
    let mut module =
        text::parse(&source).map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
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
        empty: false,
        limits: Limits::default(),
    };
    let judge = |form_node: &memc_ir::Module| Measure { peak: Bytes(0), nanos: cost.total_nanos(form_node) };
    let mut seen = std::collections::BTreeSet::new();
    for fragment in fragments(&module, &setting.limits, Shift::None, &own_bytes) {
        if !seen.insert(fragment.key.clone()) {
            continue;
        }
        println!("fragment of {} nodes", fragment.nodes.len());
        for candidate in candidates(&module, &fragment, &setting, &judge) {
            println!("  {:?}", candidate.measure);
            for form_node in candidate.replacement.iter().flat_map(|replacement| &replacement.nodes) {
                println!("    {} {:?} {:?}", form_node.operator, form_node.inputs, form_node.original);
            }
            println!("    {:?}", candidate.replacement.map(|replacement| replacement.rules));
        }
    }
    Ok(())
}
