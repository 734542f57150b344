//! Chaos: for any tuning of the planner and any options of the user, every plan is sound, and no plan is
//! worse than the file order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;
use crate::made;
use crate::oracle;

use case::Case;
use made::{module_text, net};
use memc_ir::Bytes;
use memc_ops::Profile;
use memc_passes::tuning::{
    EncodeTuning, FitTuning, MendTuning, Part, PassTuning, RewriteTuning, SplitTuning, ViewTuning,
    WeightTuning,
};
use memc_passes::{Encoding, Io, Lossy, Options, PassError, Pipeline, PipelineError, Settings, Silent};
use memc_plan::registry::REGISTRY;
use memc_plan::{FILE_ORDER, Refusal, Tuning};
use proptest::prelude::*;

/// Generates any legal tuning of the planner.
fn tuning() -> impl Strategy<Value = Tuning> {
    let share = || 1u64..200;
    let hundredths = || 1u64..130;
    let shares = (share(), share(), share(), share(), share(), share(), share(), share(), share());
    let limits = (
        prop::array::uniform4(hundredths()),
        prop::array::uniform2(hundredths()),
        prop::array::uniform2(hundredths()),
        hundredths(),
    );
    let sizes = (0usize..2000, 0usize..40_000, 1u64..10_000, 0usize..5000, 0u32..7);
    let times = (prop::array::uniform6(0u32..4000), prop::array::uniform4(share()));
    (shares, limits, sizes, times).prop_map(|(shares, limits, sizes, times)| Tuning {
        small_overhead: shares.0,
        large_overhead: shares.1,
        short: shares.2,
        least_saving: shares.3,
        near_limit: shares.4,
        far_from_limit: shares.5,
        noticeable_saving: shares.6,
        merging: shares.7,
        behind: shares.8,
        smaller_limits: limits.0,
        alone: limits.1,
        nearly_all: limits.2,
        wider_limit: limits.3,
        large_model: sizes.0,
        small_model: sizes.3 % 64,
        max_nodes_in_parts: sizes.1,
        full_effort_nodes: sizes.2,
        max_nodes_in_two_parts: sizes.3,
        max_doublings: sizes.4,
        slowdowns: times.0,
        steps_in_time: times.1,
    })
}

/// Generates any tuning of the passes, with small numbers as often as large ones.
fn pass_tuning() -> impl Strategy<Value = PassTuning> {
    prop::collection::vec(any::<u32>(), 64).prop_map(|raw| {
        let mut raw = raw.into_iter();
        let mut below = |most: u64| {
            let number = u64::from(raw.next().unwrap());
            if number & 1 == 0 { (number >> 1) % most } else { (number >> 1) % 4 }
        };
        PassTuning {
            split: SplitTuning {
                peaks: [(); 6].map(|()| below(130)),
                peaks_in_limit: [(); 3].map(|()| below(130)),
                max_rounds: below(12) as usize,
                trial_nodes: below(20_000) as usize,
                few_trials: below(6) as usize,
                free_aims: below(6) as usize,
                small_overhead: Part(below(300)),
                overhead_at_least: Part(below(30)),
                promising: below(6) as usize,
                max_borders: below(8) as usize,
                narrower: Part(below(10)),
                max_nodes: below(300) as usize,
                max_distance: below(12) as usize,
                max_left_out: below(12) as usize,
                small: [(); 4].map(|()| Part(below(100))),
                seeds: below(12) as usize,
                least_seed: Part(below(100)),
                least_rows: below(8),
                inaccuracy: Part(below(12)),
                visits: below(100_000) as usize,
            },
            rewrite: RewriteTuning {
                trial_nodes: below(40_000) as usize,
                trials: [(); 2].map(|()| below(40) as usize),
            },
            fit: FitTuning {
                short: Part(below(20)),
                costly: Part(below(200)),
                looser: Part(below(200)),
                large_problem: below(1_000) as usize,
                continued: Part(below(20)),
                behind_in_extra: Part(below(20)),
                behind_in_time: Part(below(500)),
                steeper: below(8),
                free_room: [(); 2].map(|()| Part(below(300))),
                least_rounds: below(12) as u32,
                least_effort: Part(below(40)),
                least_precision: Part(below(200)),
            },
            mend: MendTuning {
                max_changes: below(10) as u32,
                everywhere: below(10) as u32,
                small_excess: Part(below(200)),
                effort: Part(below(30)),
                eased: below(6) as u32,
            },
            weights: WeightTuning {
                shares: below(12),
                choices: below(6) as usize,
                rows: below(40),
                whole: Part(below(10)),
                part: Part(below(20)),
            },
            views: ViewTuning { max_trials: below(30) as usize, max_nodes: below(20_000) as usize },
            encode: EncodeTuning { least: Bytes(below(2_000)), least_weights: Bytes(below(2_000)) },
        }
    })
}

/// Generates any options of the user.
fn options() -> impl Strategy<Value = Options> {
    let io = prop_oneof![Just(Io::Outputs), Just(Io::Arena), Just(Io::External)];
    let slowdown = prop_oneof![Just(0u32), 1u32..3000];
    let encode = prop::collection::vec(0..Lossy::ALL.len(), 0..3).prop_map(|lossy| Encoding {
        exact: lossy.len() < 2,
        lossy: lossy.into_iter().map(|form| Lossy::ALL[form]).collect(),
        keep_wide: Vec::new(),
        weights: None,
    });
    (io, 0..Profile::ALL.len(), any::<[bool; 4]>(), 0u64..400, slowdown, (pass_tuning(), encode)).prop_map(
        |(io, profile, [enabled, exact, standard, integer_kernels], effort, slowdown, (tuning, encode))| {
            let mut options =
                Options { io, effort, tuning, encode, ..Options::for_profile(Profile::ALL[profile]) };
            (options.rewrite.enabled, options.rewrite.exact) = (enabled, exact);
            (options.rewrite.standard, options.rewrite.integer_kernels) = (standard, integer_kernels);
            options.rewrite.slowdown = slowdown;
            options
        },
    )
}

fn texts() -> impl Strategy<Value = String> {
    let extents = prop::collection::vec(prop_oneof![Just(16u64), Just(48), Just(64), Just(3)], 1..5);
    let nets =
        (extents, prop::collection::vec(0usize..5, 2..7)).prop_map(|(extents, kinds)| net(&extents, &kinds));
    let any = (prop::collection::vec(any::<u64>(), 10..120), 1usize..20)
        .prop_map(|(numbers, nodes)| module_text(numbers, nodes));
    prop_oneof![nets, any]
}

proptest! {
    #![proptest_config(crate::few(40))]

    #[test]
    fn every_plan_is_sound(text in texts(), tuning in tuning(), options in options(), percent in prop_oneof![Just(0u64), 20u64..130]) {
        let name = format!("{tuning:?}\n{options:?}\n{percent} %\n{text}");
        let (pipeline, settings, expected) = (String::new(), Settings::default(), String::new());
        let mut case = Case { name, pipeline, options, settings, input: text, expected };
        let (mut base, inference) = case.module();
        case.pipeline(FILE_ORDER, base.stage).run(&mut base, &mut case.context(&inference), true, &mut Silent).unwrap();
        let whole = oracle::arena(&base);
        case.settings.limit = (percent > 0).then_some(Bytes(whole * percent / 100));
        let found = match case.plan_with(&tuning) {
            Ok(found) => found,
            Err(Refusal::Slow { .. }) => return Ok(()),
            Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => {
                prop_assert!(case.settings.limit.is_some_and(|limit| limit < short.least), "{short:?}\n{}", case.name);
                return Ok(());
            }
            Err(other) => panic!("{other}\n{}", case.name),
        };
        let (planned, options) = (&found.planned.module, &case.options);
        case.verify(planned);
        prop_assert_eq!(oracle::misplaced(planned, options), Vec::<String>::new(), "{}", &case.name);
        let (peak, arena) = (oracle::peak(planned, options), oracle::arena(planned));
        prop_assert!(oracle::working_set(planned, options) <= peak && peak <= arena, "{}", case.name);
        prop_assert!(planned.plan.arenas.iter().all(|space| space.lower_bound <= space.size), "{}", case.name);
        match case.settings.limit {
            Some(limit) => prop_assert!(arena <= limit.0, "{}", case.name),
            None => {
                prop_assert!(peak <= oracle::peak(&base, options), "{}", case.name);
                prop_assert!(arena <= whole, "{}", case.name);
            }
        }
        // The trace repeats the plan.
        let (mut again, inference) = case.module();
        let trace = Pipeline::parse(&found.planned.trace, again.stage, REGISTRY).unwrap();
        trace.run(&mut again, &mut case.context(&inference), true, &mut Silent).unwrap();
        prop_assert_eq!(memc_ir::text::print(&again), memc_ir::text::print(planned), "{}", case.name);
    }
}
