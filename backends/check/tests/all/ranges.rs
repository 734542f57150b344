//! Plans for ranges of dimensions: one valid plan, and damages that hold at the largest extents only.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::fixture;

use std::collections::BTreeMap;

use fixture::*;
use memc_check::{Kind, Report};
use memc_ir::DimExpr;
use memc_layout::{AliasKind, Class, Extents, FormulaRow, Layout, Limit, LiveRange, Tensor};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{AttributeProto, NodeProto};

/// Shapes of the values of a case, over `batch` from 1 to 4. Other values have the shape `batch,16`.
type Shapes = &'static [(&'static str, &'static str)];

/// Alias of a tensor: its target, kind, and first byte as an expression.
type Shares = &'static [(&'static str, (&'static str, AliasKind, &'static str))];

const SHAPES: Shapes = &[
    ("k", "2*batch,16"),
    ("g", "2*batch,16"),
    ("f", "2,16"),
    ("l", "2,16"),
    ("h", "2,16"),
    ("z", "2,16"),
    ("y", "2,16"),
];

const SHARES: Shares = &[
    ("c", ("k", AliasKind::View, "64*batch")),
    ("a", ("k", AliasKind::View, "0")),
    ("g", ("k", AliasKind::InPlace, "0")),
    ("f", ("g", AliasKind::View, "0")),
    ("l", ("g", AliasKind::View, "128*batch-128")),
];

/// Returns nodes that join two halves and take the first two and the last two rows.
fn nodes() -> Vec<NodeProto> {
    vec![
        node("other", "Exp", &["x"], &["c"]),
        node("keep", "Neg", &["x"], &["n"]),
        node("near", "Abs", &["n"], &["v"]),
        node("start", "Relu", &["x"], &["a"]),
        with(node("join", "Concat", &["a", "c"], &["k"]), int("axis", 0)),
        node("gate", "Sigmoid", &["k"], &["g"]),
        node("first", "Slice", &["g", "zero", "two"], &["f"]),
        node("last", "Slice", &["g", "minus", "end"], &["l"]),
        node("over", "Tanh", &["f"], &["h"]),
        node("front", "Abs", &["h"], &["z"]),
        node("back", "Abs", &["l"], &["y"]),
    ]
}

fn expr(text: &str) -> DimExpr {
    DimExpr::parse(text).unwrap()
}

fn at_most(of: &DimExpr) -> u64 {
    let value =
        |batch: u64| of.bind(&BTreeMap::from([("batch".to_owned(), batch)])).unwrap().as_constant().unwrap();
    (1..=4).map(value).max().unwrap() as u64
}

/// Returns the case of some nodes with a plan for `batch` from 1 to 4.
fn planned(nodes: Vec<NodeProto>, shapes: Shapes, shares: Shares) -> Case {
    let mut case = Case::same(nodes, |graph| {
        graph.initializer =
            vec![ints("zero", &[0]), ints("two", &[2]), ints("minus", &[-2]), ints("end", &[i64::MAX])];
        graph.input = vec![info("x", FLOAT, &[-1, 16])];
        graph.output = vec![info("v", FLOAT, &[-1, 16])];
        graph.output.extend(["z", "y"].map(|name| info(name, FLOAT, &[2, 16])));
        let made: Vec<&str> = graph.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        graph.output.retain(|output| made.contains(&output.name()));
    });
    case.out = case.given.clone();
    for name in ["zero", "two", "minus", "end"] {
        case.shapes.insert(name, (INT64, vec![1]));
    }
    let dims = |text: &str| -> Vec<DimExpr> { text.split(',').map(expr).collect() };
    for (name, text) in shapes {
        case.shapes.insert(name, (FLOAT, dims(text).iter().map(at_most).collect()));
    }
    for (name, (of, kind, first)) in shares {
        case.aliases.insert(name, (of, *kind, at_most(&expr(first))));
    }
    case.baseline = 1280;
    let layout = case.layout();
    (layout.model.dims, layout.model.bound) = (BTreeMap::new(), false);
    layout.model.ranges = BTreeMap::from([("batch".to_owned(), Extents { min: 1, max: 4, step: 1 })]);
    layout.formula = formula(layout);
    for tensor in layout.tensors.iter_mut().filter(|tensor| tensor.dtype == "float") {
        let text = shapes.iter().find(|(name, _)| *name == tensor.name).map_or("batch,16", |(_, text)| text);
        let dims = dims(text);
        if dims.iter().any(|dim| dim.as_constant().is_none()) {
            let bytes = dims.iter().fold(DimExpr::constant(4), |product, dim| product.mul(dim).unwrap());
            tensor.shape_expr = Some(dims.iter().map(ToString::to_string).collect());
            tensor.bytes_expr = Some(bytes.to_string());
        }
        if let Some((_, (.., first))) = shares.iter().find(|(name, _)| *name == tensor.name)
            && expr(first).as_constant().is_none()
        {
            tensor.alias.as_mut().unwrap().alias_offset_expr = Some((*first).to_owned());
        }
    }
    case
}

/// Returns rows in which each owner lies on the owner before it, as the case places them.
fn formula(layout: &Layout) -> BTreeMap<String, Vec<FormulaRow>> {
    let mut rows: BTreeMap<String, Vec<FormulaRow>> = BTreeMap::new();
    let mut owners: Vec<&Tensor> = layout.tensors.iter().filter(|tensor| tensor.alias.is_none()).collect();
    owners.sort_by_key(|tensor| tensor.offset);
    for tensor in owners {
        if let Some(space) = &tensor.space {
            let rows = rows.entry(space.clone()).or_default();
            let above = rows.last().map(|row| row.tensor.clone()).into_iter().collect();
            rows.push(FormulaRow { tensor: tensor.name.clone(), above });
        }
    }
    rows
}

fn case() -> Case {
    planned(nodes(), SHAPES, SHARES)
}

fn told(report: &Report) -> Vec<String> {
    report.violations.iter().map(|violation| violation.diagnostic.to_string()).collect()
}

#[test]
fn the_plan_holds() {
    let report = case().report();
    assert!(report.holds(), "{:#?} {:#?}", told(&report), report.remarks);
}

fn range(case: &mut Case) -> &mut Extents {
    case.layout().model.ranges.get_mut("batch").unwrap()
}

/// Moves a tensor in its arena.
fn lay(case: &mut Case, name: &str, offset: u64) {
    case.tensor(name).offset = Some(offset);
}

type Damage = (Kind, &'static str, fn(&mut Case));

const DAMAGES: &[Damage] = &[
    (Kind::Extents, "a range without an extent", |c| range(c).min = 5),
    (Kind::Extents, "a step of zero", |c| range(c).step = 0),
    (Kind::Extents, "an end between two steps", |c| range(c).step = 2),
    (Kind::Extents, "an extent beyond all integers", |c| range(c).max = u64::MAX),
    (Kind::Extents, "a bound dimension with a range", |c| {
        c.layout().model.dims.insert("batch".into(), 4);
    }),
    (Kind::Extents, "a limit on no expression", |c| {
        c.layout().model.limits.push(Limit { of: "batch*".into(), most: 4 })
    }),
    (Kind::Extents, "too many limits", |c| {
        c.layout().model.limits = vec![Limit { of: "batch".into(), most: 4 }; 65];
    }),
    (Kind::Extents, "an equation without an expression", |c| {
        c.layout().model.equal.insert("total".into(), "batch+".into());
    }),
    (Kind::Extents, "an equation of a dimension with a range", |c| {
        c.layout().model.equal.insert("batch".into(), "4".into());
    }),
    (Kind::Model, "a range of a dimension that the model does not have", |c| {
        c.layout().model.ranges.insert("rows".into(), Extents { min: 1, max: 2, step: 1 });
    }),
    (Kind::Model, "limits that no extents keep", |c| {
        c.layout().model.limits.push(Limit { of: "batch".into(), most: 0 })
    }),
    (Kind::Model, "an input that is bound", |c| {
        c.layout();
        c.graph().input[0] = info("x", FLOAT, &[4, 16]);
    }),
    (Kind::Expression, "no shape", |c| c.tensor("k").shape_expr = None),
    (Kind::Expression, "no size", |c| c.tensor("k").bytes_expr = None),
    (Kind::Expression, "another size", |c| c.tensor("k").bytes_expr = Some("64*batch+256".into())),
    (Kind::Expression, "another shape", |c| {
        c.tensor("k").shape_expr = Some(vec!["batch+4".into(), "16".into()])
    }),
    (Kind::Expression, "a size of a fixed tensor", |c| c.tensor("h").bytes_expr = Some("32*batch".into())),
    (Kind::Expression, "another text of the size", |c| c.tensor("k").bytes_expr = Some("batch*128".into())),
    (Kind::UpperBound, "an extent that is too small", |c| c.tensor("k").shape[0] = 7),
    (Kind::UpperBound, "a size that is too small", |c| c.tensor("n").bytes = 255),
    (Kind::UpperBound, "a range that is too wide", |c| range(c).max = 5),
    (Kind::UpperBound, "a limit that bounds another dimension's extents only", |c| {
        range(c).max = 5;
        c.layout().model.limits.push(Limit { of: "2*batch".into(), most: 10 });
    }),
    (Kind::Bytes, "a size above that of the shape", |c| c.tensor("n").bytes = 257),
    (Kind::Type, "another rank", |c| c.tensor("n").shape.push(1)),
    (Kind::ViewOffset, "a first byte that is right at the largest extents", |c| {
        c.tensor("c").alias.as_mut().unwrap().alias_offset_expr = Some("64*batch-0*batch+0".into());
    }),
    (Kind::ViewOffset, "a fixed first byte", |c| {
        c.tensor("c").alias.as_mut().unwrap().alias_offset_expr = None
    }),
    (Kind::ViewOffset, "a first byte of a fixed view", |c| {
        c.tensor("a").alias.as_mut().unwrap().alias_offset_expr = Some("4-batch".into());
    }),
    (Kind::ViewOffset, "a first byte above its upper bound", |c| {
        let offset = c.tensor("k").offset.unwrap();
        c.tensor("c").alias.as_mut().unwrap().alias_offset = 192;
        lay(c, "c", offset + 192);
    }),
    // At four rows, `c` begins behind `n`; at one row it begins inside.
    (Kind::Overlap, "a tensor in front of a view that moves", |c| {
        let offset = c.tensor("k").offset.unwrap();
        lay(c, "n", offset);
    }),
    // At four rows the first two and the last two are apart; at one row they are equal.
    (Kind::InPlaceReadLater, "an overwritten view that meets a moving one", |c| {
        let (space, offset) = (c.tensor("f").space.clone(), c.tensor("f").offset);
        let over = c.tensor("h");
        (over.space, over.offset) = (space, offset);
        over.alias = Some(memc_layout::Alias {
            of: "f".into(),
            kind: AliasKind::InPlace,
            alias_offset: 0,
            alias_offset_expr: None,
        });
    }),
];

#[test]
fn damages_are_found() {
    let mut missed = Vec::new();
    for (kind, what, damage) in DAMAGES {
        let mut case = case();
        damage(&mut case);
        let report = case.report();
        if !report.violations.iter().any(|violation| violation.kind == *kind) {
            missed.push(format!("{} ({what}): {:#?}", kind.name(), told(&report)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn workspace_over_free_dimensions_is_proven() {
    // Returns the findings about expressions if a workspace of 256 bytes states these.
    let kinds = |shape: Option<&str>, bytes: Option<&str>| -> Vec<&str> {
        let mut case = case();
        let step = case.step("gate");
        let own = |text: &str| text.to_owned();
        let workspace = Tensor {
            name: "scratch:gate:0".to_owned(),
            class: Class::Scratch,
            dtype: "uint8".to_owned(),
            shape: vec![256],
            bytes: 256,
            shape_expr: shape.map(|text| vec![own(text)]),
            bytes_expr: bytes.map(own),
            alias: None,
            step: Some(step),
            live: vec![LiveRange { start: step, end: step + 1 }],
            ..case.copy("n")
        };
        case.layout().tensors.push(workspace);
        let kinds = case.report().violations.into_iter().map(|violation| violation.kind);
        assert!(kinds.clone().all(|kind| kind != Kind::Scratch));
        kinds.filter(|kind| [Kind::Expression, Kind::UpperBound].contains(kind)).map(Kind::name).collect()
    };
    let both = |text| kinds(Some(text), Some(text));
    assert!(kinds(None, None).is_empty());
    assert!(
        both("64*batch").is_empty()
            && both("64*min(3,batch)").is_empty()
            && both("256*floor(batch/4)").is_empty()
    );
    for beyond in ["65*batch", "64*batch+1", "17*batch*batch", "rows", "max(256,65*batch)"] {
        assert_eq!(both(beyond), [Kind::UpperBound.name()], "{beyond}");
    }
    for wrong in ["batch*64", "256", "64*", ""] {
        assert_eq!(both(wrong), [Kind::Expression.name()], "{wrong}");
    }
    for (shape, bytes) in
        [(Some("64*batch"), None), (None, Some("64*batch")), (Some("32*batch"), Some("64*batch"))]
    {
        assert_eq!(kinds(shape, bytes), [Kind::Expression.name()]);
    }
}

#[test]
fn limits_lower_the_bounds_of_sizes() {
    let mut case = case();
    range(&mut case).max = 9;
    case.layout().model.limits.push(Limit { of: "3*batch".into(), most: 14 });
    assert!(case.report().holds(), "{:#?}", told(&case.report()));
    case.layout().model.limits[0].most = 15;
    assert!(case.report().violations.iter().any(|violation| violation.kind == Kind::UpperBound));
}

#[test]
fn columns_are_no_views_beside_several_rows() {
    let nodes = || {
        let beside = with(node("join", "Concat", &["a", "c"], &["k"]), int("axis", 1));
        vec![
            node("start", "Relu", &["x"], &["a"]),
            node("other", "Exp", &["x"], &["c"]),
            beside,
            node("front", "Abs", &["k"], &["v"]),
        ]
    };
    const SHAPES: Shapes = &[("k", "batch,32"), ("v", "batch,32")];
    let mut apart = planned(nodes(), SHAPES, &[]);
    apart.layout().baseline.file_order_peak.insert("device".into(), 1024);
    apart.both(|graph| graph.output[0] = info("v", FLOAT, &[-1, 32]));
    assert!(apart.report().holds(), "{:#?}", told(&apart.report()));
    let mut joined = planned(nodes(), SHAPES, &[("a", ("k", AliasKind::View, "0"))]);
    joined.both(|graph| graph.output[0] = info("v", FLOAT, &[-1, 32]));
    assert!(
        joined.report().violations.iter().any(|violation| violation.kind == Kind::View),
        "{:#?}",
        told(&joined.report())
    );
}

#[test]
fn numbers_that_hold_at_the_largest_extents_are_refused() {
    let mut case = case();
    case.layout();
    // A shape with eight rows in place of all rows.
    case.graph().initializer.push(ints("eight", &[8, 16]));
    *case.node("gate") = node("gate", "Reshape", &["k", "eight"], &["g"]);
    assert!(
        case.report().violations.iter().any(|violation| violation.kind == Kind::Model),
        "{:#?}",
        told(&case.report())
    );
    // The first eight rows in place of all: the type of the result shows it.
    let mut case = self::case();
    case.layout();
    case.graph().initializer.push(ints("seven", &[7]));
    *case.node("gate") = node("gate", "Slice", &["k", "zero", "seven"], &["g"]);
    assert!(
        case.report().violations.iter().any(|violation| violation.kind == Kind::Expression),
        "{:#?}",
        told(&case.report())
    );
}

#[test]
fn a_part_may_be_overwritten_beside_a_moving_one() {
    let nodes = vec![
        node("start", "Relu", &["x"], &["a"]),
        node("other", "Exp", &["x"], &["c"]),
        with(node("join", "Concat", &["a", "c"], &["k"]), int("axis", 0)),
        node("front", "Abs", &["k"], &["v"]),
        node("over", "Tanh", &["a"], &["h"]),
        node("near", "Abs", &["h"], &["z"]),
        node("back", "Abs", &["c"], &["y"]),
    ];
    const SHAPES: Shapes = &[("k", "2*batch,16"), ("v", "2*batch,16")];
    const SHARES: Shares = &[
        ("a", ("k", AliasKind::View, "0")),
        ("c", ("k", AliasKind::View, "64*batch")),
        ("h", ("a", AliasKind::InPlace, "0")),
    ];
    let mut case = planned(nodes, SHAPES, SHARES);
    let outputs = ["v", "z", "y"].map(|name| info(name, FLOAT, &[-1, 16]));
    // The number of rows of `v` is no extent of the input.
    case.both(|graph| graph.output = outputs.to_vec());
    case.both(|graph| graph.output[0].r#type = None);
    case.layout().baseline.file_order_peak.insert("device".into(), 1280);
    // At all extents `a` ends where `c` begins, although `c` at one row begins inside `a` at four rows.
    assert!(case.report().holds(), "{:#?}", told(&case.report()));
}

#[test]
fn outputs_of_other_texts_are_compared_for_all_extents() {
    // A join of `x` with a part of itself that is empty at all extents, and one that is not.
    for (from, kind) in [(4, None), (3, Some(Kind::Interface))] {
        let nodes = vec![node("start", "Relu", &["x"], &["a"]), node("front", "Abs", &["a"], &["v"])];
        let mut case = planned(nodes, &[], &[]);
        case.layout().baseline.file_order_peak.insert("device".into(), 512);
        let given = case.given.graph.as_mut().unwrap();
        given.output[0].r#type = None;
        given.initializer.push(ints("from", &[from]));
        given.node = vec![
            node("start", "Relu", &["x"], &["a"]),
            node("cut", "Slice", &["a", "from", "end"], &["none"]),
            with(node("join", "Concat", &["a", "none"], &["all"]), int("axis", 0)),
            node("front", "Abs", &["all"], &["v"]),
        ];
        let report = case.report();
        let found = report
            .violations
            .iter()
            .find(|violation| violation.kind == Kind::Interface)
            .map(|violation| violation.kind);
        assert_eq!(found, kind, "{from}: {:#?}", told(&report));
    }
}

/// Returns whether the check refuses a node of the output model that reads the rows of `a` from the third
/// one on, for batches from `least` to 4. `axes` are an operand and an attribute of a reduction that takes
/// them.
fn is_refused(operator: &str, least: u64, axes: (Option<i64>, Option<i64>)) -> bool {
    let (operand, attribute) = axes;
    let operands = ["rest", "axes"];
    let mut part = node("part", operator, &operands[..1 + usize::from(operand.is_some())], &["made"]);
    part.attribute.extend(attribute.map(|axis| AttributeProto {
        r#type: Some(AttributeType::Ints as i32),
        ints: vec![axis],
        ..int("axes", 0)
    }));
    let nodes = vec![
        node("start", "Relu", &["x"], &["a"]),
        node("front", "Abs", &["a"], &["v"]),
        node("cut", "Slice", &["a", "two", "end"], &["rest"]),
        part,
    ];
    let mut case = planned(nodes, &[], &[]);
    case.both(|graph| graph.initializer.extend(operand.map(|axis| ints("axes", &[axis]))));
    range(&mut case).min = least;
    // The plan made both nodes.
    case.given.graph.as_mut().unwrap().node.truncate(2);
    case.report().violations.iter().any(|violation| violation.kind == Kind::Empty)
}

#[test]
fn kernels_that_refuse_nothing_get_no_part_that_may_be_empty() {
    let is_refused = |operator, least| is_refused(operator, least, (None, None));
    assert!(!is_refused("Abs", 1), "its kernel takes rows of none");
    assert!(is_refused("Trilu", 1) && is_refused("Trilu", 2), "batches of one and two have no third row");
    assert!(!is_refused("Trilu", 3));
}

#[test]
fn reductions_of_nothing_count_their_axes_from_the_front() {
    // The sum takes its axes as an operand at this version of the operator set, the mean as an attribute.
    assert!(!is_refused("ReduceSum", 1, (Some(1), None)));
    assert!(is_refused("ReduceSum", 1, (Some(-1), None)) && !is_refused("ReduceSum", 3, (Some(-1), None)));
    assert!(!is_refused("ReduceMean", 1, (None, Some(1))));
    assert!(is_refused("ReduceMean", 1, (None, Some(-1))) && is_refused("ReduceMean", 1, (None, None)));
}
