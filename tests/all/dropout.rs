//! Dropout under a budget: no random operator runs twice, and with seeds the gradients equal the input
//! model's bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::fs;

use command::Folder;
use memc::{Planned, Request, Size, plan};
use memc_onnx_proto::ModelFile;
use memc_passes::Io;
use models_made::bytes;
use models_made::step::{LAYERS, Returns, step};

fn planned(file: &ModelFile, budget: Option<u64>, returns: Returns) -> Result<Planned, memc::Error> {
    let (alias_state, io) = match returns {
        Returns::Gradients => (false, Io::Outputs),
        Returns::Adam => (true, Io::External),
    };
    let budgets = budget.map(|bytes| Size::Bytes(bytes).into()).into_iter().collect();
    let request =
        Request { effort: 500, alias_state, io: Some(io), verify: true, budgets, ..Request::default() };
    plan(file, &request)
}

/// Plans within budgets below the unlimited plan's arena, and checks each plan. Returns the plans that
/// were found.
fn sweep(file: &ModelFile, returns: Returns) -> Vec<(u64, Planned)> {
    let free = planned(file, None, returns).unwrap().layout.arenas[0].size;
    let mut found = Vec::new();
    for percent in [90, 75, 50] {
        let budget = free * percent / 100;
        let optimized = match planned(file, Some(budget), returns) {
            Ok(optimized) => optimized,
            Err(error) => {
                assert_eq!(error.exit_code(), 3, "{error}");
                continue;
            }
        };
        let layout = &optimized.layout;
        assert!(layout.arenas[0].size <= budget && layout.cost.recomputed_nodes > 0, "{percent} %");
        let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
        let report = memc_check::check(file, &out, layout, Default::default());
        assert!(report.holds(), "{percent} %: {:?}", report.violations);
        let random = layout.schedule.iter().filter(|node| node.op == "RandomUniformLike").count();
        assert_eq!(random, LAYERS, "{percent} %: each draws once");
        found.push((percent, optimized));
    }
    assert!(found.len() >= 2, "only {} of 3 budgets are kept", found.len());
    found
}

#[test]
fn without_seeds_no_random_operator_runs_twice() {
    for returns in [Returns::Gradients, Returns::Adam] {
        sweep(&ModelFile::from_bytes(bytes(&step(false, returns))).unwrap(), returns);
    }
}

#[test]
fn with_seeds_gradients_match_the_input_model() {
    same_bits(Returns::Gradients, "dropout-gradients");
}

#[test]
fn with_seeds_an_adam_step_over_its_state_matches_the_input_model() {
    same_bits(Returns::Adam, "dropout-adam");
}

/// Runs plans within several budgets, and asserts results equal bit for bit.
fn same_bits(returns: Returns, name: &str) {
    let folder = Folder::new(name);
    let bytes = bytes(&step(true, returns));
    let file = ModelFile::from_bytes(bytes.clone()).unwrap();
    folder.write("in.onnx", bytes);
    for (percent, optimized) in sweep(&file, returns) {
        if returns == Returns::Adam {
            assert_eq!(
                optimized.layout.state.len(),
                3 * LAYERS,
                "{percent} %: all that is updated shares storage"
            );
        }
        fs::write(folder.path("out.onnx"), optimized.model.to_vec()).unwrap();
        folder.write("out.layout.json", memc_layout::to_json(&optimized.layout).unwrap());
        let ran = folder.memc("verify in.onnx out.onnx -n 2");
        assert!(ran.code == Some(0) && ran.err.contains("equal bit for bit"), "{percent} %: {ran:#?}");
    }
}
