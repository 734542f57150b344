//! Runs the programs of `examples/`: each one checks its own claims.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

#[path = "../../examples/budget.rs"]
mod budget;
#[path = "../../examples/layout.rs"]
mod layout;
#[path = "../../examples/pass.rs"]
mod pass;
#[path = "../../examples/plan.rs"]
mod plan;
#[path = "../../examples/strategy.rs"]
mod strategy;
#[path = "../../examples/target.rs"]
mod target;
#[path = "../../examples/transform.rs"]
pub(crate) mod transform;

#[test]
fn a_model_is_planned_and_written() {
    plan::main().unwrap();
}

#[test]
fn a_budget_is_kept_or_the_smallest_one_is_named() {
    budget::main().unwrap();
}

#[test]
fn a_layout_is_read_from_its_text() {
    layout::main().unwrap();
}

#[test]
fn a_target_of_the_callers_own_is_planned_for() {
    target::main().unwrap();
}

#[test]
fn a_pass_of_the_callers_own_runs() {
    pass::main().unwrap();
}

#[test]
fn pipelines_of_the_callers_own_compete() {
    strategy::main().unwrap();
}

/// Requests, plans and errors cross threads.
#[test]
fn the_interface_is_send() {
    fn is_send<T: Send>() {}
    is_send::<memc::Model>();
    is_send::<memc::Request>();
    is_send::<memc::Planned>();
    is_send::<memc::Error>();
    is_send::<memc::Stop>();
}

/// A stop for interrupts leaves plan and effort as they are without one, and ends searches when it is
/// requested.
#[test]
fn a_stop_for_interrupts_changes_no_plan() {
    let model =
        memc::Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx")).unwrap();
    let request = memc::Request::new().exact(true).budget(memc::Size::Percent(60.0)).effort(50_000);
    let (plain, stop) = (memc::plan(&model, &request).unwrap(), memc::Stop::on_interrupt());
    let quiet = memc::plan(&model, &request.clone().stop(stop.clone())).unwrap();
    assert_eq!(plain.layout, quiet.layout);
    let effort = |planned: &memc::Planned| planned.log.iter().map(|entry| entry.effort).sum::<u64>();
    assert_eq!(effort(&plain), effort(&quiet));
    // A time limit keeps the flag.
    stop.request();
    let limited = request.stop(stop).time_limit(std::time::Duration::from_secs(3600));
    assert_eq!(effort(&memc::plan(&model, &limited).unwrap()), 0);
}

/// A stop that another thread requests ends the searches with a plan.
#[test]
fn a_stop_ends_the_searches() {
    let model =
        memc::Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx")).unwrap();
    let stop = memc::Stop::on_request();
    stop.clone().request();
    let request = memc::Request::new().exact(true).budget(memc::Size::Percent(60.0));
    let early = memc::plan(&model, &request.clone().stop(stop)).unwrap();
    let full = memc::plan(&model, &request).unwrap();
    let effort = |planned: &memc::Planned| planned.log.iter().map(|entry| entry.effort).sum::<u64>();
    assert!(effort(&early) == 0 && effort(&full) > 0, "{} and {}", effort(&early), effort(&full));
    assert!(early.arena() > 0);
}

#[test]
fn a_transform_of_the_callers_own_adds_outputs() {
    transform::main().unwrap();
}
