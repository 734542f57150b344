//! Branches and loops: If, Loop, Scan, SequenceMap.

use memc_ir::{Dim, ElementType, GraphId, TensorType, ValueType};

use crate::context::{Infer, InferError};
use crate::fact::{Data, Fact, Item};
use crate::families::iteration::{carried, check_arity, collected, required_body};
use crate::families::join::join_facts;
use crate::families::scan::scan;
use crate::info::{OpInfo, Work};

/// Returns the fact of a constant boolean scalar.
fn boolean(value: bool) -> Fact {
    let data = Data::new(ElementType::Bool, Vec::new(), vec![Item::Int(i64::from(value))]);
    data.map_or_else(Fact::default, Fact::with_data)
}

fn known_boolean(fact: &Fact) -> Option<bool> {
    match fact.data.as_ref()?.items.as_slice() {
        [Item::Int(value)] => Some(*value != 0),
        _ => None,
    }
}

/// Infers If: joins the results of both branches, or takes those of the only possible branch.
fn branch(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let condition = known_boolean(ctx.required(0)?);
    let (then_body, else_body) = (required_body(ctx, "then_branch")?, required_body(ctx, "else_branch")?);
    // A branch that is never taken may be wrong: exporters leave dead branches in place.
    let found = match condition {
        Some(condition) => {
            let (taken, dead) = if condition { (then_body, else_body) } else { (else_body, then_body) };
            let found = ctx.infer_body(taken, &[]);
            ctx.infer_unreached(dead);
            [Some(found?), None]
        }
        None => ctx.infer_either([then_body, else_body])?,
    };
    let mut branches = found.into_iter().flatten();
    let (taken, other) = (branches.next().unwrap_or_default(), branches.next());
    for result in 0..ctx.output_count() {
        let fact = taken.get(result).cloned().unwrap_or_default();
        let fact = match &other {
            Some(other) => join_facts(&fact, &other.get(result).cloned().unwrap_or_default()),
            None => fact,
        };
        ctx.set(result, fact);
    }
    Ok(())
}

/// Returns the trip count of a loop: operand 0, or operand 0 as an upper bound if the condition may end
/// the loop early.
fn trip_count(ctx: &Infer<'_>, condition_after: Option<&Fact>) -> Dim {
    let condition_before = if ctx.has(1) { ctx.fact(1).and_then(known_boolean) } else { Some(true) };
    let count = match ctx.int_scalar(0) {
        Some(count) => Dim::Known(u64::try_from(count).unwrap_or(0)),
        None => ctx.dim_scalar(0),
    };
    match (condition_before, condition_after.and_then(known_boolean)) {
        (Some(false), _) => Dim::Known(0),
        (Some(true), Some(true)) => count,
        _ => count.open(),
    }
}

/// Returns the fact of the loop counter: a scalar, unless the body states a vector of length 1, which
/// runtimes tolerate.
fn loop_counter(ctx: &Infer<'_>, body: GraphId) -> Fact {
    let stated = ctx.body_input(body, 0).tensor().and_then(TensorType::rank);
    Fact::tensor(TensorType::fixed(ElementType::Int64, if stated == Some(1) { &[1] } else { &[] }))
}

/// Infers Loop. Operands: trip count, condition, carried values. Results: carried values, then collected
/// values.
fn run_loop(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let body = required_body(ctx, "body")?;
    let count = ctx.input_count().saturating_sub(2);
    check_arity(ctx, body, count + 2, count + 1)?;
    let initial: Vec<Fact> =
        (2..count + 2).map(|operand| ctx.fact(operand).cloned().unwrap_or_default()).collect();
    // The condition is true whenever the body runs.
    let head = [loop_counter(ctx, body), boolean(true)];
    let (state, results) = carried(ctx, body, &head, initial, &[], 1)?;
    let trips = trip_count(ctx, results.first());
    for (result, fact) in state.into_iter().enumerate() {
        ctx.set(result, fact);
    }
    for result in count..ctx.output_count() {
        let element = results.get(result + 1).map_or(&ValueType::Unknown, |fact| &fact.ty);
        ctx.set(result, collected(element, Some(0), &trips).unwrap_or_default());
    }
    Ok(())
}

/// Infers SequenceMap: the body runs for every element of operand 0. Other sequences are iterated in
/// parallel, tensors are passed whole.
fn sequence_map(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let body = required_body(ctx, "body")?;
    ctx.required(0)?;
    check_arity(ctx, body, ctx.input_count(), ctx.output_count())?;
    let element = |operand| match ctx.fact(operand).map(|fact| &fact.ty) {
        Some(ValueType::Sequence(inner)) => Fact::of((**inner).clone()),
        Some(_) => ctx.fact(operand).cloned().unwrap_or_default(),
        None => Fact::default(),
    };
    let inputs: Vec<Fact> = (0..ctx.input_count()).map(element).collect();
    let results = ctx.infer_body(body, &inputs)?;
    for (result, fact) in results.into_iter().enumerate() {
        ctx.set(result, Fact::of(ValueType::Sequence(Box::new(fact.ty))));
    }
    Ok(())
}

const fn bodies(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    OpInfo::onnx(name, infer).work(Work::Bodies)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    bodies("If", branch),
    bodies("Loop", run_loop),
    bodies("Scan", scan),
    bodies("SequenceMap", sequence_map),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::{
        Attribute, ConstData, ConstOrigin, Module, ModuleBuilder, NewNode, Operator, Origin, Payload, Value,
    };

    use super::*;
    use crate::driver::infer;
    use crate::families::testing::{Case, ty};

    /// A module under construction whose nodes have one result each.
    struct Sketch(ModuleBuilder);

    impl Sketch {
        fn node(
            &mut self,
            graph: GraphId,
            name: &str,
            inputs: &[Option<Value>],
            attributes: Vec<(&str, Attribute)>,
            results: usize,
        ) -> Vec<Value> {
            let count = self.0.module().values().len();
            let named: Vec<_> =
                (0..results).map(|at| Some((format!("v{}", count + at), ValueType::Unknown))).collect();
            let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let new = NewNode::new(Operator::onnx(name, 13), inputs.to_vec(), attributes, Origin::Text);
            let node = self.0.node(graph, new, &named);
            self.0.module().node(node).results().collect()
        }
        fn constant(&mut self, element: ElementType, raw: &[u8]) -> Value {
            let payload = Payload::Raw(raw.to_vec().into());
            let data = ConstData { ty: TensorType::fixed(element, &[]), payload, origin: ConstOrigin::New };
            let constant = self.0.constant(data);
            let main = self.0.module().main();
            self.0.initializer(main, &format!("c{constant:?}"), constant)
        }
    }

    /// Builds a loop that concatenates its carried `[2,N]` with itself along `axis` (or passes it on,
    /// for `None`) and collects a `[3]` per iteration.
    fn run(trips: Option<i64>, condition: Option<bool>, axis: Option<i64>) -> (Module, Vec<Value>) {
        let mut sketch = Sketch(ModuleBuilder::new());
        let main = sketch.0.module().main();
        let carried = sketch.0.input(main, "x", ty("f32[2,N]"), None);
        let row = sketch.0.input(main, "row", ty("f32[3]"), None);
        let trips = trips.map(|trips| sketch.constant(ElementType::Int64, &trips.to_le_bytes()));
        let flag = condition.map(|flag| sketch.constant(ElementType::Bool, &[u8::from(flag)]));
        let body = sketch.0.graph("body");
        sketch.0.input(body, "i", ty("i64[]"), None);
        let go_on = sketch.0.input(body, "go_on", ty("bool[]"), None);
        let inner = sketch.0.input(body, "inner", ValueType::Unknown, None);
        let again = sketch.node(body, "Identity", &[Some(go_on)], vec![], 1)[0];
        let grown = match axis {
            Some(axis) => {
                sketch.node(body, "Concat", &[Some(inner); 2], vec![("axis", Attribute::Int(axis))], 1)[0]
            }
            None => inner,
        };
        for value in [again, grown, row] {
            sketch.0.output(body, value);
        }
        let results = sketch.node(
            main,
            "Loop",
            &[trips, flag, Some(carried)],
            vec![("body", Attribute::Graph(body))],
            2,
        );
        let mut module = sketch.0.finish();
        assert!(infer(&mut module).diagnostics.is_empty());
        (module, results)
    }

    fn shown(trips: Option<i64>, condition: Option<bool>, axis: Option<i64>) -> String {
        let (module, results) = run(trips, condition, axis);
        results.iter().map(|value| module.ty(*value).to_string()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn carried_values_keep_extents_that_no_iteration_changes() {
        assert_eq!(shown(Some(4), None, None), "f32[2,N]; f32[4,3]");
        assert_eq!(shown(Some(4), Some(true), Some(0)), "f32[?,N]; f32[4,3]");
        assert_eq!(shown(None, Some(true), Some(1)), "f32[2,?]; f32[?,3]");
        assert_eq!(shown(Some(4), Some(false), None), "f32[2,N]; f32[0,3]");
        assert_eq!(shown(Some(-1), None, None), "f32[2,N]; f32[0,3]");
    }

    #[test]
    fn a_condition_from_data_ends_a_loop_no_later_than_its_trip_count() {
        let collected = |trips: Option<i64>| {
            let mut sketch = Sketch(ModuleBuilder::new());
            let main = sketch.0.module().main();
            let (flag, row) = (
                sketch.0.input(main, "flag", ty("bool[]"), None),
                sketch.0.input(main, "row", ty("f32[3]"), None),
            );
            let trips = trips.map(|trips| sketch.constant(ElementType::Int64, &trips.to_le_bytes()));
            let body = sketch.0.graph("body");
            sketch.0.input(body, "i", ty("i64[]"), None);
            sketch.0.input(body, "go_on", ty("bool[]"), None);
            sketch.0.output(body, flag);
            sketch.0.output(body, row);
            let result =
                sketch.node(main, "Loop", &[trips, None], vec![("body", Attribute::Graph(body))], 1)[0];
            let mut module = sketch.0.finish();
            infer(&mut module);
            module.ty(result).to_string()
        };
        assert_eq!([collected(Some(4)), collected(None)], ["f32[?<=4,3]", "f32[?,3]"]);
    }

    #[test]
    fn a_rank_that_grows_every_iteration_becomes_unknown() {
        let mut sketch = Sketch(ModuleBuilder::new());
        let main = sketch.0.module().main();
        let carried = sketch.0.input(main, "x", ty("f32[2,N]"), None);
        let body = sketch.0.graph("body");
        sketch.0.input(body, "i", ty("i64[]"), None);
        let go_on = sketch.0.input(body, "go_on", ty("bool[]"), None);
        let inner = sketch.0.input(body, "inner", ValueType::Unknown, None);
        let axes = sketch.constant(ElementType::Int64, &0i64.to_le_bytes());
        let axes = sketch.node(main, "Reshape", &[Some(axes), None], vec![], 1)[0];
        let taller = sketch.node(body, "Unsqueeze", &[Some(inner), Some(axes)], vec![], 1)[0];
        sketch.0.output(body, go_on);
        sketch.0.output(body, taller);
        let result = sketch.node(
            main,
            "Loop",
            &[None, None, Some(carried)],
            vec![("body", Attribute::Graph(body))],
            1,
        )[0];
        let mut module = sketch.0.finish();
        infer(&mut module);
        assert_eq!(module.ty(result).to_string(), "f32[*]");
    }

    #[test]
    fn branches_join_and_a_constant_condition_takes_one() {
        let choose = |case: Case| {
            case.body("then_branch", &[], &["f32[2,3]"]).body("else_branch", &[], &["f32[2,4]"]).show()
        };
        assert_eq!(choose(Case::new("If", 13).input("bool[]")), "f32[2,?<=4]");
        assert_eq!(choose(Case::new("If", 13).data("bool[]", "true")), "f32[2,3]");
        assert_eq!(choose(Case::new("If", 13).data("bool[]", "false")), "f32[2,4]");
        assert_eq!(Case::new("If", 13).input("bool[]").show(), "error: attribute `then_branch` is missing");
    }

    #[test]
    fn scans_collect_along_axes() {
        let scan = |version| {
            let body: (&[&str], &[&str]) = (&["f32[N]", "f32[3]"], &["f32[N]", "f32[4]"]);
            Case::new("Scan", version).int("num_scan_inputs", 1).body("body", body.0, body.1).outputs(2)
        };
        let nine = || scan(9).input("f32[N]").input("f32[3,7]").ints("scan_input_axes", &[1]);
        assert_eq!(nine().show_all(), "f32[N]; f32[7,4]");
        assert_eq!(nine().ints("scan_output_axes", &[-1]).show_all(), "f32[N]; f32[4,7]");
        assert!(
            nine().ints("scan_output_axes", &[2]).show().starts_with("error: attribute `scan_output_axes`")
        );
        let eight = scan(8).input("").input("f32[B,N]").input("f32[B,7,3]");
        assert_eq!(eight.show_all(), "f32[B,N]; f32[B,7,4]");
        assert!(scan(9).input("f32[3,7]").show().starts_with("error: attribute `body`"));
        let too_many =
            Case::new("Scan", 9).int("num_scan_inputs", 3).body("body", &[], &[]).input("f32[3,7]");
        assert!(too_many.show().starts_with("error: attribute `num_scan_inputs`"));
    }

    #[test]
    fn maps_over_sequences() {
        let map = Case::new("SequenceMap", 17).input("seq<f32[N]>").input("f32[2]");
        assert_eq!(map.body("body", &["f32[N]", "f32[2]"], &["i64[N]"]).show(), "seq<i64[N]>");
    }
}
