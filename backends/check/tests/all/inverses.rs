//! Values that results give back: each inverse is proven, and every wrong operand, operator, reader and error
//! is found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::encodings::{has, shown};
use crate::fixture;

use fixture::*;
use memc_check::Kind;
use memc_layout::Encoding;

/// Error of the rows, as the check measures it up to chance.
const ERROR: f64 = 4.2e-8;

fn row(of: &str, decoded: &str, error: Option<f64>) -> Encoding {
    let exact = error.is_none();
    Encoding {
        of: of.into(),
        code: Vec::new(),
        decoded: decoded.into(),
        form: "inverse".into(),
        exact,
        error,
    }
}

/// Returns a plan with all inverses: exact ones of integers, negated and transposed numbers, and rounded ones
/// of sums, differences and a product with a half. Each value is read by a node before, and by another one
/// after it was given back.
fn case() -> Case {
    let nodes = vec![
        node("n_in", "Neg", &["k"], &["i"]),
        node("couple", "Add", &["i", "k"], &["j"]),
        node("uncouple", "Sub", &["k", "j"], &["o"]),
        node("r_in", "Relu", &["x"], &["r"]),
        node("negated", "Neg", &["r"], &["n"]),
        node("turned", "Transpose", &["r"], &["t"]),
        node("p_in", "Exp", &["x"], &["p"]),
        node("q_in", "Exp", &["n"], &["q"]),
        node("sum", "Add", &["q", "p"], &["s"]),
        node("difference", "Sub", &["p", "s"], &["d"]),
        node("half", "Mul", &["d", "point"], &["h"]),
        node("loss", "Tanh", &["h"], &["l"]),
        node("late_i", "Abs", &["i"], &["z1"]),
        node("late_j", "Abs", &["j"], &["z2"]),
        node("late_r", "Abs", &["r"], &["z3"]),
        node("late_q", "Abs", &["q"], &["z4"]),
        node("late_s", "Abs", &["s"], &["z5"]),
        node("late_d", "Abs", &["d"], &["z6"]),
        node("late_t", "Abs", &["t"], &["z7"]),
    ];
    let mut case = Case::same(nodes, |graph| {
        graph.input = vec![info("x", FLOAT, &[4, 8]), info("k", INT64, &[4, 8])];
        graph.output = ["l", "z3", "z4", "z5", "z6"].map(|name| info(name, FLOAT, &[4, 8])).to_vec();
        graph.output.extend(["z1", "z2", "o"].map(|name| info(name, INT64, &[4, 8])));
        graph.output.push(info("z7", FLOAT, &[8, 4]));
        graph.initializer = vec![floats("point", &[], 0.5)];
    });
    case.graph().initializer.push(floats("two", &[], 2.0));
    let backs = [
        node("i_back", "Sub", &["j2", "k"], &["i2"]),
        node("r_back", "Neg", &["n"], &["r2"]),
        node("d_back", "Mul", &["h", "two"], &["d2"]),
        node("s_back", "Sub", &["p", "d2"], &["s2"]),
        node("q_back", "Sub", &["s2", "p"], &["q2"]),
    ];
    case.insert("late_i", [node("j_back", "Sub", &["k", "o"], &["j2"])]);
    case.insert("late_i", backs);
    for (late, back) in [("i", "i2"), ("j", "j2"), ("r", "r2"), ("q", "q2"), ("s", "s2"), ("d", "d2")] {
        case.node(&format!("late_{late}")).input[0] = back.into();
    }
    let wide = || vec![4, 8];
    let numbers =
        ["x", "r", "n", "p", "q", "s", "d", "h", "l", "r2", "q2", "s2", "d2", "z3", "z4", "z5", "z6"];
    case.shapes.extend(numbers.map(|name| (name, (FLOAT, wide()))));
    case.shapes.extend(["k", "i", "j", "o", "i2", "j2", "z1", "z2"].map(|name| (name, (INT64, wide()))));
    case.shapes.extend(["t", "z7"].map(|name| (name, (FLOAT, vec![8, 4]))));
    case.shapes.extend(["point", "two"].map(|name| (name, (FLOAT, vec![]))));
    case
}

/// Lists the pairs of the plan and allows the rounded ones.
fn list_all(case: &mut Case) {
    case.layout().model.dims.clear();
    case.layout().model.bound = false;
    case.layout().encodings = vec![
        row("i", "i2", None),
        row("j", "j2", None),
        row("r", "r2", None),
        row("d", "d2", Some(0.0)),
        row("s", "s2", Some(ERROR)),
        row("q", "q2", Some(ERROR)),
    ];
    case.layout().options.insert("lossy".into(), "inverse".into());
}

fn edited(edit: impl FnOnce(&mut Case)) -> Case {
    let mut case = case();
    edit(&mut case);
    list_all(&mut case);
    case
}

#[test]
fn every_inverse_is_proven_and_rounded_outputs_are_named() {
    let report = edited(|_| {}).report();
    assert_eq!(shown(&report), [""; 0]);
    assert_eq!((report.summary.encoded, report.summary.rounded), (6, 3));
    // Of the chain of rounded values each member is proven from the one before.
    assert_eq!(report.summary.rewritten_outputs, ["z4", "z5", "z6"]);
    let remark = "computed from rounded values: needs numeric comparison: `z4`, `z5`, `z6`".to_owned();
    assert!(report.remarks.contains(&remark), "{:?}", report.remarks);
    // Exact inverses need no row.
    let mut case = edited(|_| {});
    case.layout().encodings.drain(..3);
    assert_eq!(shown(&case.report()), [""; 0]);
}

#[test]
fn a_transposition_gives_its_operand_back() {
    let mut case = edited(|case| {
        *case.node("r_back") = node("r_back", "Transpose", &["t"], &["r2"]);
    });
    assert_eq!(shown(&case.report()), [""; 0]);
}

#[test]
fn rounded_inverses_need_permission_and_a_row() {
    for lossy in ["f16", ""] {
        let mut case = edited(|_| {});
        case.layout().options.insert("lossy".into(), lossy.into());
        assert!(has(&case.report(), Kind::EncodingLossy));
    }
    let mut case = edited(|_| {});
    case.layout().encodings.truncate(3);
    let report = case.report();
    assert!(report.summary.unproven_outputs.len() == 3, "{:?}", report.summary);
    // A rounded inverse is not exact.
    let mut case = edited(|_| {});
    case.layout().encodings[5] = row("q", "q2", None);
    assert!(has(&case.report(), Kind::EncodingUnproven));
}

#[test]
fn stated_errors_are_those_that_the_check_measures() {
    for (at, error) in [(5, Some(1e-9)), (5, Some(1e-6)), (5, Some(0.0)), (3, Some(ERROR))] {
        let mut case = edited(|_| {});
        case.layout().encodings[at].error = error;
        assert!(has(&case.report(), Kind::EncodingUnproven), "{at}: {error:?}");
    }
    let mut case = edited(|_| {});
    case.layout().encodings[5].error = None;
    assert!(has(&case.report(), Kind::Encoding));
    let mut case = edited(|_| {});
    case.layout().encodings[0].error = Some(ERROR);
    assert!(has(&case.report(), Kind::Encoding));
    let mut case = edited(|_| {});
    case.layout().encodings[5].code = vec!["s2".into()];
    assert!(has(&case.report(), Kind::Encoding));
}

type Mutant = (&'static str, fn(&mut Case));

const MUTANTS: &[Mutant] = &[
    ("another operand", |c| c.node("q_back").input[1] = "r".into()),
    ("operands in the other order", |c| c.node("q_back").input.reverse()),
    ("a sum in place of a difference", |c| c.node("q_back").op_type = Some("Add".into())),
    ("a difference from the other side", |c| c.node("s_back").input.reverse()),
    ("a sum of a difference's second operand", |c| c.node("s_back").op_type = Some("Add".into())),
    ("the operand that was not asked for", |c| c.node("i_back").input = vec!["j2".into(), "i".into()]),
    ("integers in the other order", |c| c.node("j_back").input.reverse()),
    ("another integer", |c| c.node("j_back").input[1] = "i".into()),
    ("not negated", |c| *c.node("r_back") = node("r_back", "Abs", &["n"], &["r2"])),
    ("negated twice", |c| {
        c.insert("r_back", [node("twice", "Neg", &["n"], &["nn"])]);
        c.node("r_back").input[0] = "nn".into();
        c.shapes.insert("nn", (FLOAT, vec![4, 8]));
    }),
    ("another factor", |c| {
        c.graph().initializer.push(floats("four", &[], 4.0));
        c.node("d_back").input[1] = "four".into();
        c.shapes.insert("four", (FLOAT, vec![]));
    }),
    ("no power of two", |c| {
        c.both(|graph| graph.initializer.retain(|tensor| tensor.name() != "point"));
        c.both(|graph| graph.initializer.push(floats("point", &[], 0.3)));
        c.graph().initializer.retain(|tensor| tensor.name() != "two");
        c.graph().initializer.push(floats("two", &[], 1.0 / 0.3));
    }),
];

#[test]
fn every_mutant_is_found() {
    let mut missed = Vec::new();
    for (what, edit) in MUTANTS {
        let report = edited(edit).report();
        if !has(&report, Kind::EncodingUnproven) {
            missed.push(format!("{what}: {:?}", shown(&report)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn no_early_reader_gets_a_rounded_value() {
    // The value is given back before `loss`, which then precedes, in the input model, no reader of the wide
    // value before: the rows are right.
    let early = |reader: &str, position: usize| {
        edited(|case| {
            let back = case.graph().node.iter().position(|node| node.name() == "q_back").unwrap();
            let mut back = case.graph().node.remove(back);
            back.input[0] = "s".into();
            case.insert("half", [back]);
            case.node(reader).input[position] = "q2".into();
        })
    };
    assert!(!has(&early("late_q", 0).report(), Kind::EncodingEarly));
    // `q_early` reads the wide value before it is given back, and comes last in the input model; `loss` reads
    // the rounded one.
    let mut case = edited(|case| {
        case.both(|graph| {
            let at = graph.node.iter().position(|node| node.name() == "loss").unwrap();
            graph.node[at].input[0] = "q".into();
            graph.node.push(node("q_early", "Exp", &["q"], &["z8"]));
            graph.output.push(info("z8", FLOAT, &[4, 8]));
        });
        case.shapes.insert("z8", (FLOAT, vec![4, 8]));
        let early = case.graph().node.pop().unwrap();
        case.insert("difference", [early]);
        let back = case.graph().node.iter().position(|node| node.name() == "q_back").unwrap();
        let mut back = case.graph().node.remove(back);
        back.input[0] = "s".into();
        case.insert("half", [back]);
        case.node("loss").input[0] = "q2".into();
    });
    assert!(has(&case.report(), Kind::EncodingEarly), "{:?}", shown(&case.report()));
}
