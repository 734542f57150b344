//! Compares the live curve with the fixture's claims and with a step-by-step count.
#![allow(clippy::unwrap_used)]

use memc_layout::{Alias, AliasKind, Layout, LiveCurve, LiveRange, Tensor, read};
use proptest::prelude::*;

fn block() -> Layout {
    read(include_str!("../data/residual_block.layout.json")).unwrap()
}

#[test]
fn the_live_curve_agrees_with_peak_and_arena_of_the_fixture() {
    let layout = block();
    let profile = LiveCurve::of(&layout);
    assert_eq!(
        profile.spaces.iter().map(|space| space.space.as_str()).collect::<Vec<_>>(),
        ["device", "host"]
    );
    for space in &profile.spaces {
        let claimed = layout.peak[&space.space];
        assert_eq!((space.peak, space.peak_step), (claimed.bytes, claimed.step));
        let top = space.owners.iter().map(|owner| owner.offset + owner.bytes).max();
        assert_eq!(
            top,
            layout.arenas.iter().find(|arena| arena.space == space.space).map(|arena| arena.size)
        );
    }
}

#[test]
fn owners_live_at_the_peak_are_listed() {
    let layout = block();
    let profile = LiveCurve::of(&layout);
    let device = profile.space("device").unwrap();
    let alive: Vec<_> = device
        .alive_at(device.peak_step)
        .into_iter()
        .map(|owner| {
            (
                layout.tensors[owner.tensor].name.as_str(),
                owner.bytes >> 10,
                owner.producer,
                owner.aliases.len(),
            )
        })
        .collect();
    assert_eq!(
        alive,
        [("/conv3/out", 256, Some(6), 1), ("cat", 192, Some(4), 2), ("scratch:conv3:0", 96, Some(6), 0)]
    );
    assert_eq!(alive.iter().map(|row| row.1).sum::<u64>() << 10, device.peak);
}

#[test]
fn an_owner_is_live_from_its_first_written_sub_view() {
    let layout = block();
    let profile = LiveCurve::of(&layout);
    let cat =
        profile.spaces[0].owners.iter().find(|owner| layout.tensors[owner.tensor].name == "cat").unwrap();
    assert_eq!((cat.start(), cat.end(), cat.producer), (2, 7, Some(4)));
}

#[test]
fn adjacent_live_ranges_are_merged() {
    let mut layout = block();
    let live = |start, end| vec![LiveRange { start, end }];
    layout.tensors.truncate(6);
    (layout.tensors[3].live, layout.tensors[5].live) = (live(3, 5), live(5, 9));
    assert_eq!(LiveCurve::of(&layout).spaces[0].owners[0].live, live(3, 9));
    layout.tensors[5].live = live(6, 9);
    assert_eq!(LiveCurve::of(&layout).spaces[0].owners[0].live, [live(3, 5), live(6, 9)].concat());
}

#[test]
fn alias_cycles_unknown_owners_and_distant_steps_are_ignored() {
    let mut layout = block();
    layout.tensors.truncate(9);
    let alias = |of: &str| {
        Some(Alias { of: of.to_owned(), kind: AliasKind::View, alias_offset: 0, alias_offset_expr: None })
    };
    layout.tensors[3].alias = alias("/relu1/out");
    layout.tensors[4].alias = alias("scratch:conv1:0");
    layout.tensors[6].alias = alias("nobody");
    layout.tensors[8].live =
        vec![LiveRange { start: 4, end: u64::MAX }, LiveRange { start: u64::MAX, end: 3 }];
    layout.tensors[8].bytes = u64::MAX;
    let profile = LiveCurve::of(&layout);
    let owners = &profile.space("device").unwrap().owners;
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].live, [LiveRange { start: 3, end: 18 }]);
    layout.tensors.push(Tensor { name: "twin".to_owned(), alias: None, ..layout.tensors[8].clone() });
    assert_eq!(LiveCurve::of(&layout).space("device").unwrap().peak, u64::MAX);
}

/// Generates a few tensors with random ranges. Each may alias an earlier or a later tensor.
fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let one = (0..18_u64, 1..6_u64, 0..1000_u64, any::<bool>(), proptest::option::of(0..8_usize));
    proptest::collection::vec(one, 1..8).prop_map(|rows| {
        let pattern = block().tensors[3].clone();
        rows.iter()
            .enumerate()
            .map(|(index, &(start, length, bytes, host, of))| Tensor {
                name: format!("t{index}"),
                bytes,
                space: Some(if host { "host" } else { "device" }.to_owned()),
                live: vec![LiveRange { start, end: start + length }],
                alias: of.map(|of| Alias {
                    of: format!("t{of}"),
                    kind: AliasKind::View,
                    alias_offset: 0,
                    alias_offset_expr: None,
                }),
                ..pattern.clone()
            })
            .collect()
    })
}

/// Returns the owner of a tensor. Follows at most one alias per tensor.
fn walk(tensors: &[Tensor], mut index: usize) -> Option<usize> {
    for _ in 0..=tensors.len() {
        match &tensors[index].alias {
            None => return Some(index),
            Some(alias) => index = tensors.iter().position(|tensor| tensor.name == alias.of)?,
        }
    }
    None
}

proptest! {
    #[test]
    fn live_bytes_are_those_counted_step_by_step(tensors in tensors()) {
        let layout = Layout { tensors, ..block() };
        let tensors = &layout.tensors;
        for space in LiveCurve::of(&layout).spaces {
            for (step, &bytes) in space.live_bytes.iter().enumerate() {
                let live = |index: usize| tensors[index].live[0].contains(step as u64);
                let counted: u64 = (0..tensors.len())
                    .filter(|&root| tensors[root].alias.is_none() && tensors[root].space.as_ref() == Some(&space.space))
                    .filter(|&root| (0..tensors.len()).any(|index| walk(tensors, index) == Some(root) && live(index)))
                    .map(|root| tensors[root].bytes)
                    .sum();
                prop_assert_eq!(bytes, counted);
                prop_assert_eq!(space.alive_at(step as u64).iter().map(|owner| owner.bytes).sum::<u64>(), counted);
            }
            prop_assert_eq!(space.live_bytes.get(space.peak_step as usize).copied(), Some(space.peak));
        }
    }
}
