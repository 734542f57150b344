//! Damages a plan for two engines: each wait, engine and offset matters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_check::Kind;
use memc_layout::{Layout, Sync, Transfer};

use crate::plans::{Plan, plans};

fn plan() -> Plan {
    plans().into_iter().find(|plan| plan.name == "engines").unwrap()
}

/// Kinds of the violations of a damaged plan, without repetition.
fn kinds(plan: &Plan, damage: impl FnOnce(&mut Layout)) -> Vec<Kind> {
    let mut layout = plan.layout.clone();
    damage(&mut layout);
    let mut kinds: Vec<Kind> =
        plan.check(&layout).violations.iter().map(|violation| violation.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn the_plan_shows_waits_for_operands_and_waits_for_bytes_alone() {
    let plan = plan();
    assert_eq!((plan.layout.engines(), plan.layout.sync.len()), (2, 7));
    let without =
        |wait: usize| kinds(&plan, |layout| layout.sync.retain(|row| *row != plan.layout.sync[wait]));
    let found: Vec<Vec<Kind>> = (0..7).map(without).collect();
    assert!(
        found.contains(&vec![Kind::EngineOrder, Kind::Race]) && found.contains(&vec![Kind::Race]),
        "{found:?}"
    );
    // None of them follows from the others.
    assert!(found.iter().all(|kinds| kinds.contains(&Kind::Race)), "{found:?}");
}

#[test]
fn a_step_on_another_engine_needs_other_waits() {
    let plan = plan();
    let steps = plan.layout.schedule.len();
    let mut refused = 0;
    for step in 0..steps {
        let kinds = kinds(&plan, |layout| {
            layout.schedule[step].engine = layout.schedule[step].engine.map(|engine| 1 - engine)
        });
        assert!(
            kinds.iter().all(|kind| matches!(kind, Kind::Engine | Kind::EngineOrder | Kind::Race)),
            "{step}: {kinds:?}"
        );
        refused += usize::from(!kinds.is_empty());
    }
    assert!(refused > steps * 3 / 4, "{refused} of {steps}");
    let exchanged = |layout: &mut Layout| {
        layout.schedule.iter_mut().for_each(|row| row.engine = row.engine.map(|engine| 1 - engine))
    };
    assert_eq!(kinds(&plan, exchanged), [], "equal engines have no fixed numbers");
}

#[test]
fn bytes_of_a_value_that_another_engine_may_use_are_refused() {
    let plan = plan();
    let owners =
        plan.layout.tensors.iter().filter(|tensor| tensor.offset.is_some() && tensor.alias.is_none());
    let names: Vec<String> = owners.map(|tensor| tensor.name.clone()).collect();
    let mut raced = 0;
    for name in names.iter().step_by(4) {
        for other in names.iter().filter(|other| *other != name) {
            let place = plan.layout.tensors.iter().find(|tensor| tensor.name == *other).unwrap().offset;
            let kinds = kinds(&plan, |layout| {
                let at = layout.tensors.iter().position(|tensor| tensor.name == *name).unwrap();
                let before = layout.tensors[at].offset;
                // What overwrites it in place moves along.
                for tensor in layout.tensors.iter_mut().filter(|tensor| tensor.offset == before) {
                    let moves =
                        tensor.name == *name || tensor.alias.as_ref().is_some_and(|alias| alias.of == *name);
                    tensor.offset = if moves { place } else { tensor.offset };
                }
            });
            // At no step are both live in the order of the schedule, so that only engines tell.
            raced += usize::from(kinds.contains(&Kind::Race) && !kinds.contains(&Kind::Overlap));
        }
    }
    assert!(raced > 0, "no offset meets bytes that are live at another time of the order only");
}

#[test]
fn engines_and_waits_have_one_form() {
    let plan = plan();
    let step = plan.layout.sync[0].step;
    let only_engine = |damage: fn(&mut Layout)| assert_eq!(kinds(&plan, damage), [Kind::Engine]);
    only_engine(|layout| layout.schedule[0].engine = None);
    only_engine(|layout| layout.schedule[0].engine = Some(2000));
    only_engine(|layout| layout.schedule.iter_mut().for_each(|row| row.engine = Some(0)));
    only_engine(|layout| layout.schedule.iter_mut().for_each(|row| row.engine = None));
    only_engine(|layout| {
        layout.schedule.iter_mut().for_each(|row| row.engine = row.engine.map(|engine| 2 * engine))
    });
    only_engine(|layout| layout.sync.reverse());
    only_engine(|layout| layout.sync.insert(0, layout.sync[0]));
    only_engine(|layout| layout.sync.push(Sync { step: 1 << 40, after: 0 }));
    let found = kinds(&plan, |layout| layout.sync[0].after = step);
    assert_eq!(found, [Kind::Engine], "a step waits for itself");
    let found = kinds(&plan, |layout| {
        let own = layout.schedule[step as usize].engine;
        let before = layout.schedule.iter().rfind(|row| row.engine == own && row.step < step).unwrap().step;
        layout.sync[0].after = before;
    });
    assert_eq!(found, [Kind::Engine], "a step waits for its own engine");
}

#[test]
fn plans_that_no_engine_can_run_are_refused() {
    let plan = plan();
    let found = kinds(&plan, |layout| {
        let of = layout.tensors[0].name.clone();
        let (space, far) = ("device".to_owned(), "host".to_owned());
        let row = Transfer {
            tensor: of.clone(),
            result: of,
            from: space,
            to: far,
            store_step: 0,
            load_step: 1,
            bytes: 4,
        };
        layout.transfers.push(row);
    });
    assert!(found.contains(&Kind::Engine));
    assert!(kinds(&plan, |layout| layout.schedule[0].anchor = true).contains(&Kind::Engine));
}
