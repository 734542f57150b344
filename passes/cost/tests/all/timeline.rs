//! Timelines: operators one after another, transfers in parallel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_cost::{CostModel, Target, timeline};
use memc_ir::{Module, Nanos, text};

/// Makes a plan that stores 4,000 bytes while `%b` is computed and loads them afterwards. `offset` is
/// the offset of `%b`.
fn module(offset: u64) -> Module {
    let text = format!(
        r#"mem 1
ir_version 10
opset "" 21
opset "ai.memc" 1
stage planned
space @device alignment 1
space @host alignment 1
arena @device size 16KiB lower_bound 8000
arena @host size 4000 lower_bound 4000

graph @g {{
  input %x : f32[1000]
  %a = Relu(%x) : f32[1000] @device+0x0
  %far = ai.memc::SwapOut(%a) : f32[1000] @host+0x0
  %b = Relu(%x) : f32[1000] @device+0x{offset:x}
  %near = ai.memc::SwapIn(%far) : f32[1000] @device+0x2000
  %c = Relu(%b) : f32[1000] @device+0x3000
  %d = Add(%near, %c) : f32[1000] @device+0x1000
  return %d
}}
"#
    );
    text::parse(&text).unwrap()
}

/// Nodes take 1,000 ns each; a transfer takes 500 ns and 1 ns per 4 bytes.
fn costs() -> CostModel {
    let mut target = Target::default();
    target.machine.cache = None;
    target.machine.bytes_per_second = 1e24;
    target.machine.flops_per_second.float = 1e24;
    target.machine.overhead = Nanos(1_000.0);
    target.connect("host", 4e9, Nanos(500.0));
    CostModel { target, measured: None, scratch: None }
}

fn spans(module: &Module) -> Vec<(f64, f64)> {
    timeline(module, &costs()).into_iter().map(|span| (span.start.0.round(), span.end.0.round())).collect()
}

#[test]
fn transfers_run_beside_operators_and_readers_wait_for_them() {
    // The store runs from 1000 to 2500, in parallel with %b. The load runs from 2500, the end of the
    // store, to 4000, in parallel with %c; %d waits for it.
    let expected = [
        (0.0, 1000.0),
        (1000.0, 2500.0),
        (1000.0, 2000.0),
        (2500.0, 4000.0),
        (2000.0, 3000.0),
        (4000.0, 5000.0),
    ];
    assert_eq!(spans(&module(0x1000)), expected);
}

#[test]
fn bytes_that_a_store_reads_are_not_overwritten() {
    // %b has the bytes of %a, so it waits for the store.
    let expected = [
        (0.0, 1000.0),
        (1000.0, 2500.0),
        (2500.0, 3500.0),
        (3500.0, 5000.0),
        (3500.0, 4500.0),
        (5000.0, 6000.0),
    ];
    assert_eq!(spans(&module(0)), expected);
}

#[test]
fn without_transfers_a_timeline_is_a_sum() {
    let module = text::parse(
        "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {\n  input %x : f32[9]\n  %a = Exp(%x) : f32[9]\n  %b = Neg(%a) : f32[9]\n  return %b\n}\n",
    );
    let (module, costs) = (module.unwrap(), CostModel::default());
    let spans = timeline(&module, &costs);
    assert_eq!(spans.last().unwrap().end, costs.total_nanos(&module));
    assert_eq!(spans[0].end, spans[1].start);
}

#[test]
fn a_link_that_the_target_lacks_is_charged_a_bound() {
    let spans = timeline(&module(0x1000), &CostModel::default());
    assert_eq!(spans[1].end.0 - spans[1].start.0, memc_cost::UNKNOWN_NANOS);
}
