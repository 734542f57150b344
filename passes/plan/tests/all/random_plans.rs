//! Plans of random modules: verified, never worse than the file's own order, and no better than brute
//! force allows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;
use crate::made;
use crate::oracle;

use case::Case;
use made::module_text;
use memc_ir::{Module, Node, Rewriter, Stage, Value, text};
use memc_ops::{Inference, Profile};
use memc_passes::{Io, Options, Settings, Silent};
use memc_plan::FILE_ORDER;
use proptest::prelude::*;

fn case(text: &str, profile: &'static Profile, io: Io) -> Case {
    let options = Options { io, effort: 2_000, ..Options::for_profile(profile) };
    let name = format!("under {} with io {}:\n{text}", profile.name, io.name());
    let (pipeline, settings, expected) = (String::new(), Settings::default(), String::new());
    Case { name, pipeline, options, settings, input: text.to_owned(), expected }
}

fn each_case(text: &str) -> Vec<Case> {
    let all = [Io::Outputs, Io::Arena, Io::External];
    Profile::ALL.into_iter().flat_map(|profile| all.map(|io| case(text, profile, io))).collect()
}

/// Runs a pipeline on a module; returns the peak that the scheduler promises, and its bound.
fn run(case: &Case, module: &mut Module, inference: &Inference, pipeline: &str) -> Option<(u64, u64)> {
    let mut ctx = case.context(inference);
    let passes = case.pipeline(pipeline, module.stage);
    passes.run(module, &mut ctx, true, &mut Silent).unwrap_or_else(|error| panic!("{error}, {}", case.name));
    ctx.said
        .reports
        .iter()
        .find(|report| report.pass == "schedule")
        .map(|report| (report.value, report.lower_bound))
}

/// Returns the bytes of the inputs in the arena that no node reads.
fn unread_inputs(module: &Module, io: Io) -> u64 {
    let main = module.graph(module.main());
    let is_read = |value: &Value| main.nodes.iter().any(|node| module.reads(*node).contains(value));
    let unread = main.inputs.iter().filter(|value| io == Io::Arena && !is_read(value));
    unread.map(|value| module.ty(*value).size().unwrap().0).sum()
}

/// Returns every order of a graph's nodes that the data flow allows.
fn all_orders(module: &Module) -> Vec<Vec<Node>> {
    fn extend(module: &Module, left: &[Node], order: &mut Vec<Node>, all: &mut Vec<Vec<Node>>) {
        if left.is_empty() {
            all.push(order.clone());
        }
        for node in left {
            let waits = module
                .reads(*node)
                .into_iter()
                .any(|value| module.producer(value).is_some_and(|maker| left.contains(&maker)));
            if !waits {
                order.push(*node);
                let rest: Vec<Node> = left.iter().copied().filter(|other| other != node).collect();
                extend(module, &rest, order, all);
                order.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(module, &module.graph(module.main()).nodes, &mut Vec::new(), &mut all);
    all
}

/// Returns the lowest peak of all orders; views are taken before, in-place writes after the order is
/// chosen.
fn best_by_brute_force(case: &Case, prepared: &Module, inference: &Inference) -> u64 {
    let peak = |order: Vec<Node>| {
        let mut module = prepared.clone();
        let main = module.main();
        let mut rewriter = Rewriter::new(&mut module);
        rewriter.set_schedule(main, order);
        rewriter.finish();
        module.stage = Stage::Scheduled;
        run(case, &mut module, inference, "in-place,place");
        oracle::peak(&module, &case.options)
    };
    all_orders(prepared).into_iter().map(peak).min().unwrap_or(0)
}

proptest! {
    #![proptest_config(crate::few(24))]

    #[test]
    fn plans_are_sound_and_never_worse_than_the_file(numbers in prop::collection::vec(any::<u64>(), 10..120), nodes in 1usize..24) {
        let text = module_text(numbers, nodes);
        for case in each_case(&text) {
            let (module, inference) = case.module();
            let mut base = module.clone();
            run(&case, &mut base, &inference, FILE_ORDER);
            let planned = case.plan();
            let planned = planned.unwrap_or_else(|error| panic!("{error}, {}", case.name)).planned.module;
            case.verify(&planned);
            for plan in [&base, &planned] {
                prop_assert_eq!(oracle::misplaced(plan, &case.options), Vec::<String>::new(), "{}\n{}", case.name, text::print(plan));
            }
            let options = &case.options;
            let (peak, arena) = (oracle::peak(&planned, options), oracle::arena(&planned));
            prop_assert!(peak <= oracle::peak(&base, options), "{}\n{}", case.name, text::print(&planned));
            prop_assert!(arena <= oracle::arena(&base), "{}\n{}", case.name, text::print(&planned));
            prop_assert!(oracle::working_set(&planned, options) <= peak && peak <= arena, "{}\n{}", case.name, text::print(&planned));
            let printed = text::print(&planned);
            prop_assert_eq!(text::print(&text::parse(&printed).unwrap()), printed);
        }
    }

    #[test]
    fn plans_with_a_slow_space_keep_the_limit_and_take_its_time(
        numbers in prop::collection::vec(any::<u64>(), 10..120),
        nodes in 1usize..24,
        share in 0u64..100,
    ) {
        let text = module_text(numbers, nodes);
        for io in [Io::Outputs, Io::Arena, Io::External] {
            let mut case = case(&text, &Profile::ARENA, io);
            let mut target = memc_cost::Target::default();
            target.kernels.workspace = false;
            let bank = memc_cost::Space { name: "bank".to_owned(), access: Some(1e9), ..target.spaces[0].clone() };
            target.spaces.push(bank);
            case.options = Options { io, effort: 2_000, ..Options::on(&Profile::ARENA, target) };
            let (module, inference) = case.module();
            let mut base = module.clone();
            run(&case, &mut base, &inference, FILE_ORDER);
            let limit = oracle::arena(&base) * share / 100;
            case.settings.limit = Some(memc_ir::Bytes(limit));
            let found = match case.plan() {
                Ok(found) => found,
                Err(error) => {
                    // All buffers may leave, but not the arenas of bodies.
                    prop_assert!(base.plan.scratch.iter().any(|row| row.bytes.0 > 0), "{error}, {}", case.name);
                    continue;
                }
            };
            let (planned, options) = (&found.planned.module, &case.options);
            case.verify(planned);
            let wrong = oracle::misplaced(planned, options);
            prop_assert!(wrong.is_empty(), "{wrong:?}\n{}\n{}", case.name, text::print(planned));
            prop_assert!(oracle::arena(planned) <= limit, "{}", case.name);
            // The score has the time of the accesses, and a plan without them has none.
            let mut near = planned.clone();
            near.plan.arenas.truncate(1);
            let [whole, near] = [planned, &near].map(|module| options.cost.total_nanos(module).0);
            let is_direct = planned.plan.arenas.len() > 1;
            prop_assert!(if is_direct { whole >= near } else { whole == near }, "{}: {whole} {near}", case.name);
            let nanos = found.planned.nanos(options);
            prop_assert!(nanos.abs_diff(whole.round() as u64) <= 1, "{}: {nanos} {whole}\n{}", case.name, text::print(planned));
        }
    }

    #[test]
    fn orders_of_small_graphs_keep_to_brute_force(numbers in prop::collection::vec(any::<u64>(), 10..60), nodes in 1usize..8) {
        let text = module_text(numbers, nodes);
        for case in each_case(&text) {
            let (mut prepared, inference) = case.module();
            run(&case, &mut prepared, &inference, "fold,dce,view");
            let count = prepared.graph(prepared.main()).nodes.len();
            if count > 7 {
                continue;
            }
            let mut ours = prepared.clone();
            let (promised, bound) = run(&case, &mut ours, &inference, "schedule,in-place,place").unwrap();
            let (peak, best) = (oracle::peak(&ours, &case.options), best_by_brute_force(&case, &prepared, &inference));
            let shown = text::print(&ours);
            prop_assert!(bound <= best, "the bound {bound} is above the best peak {best} {}\n{shown}", case.name);
            prop_assert!(best <= peak, "brute force missed an order: {best} > {peak} {}\n{shown}", case.name);
            // An input without readers is live at the first step of any order; the scheduler does not
            // count it.
            let unread = unread_inputs(&ours, case.options.io);
            prop_assert!(peak <= promised + unread, "the scheduler promised {promised}, the plan has {peak} {}\n{shown}", case.name);
            prop_assert!(bound < promised || peak <= best + unread, "proven, but {best} < {peak} {}\n{shown}", case.name);
        }
    }
}

#[test]
fn the_time_of_a_plan_includes_nodes_that_make_views() {
    let text = r#"opset "" 21
graph @g {
  input %x : f32[16]
  const %s : i64[1] = [64]
  const %t : i64[2] = [4, 16]
  const %u : i64[2] = [3, 64]
  const %z : i64[1] = [0]
  %a = Expand(%x, %t) : f32[4,16]
  %b = Reshape(%a, %s) : f32[64]
  %c = Exp(%b) : f32[64]
  %w = Expand(%c, %u) : f32[3,64]
  %p = Sin(%w) : f32[3,64]
  %q = ReduceSum(%p, %z) {keepdims = 0} : f32[64]
  %f = Mul(%q, %b) : f32[64]
  return %f
}
"#;
    let mut case = case(text, &Profile::ARENA, Io::External);
    let mut target = memc_cost::Target::default();
    let far = memc_cost::Space { name: "host".to_owned(), ..target.spaces[0].clone() };
    target.spaces.push(far);
    target.connect("host", 1e9, memc_ir::Nanos(0.0));
    case.options = Options { io: Io::External, ..Options::on(&Profile::ARENA, target) };
    case.settings.limit = Some(memc_ir::Bytes(1100));
    let found = case.plan().unwrap();
    let planned = &found.planned;
    assert!(planned.budgeted().is_some(), "{}", planned.trace);
    let views = planned.module.nodes().iter().filter(|(_, data)| &*data.operator.name == "Reshape").count();
    assert!(views > 0);
    let ends = memc_cost::timeline(&planned.module, &case.options.cost)
        .into_iter()
        .map(|span| span.end.0.round() as u64);
    assert_eq!(Some(planned.nanos(&case.options)), ends.max());
}
