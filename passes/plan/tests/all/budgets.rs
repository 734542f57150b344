//! Budgets on random modules: kept, or refused with a reason; plans are sound and reproducible bit for
//! bit, and the refusal's smallest plan exists.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;
use crate::made;
use crate::oracle;

use case::Case;
use made::net;
use memc_ir::{Bytes, Module, Stage, text};
use memc_ops::Profile;
use memc_passes::{Io, Options, PassError, PipelineError, Settings, Shortage, Silent};
use memc_plan::{Found, Planned, Refusal, Tuning, Verdict};
use proptest::prelude::*;

fn case(text: &str, budget: Option<u64>) -> Case {
    let mut options = Options { effort: 200, io: Io::Outputs, ..Options::for_profile(&Profile::ARENA) };
    // Without split operators, bounds for whole nodes hold for all plans.
    options.rewrite.exact = true;
    Case {
        name: format!("budget {budget:?}:\n{text}"),
        pipeline: String::new(),
        options,
        settings: Settings { limit: budget.map(Bytes), ..Settings::default() },
        input: text.to_owned(),
        expected: String::new(),
    }
}

/// Returns the plan within a budget, or the refusal; checks that either is sound.
fn within(text: &str, budget: u64) -> Result<Module, Box<Shortage>> {
    let case = case(text, Some(budget));
    match case.plan() {
        Ok(Found { planned, .. }) => {
            assert_eq!(planned.module.stage, Stage::Planned);
            assert!(
                oracle::arena(&planned.module) <= budget,
                "{}: {}",
                case.name,
                oracle::arena(&planned.module)
            );
            let wrong = oracle::misplaced(&planned.module, &case.options);
            assert!(wrong.is_empty(), "{}: {wrong:?}", case.name);
            once(&planned.module);
            assert_eq!(
                text::print(&planned.module),
                text::print(&case.plan().unwrap().planned.module),
                "{}: two runs differ",
                case.name
            );
            Ok(planned.module)
        }
        Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => {
            assert!(short.bound <= short.least && Bytes(budget) < short.least, "{}: {short:?}", case.name);
            assert!(!short.alive.is_empty() && !short.node.1.is_empty(), "{}: {short:?}", case.name);
            Err(short)
        }
        Err(other) => panic!("{}: {other}", case.name),
    }
}

/// Checks that nodes which may run only once have no copies.
fn once(module: &Module) {
    for node in &module.graph(module.main()).nodes {
        let copied = module.node(*node).recompute_of;
        assert!(
            copied.is_none_or(|original| memc_ops::repeatable(module, original)),
            "{}",
            text::print(module)
        );
    }
}

/// Returns the plan without a budget.
fn free_plan(text: &str) -> Planned {
    case(text, None).plan().unwrap().planned
}

/// Returns the arena of the plan without a budget, in bytes.
fn free(text: &str) -> u64 {
    oracle::arena(&free_plan(text).module)
}

#[test]
fn a_limit_below_the_outputs_is_refused_without_a_search_for_less() {
    let outputs = "%a = Exp(%x) : f32[64,64]\n%b = Tanh(%x) : f32[64,64]\n%c = Sigmoid(%x) : f32[64,64]\n%d = Relu(%a) : f32[64,64]";
    let text = |returned: &str| {
        format!(
            "mem 1\nir_version 10\nopset \"\" 21\ngraph @g {{\ninput %x : f32[64,64]\n{outputs}\nreturn {returned}\n}}\n"
        )
    };
    let searched = |returned: &str, slowdown: u32| {
        let mut case = case(&text(returned), Some(40_000));
        (case.options.rewrite.exact, case.options.rewrite.slowdown) = (false, slowdown);
        let mut names = Vec::new();
        let found = case.plan_and_tell(&Tuning::default(), &mut |entry| {
            names.extend((entry.verdict == Verdict::Searching).then_some(entry.strategy));
        });
        (found, names)
    };
    // Three outputs that nobody reads need 49,152 bytes at the end of every run.
    for slowdown in [0, 500] {
        let (found, names) = searched("%d, %b, %c", slowdown);
        let Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) = found else {
            panic!("not refused")
        };
        assert_eq!((short.least, names.contains(&"regions-for-less")), (Bytes(49_152), false), "{names:?}");
        assert!(names.contains(&"recompute"), "it finds the obstacles: {names:?}");
    }
    let (found, names) = searched("%d, %b", 0);
    assert!(found.is_ok() && names.contains(&"order"), "{names:?}");
}

#[test]
fn a_refusal_names_obstacles_and_the_smallest_arena() {
    let text = net(&[64], &[0, 2, 0, 1]);
    let short = within(&text, 100).unwrap_err();
    assert!(Bytes(100) < short.bound, "{short:?}");
    assert!(
        short.to_string().starts_with("a budget of 100 B in device is too small: every plan needs at least"),
        "{short}"
    );
    assert!(short.reasons.iter().any(|reason| reason.contains("only once")), "{short:?}");
    let kept = within(&text, short.least.0).unwrap();
    assert_eq!(Bytes(oracle::arena(&kept)), short.least);
}

proptest! {
    #![proptest_config(crate::few(6))]

    #[test]
    fn budgets_are_kept_down_to_the_smallest_arena_and_refused_below(
        extents in prop::collection::vec(prop_oneof![Just(16u64), Just(48), Just(64), Just(3)], 1..5),
        kinds in prop::collection::vec(0usize..5, 2..7),
    ) {
        let text = net(&extents, &kinds);
        let whole = free(&text);
        let mut refused: Option<Box<Shortage>> = None;
        for percent in [100, 90, 75, 60, 50, 40, 25] {
            let budget = whole * percent / 100;
            match within(&text, budget) {
                Ok(_) => prop_assert!(refused.is_none(), "kept {budget} after a refusal"),
                Err(short) => {
                    prop_assert!(refused.as_ref().is_none_or(|other| other.least == short.least), "{refused:?} {short:?}");
                    refused = Some(short);
                }
            }
        }
        if let Some(short) = refused {
            prop_assert!(within(&text, short.least.0).is_ok());
        }
    }
}

#[test]
fn refusals_count_the_bytes_that_sub_views_save() {
    let text = "opset \"\" 21\ngraph @net {\ninput %x : f32[16,16]\nconst %rows : i64[1] = [0]\n%a = Exp(%x) : f32[16,16]\n\
        %b = Sin(%x) : f32[16,16]\n%c = Concat(%a, %b) {axis = 0} : f32[32,16]\n%y = ReduceMax(%c, %rows) {keepdims = 0} : f32[16]\nreturn %y\n}\n";
    let free = free(text);
    assert_eq!(free, 32 * 16 * 4 + 16 * 4, "both parts are written into the whole");
    let short = within(text, free - 1).unwrap_err();
    assert!(short.bound <= Bytes(free) && short.least == Bytes(free), "{short:?}");
    assert!(!short.node.0.is_empty(), "a node without a name is called by its result: {short:?}");
}

#[test]
fn a_refusal_seeks_the_smallest_arena_unless_stopped_soon() {
    let case = case(&net(&[64], &[0, 3, 0, 3, 0, 1]), Some(100));
    let least = |seek: &str| short(&case, &format!("schedule,budget{seek}")).least;
    assert!(least("") < least("[seek=soon]"));
    assert_eq!(least(""), least("[seek=least]"));
}

/// Returns the shortage of a pipeline that cannot keep its limit.
fn short(case: &Case, pipeline: &str) -> Box<Shortage> {
    let (mut module, inference) = case.module();
    match case.pipeline(pipeline, module.stage).run(
        &mut module,
        &mut case.context(&inference),
        true,
        &mut Silent,
    ) {
        Err(PipelineError::Pass(PassError::Budget(short))) => short,
        other => panic!("{other:?}"),
    }
}

#[test]
fn plans_no_smaller_than_a_known_one_are_not_searched() {
    let text = net(&[64], &[0, 3, 0, 3, 0, 1]);
    let case = case(&text, Some(100));
    let short = |known: Option<Bytes>| {
        let known = known.map_or_else(String::new, |bytes| format!("[smallest={}]", bytes.0));
        short(&case, &format!("cse,dce,view,schedule,budget{known}"))
    };
    let (whole, looked_for) = (Bytes(free(&text)), short(None));
    assert!(looked_for.bound <= looked_for.least && looked_for.least < whole);
    // No plan is smaller than the bound, so a known plan of that size is the smallest.
    let known = short(Some(looked_for.bound));
    assert_eq!((known.bound, known.least), (looked_for.bound, whole));
    assert_eq!(short(Some(whole)).least, looked_for.least);
}
