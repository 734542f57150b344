//! Damages plans at random: the checker and the player reject all of them, and nearly all have an effect
//! if they are played anyway.
//!
//! `MEMC_DAMAGES=200` sets the number of damaged plans of each model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::support;

use std::collections::BTreeMap;

use memc_layout::{Alias, AliasKind, Class, Layout, Tensor};
use memc_ort::{Array, PlayOptions, Player, Runtime, compare, inputs, views};
use support::{corpus, plan, runtime};

/// Pseudo-random numbers (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((word ^ (word >> 31)) >> 8) as usize % limit
    }
}

fn is_placed(tensor: &&Tensor) -> bool {
    tensor.offset.is_some() && tensor.class != Class::Scratch && tensor.bytes >= 64
}

/// Returns pairs of owners that are live at a common step, the first no larger than the second.
fn rivals(layout: &Layout) -> Vec<(usize, usize)> {
    let owners: Vec<usize> = (0..layout.tensors.len())
        .filter(|index| is_placed(&&layout.tensors[*index]) && layout.tensors[*index].alias.is_none())
        .collect();
    let meet = |a: &Tensor, b: &Tensor| a.live[0].start < b.live[0].end && b.live[0].start < a.live[0].end;
    let mut pairs = Vec::new();
    for a in &owners {
        for b in &owners {
            let (one, other) = (&layout.tensors[*a], &layout.tensors[*b]);
            if a != b && one.bytes <= other.bytes && one.space == other.space && meet(one, other) {
                pairs.push((*a, *b));
            }
        }
    }
    pairs
}

/// Damages a layout in one place, and returns a description of the damage.
fn damage(layout: &mut Layout, kind: usize, draw: &mut Draw) -> String {
    let pairs = rivals(layout);
    let (a, b) = pairs[draw.below(pairs.len())];
    match kind {
        0 => {
            layout.tensors[a].offset = layout.tensors[b].offset;
            format!("`{}` moved onto `{}`", layout.tensors[a].name, layout.tensors[b].name)
        }
        1 => {
            let long: Vec<usize> = (0..layout.tensors.len())
                .filter(|index| {
                    is_placed(&&layout.tensors[*index])
                        && layout.tensors[*index].live[0].end - layout.tensors[*index].live[0].start > 1
                })
                .collect();
            let cut = long[draw.below(long.len())];
            layout.tensors[cut].live[0].end = layout.tensors[cut].live[0].start + 1;
            format!("`{}` cut to its own step", layout.tensors[cut].name)
        }
        _ => {
            let kind = if draw.below(2) == 0 { AliasKind::View } else { AliasKind::InPlace };
            layout.tensors[a].alias = Some(Alias {
                of: layout.tensors[b].name.clone(),
                kind,
                alias_offset: 0,
                alias_offset_expr: None,
            });
            layout.tensors[a].offset = layout.tensors[b].offset;
            format!("`{}` called {kind:?} of `{}`", layout.tensors[a].name, layout.tensors[b].name)
        }
    }
}

/// Whether a play shows that the plan is wrong. If `trusting`, nothing is rejected before it runs.
fn shows(
    runtime: &Runtime,
    out: &memc_onnx_proto::ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
    expected: &BTreeMap<String, Array>,
    trusting: bool,
) -> bool {
    let options = PlayOptions { poison_check: true, any_model: trusting, ..PlayOptions::default() };
    let play = |player: &mut Player<'_>| {
        player.play(set)?;
        Ok(!compare(&views(expected), &player.outputs()?, &Default::default()).is_empty())
    };
    Player::new(runtime, out, layout, options).and_then(|mut player| play(&mut player)).unwrap_or(true)
}

fn survive(test: &str, name: &str, count: usize) {
    let count = std::env::var("MEMC_DAMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    let given = corpus(test, name);
    let (out, layout) = plan(&given, |_| {});
    assert!(memc_check::check(&given, &out, &layout, Default::default()).holds());
    let runtime = runtime();
    let set = inputs::make(&out, &layout, 0).unwrap();
    let mut player = Player::new(
        &runtime,
        &out,
        &layout,
        PlayOptions { poison_check: true, any_model: false, ..PlayOptions::default() },
    )
    .unwrap();
    player.play(&set).unwrap();
    let outputs = player.outputs().unwrap().into_iter();
    let expected =
        outputs.map(|(name, content)| (name, Array::of(&content.tensor().unwrap()).unwrap())).collect();
    drop(player);
    let mut draw = Draw(7);
    let mut harmless = Vec::new();
    for round in 0..count {
        let mut damaged = layout.clone();
        let what = damage(&mut damaged, round % 3, &mut draw);
        let report = memc_check::check(&given, &out, &damaged, Default::default());
        assert!(!report.holds(), "round {round}, {what}: the checker finds nothing");
        assert!(
            shows(&runtime, &out, &damaged, &set, &expected, false),
            "round {round}, {what}: the player finds nothing"
        );
        if !shows(&runtime, &out, &damaged, &set, &expected, true) {
            harmless.push(what);
        }
    }
    println!(
        "{name}: {count} plans damaged, all refused by the checker and by the player; {} of them had an effect when played",
        count - harmless.len()
    );
    // A few damages have no effect: for example, a shortened live range does not matter while other
    // values cover its bytes.
    assert!(harmless.len() * 4 <= count, "{} of {count} had no effect: {harmless:#?}", harmless.len());
}

#[test]
fn damaged_plans_of_a_training_graph_are_caught() {
    survive("damages_mlp", "mlp_grad_tiny", 21);
}

#[test]
fn damaged_plans_of_a_network_of_joins_are_caught() {
    survive("damages_swiftnet", "swiftnet_like", 12);
}
