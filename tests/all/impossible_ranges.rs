//! Ranges, limits and equations of dimensions that contradict each other or the model: one error each, with
//! a next step, and nothing written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, floats, int, integers, ints, node, numbers, stated, symbolic, with};

/// Returns two joined inputs: `x` of `n,s` and `p` of `n,t`.
fn joined() -> ModelProto {
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Exp", &["p"], &["b"]),
        stated(node("Concat", &["a", "b"], &["y"]), vec![int("axis", 1)]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "s"]), symbolic("p", &["n", "t"])];
        graph.output = vec![symbolic("y", &["n", "all"])];
    })
}

/// Returns a model that drops the first two rows of `x`.
fn fewer() -> ModelProto {
    with(vec![node("Relu", &["x"], &["a"]), node("Pad", &["a", "pads"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["n", "s"])];
        graph.output = vec![symbolic("y", &["m", "s"])];
        graph.initializer = vec![integers("pads", &[-2, 0, 0, 0])];
    })
}

/// Returns a model that halves an image, doubles it and joins it with the image: extents must be even.
fn halved() -> ModelProto {
    let pool = stated(
        node("MaxPool", &["x"], &["a"]),
        vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
    );
    let join = stated(node("Concat", &["x", "b"], &["y"]), vec![int("axis", 1)]);
    with(vec![pool, node("Resize", &["a", "", "scales"], &["b"]), join], |graph| {
        graph.input = vec![symbolic("x", &["n", "c", "h", "w"])];
        graph.output = vec![symbolic("y", &["n", "d", "h", "w"])];
        graph.initializer = vec![numbers("scales", &[1.0, 1.0, 2.0, 2.0])];
    })
}

/// Returns a model that takes the five largest rows.
fn five_largest() -> ModelProto {
    with(vec![node("TopK", &["x", "k"], &["y", "i"])], |graph| {
        graph.input = vec![symbolic("x", &["c", "w"])];
        graph.output = vec![symbolic("y", &["c", "k"]), symbolic("i", &["c", "k"])];
        graph.initializer = vec![integers("k", &[5])];
    })
}

/// Returns a model that takes row 3.
fn fourth() -> ModelProto {
    with(vec![stated(node("Gather", &["x", "row"], &["y"]), vec![int("axis", 1)])], |graph| {
        graph.input = vec![symbolic("x", &["c", "r"])];
        graph.output = vec![symbolic("y", &["c", "one"])];
        graph.initializer = vec![integers("row", &[3])];
    })
}

/// Options, the code of the error, and words of its message and its help.
type Refusal = (&'static str, &'static str, &'static [&'static str]);

const REFUSALS: &[Refusal] = &[
    (
        "--dim n=1..4 --dim n=2..8",
        "E0306",
        &["`--dim n` is given twice, as 1..4 and as 2..8", "leave out one of both"],
    ),
    ("--dim n=1..4 --dim m=1..3", "E0117", &["named `m`", "the model has: n, s, t"]),
    ("--dim n=1..4 --dim-max n*q<=9", "E0117", &["named `q`"]),
    ("--dim n=1..4 --dim t=q+1", "E0117", &["named `q`"]),
    ("--dim n=1..9223372036854775807", "E0129", &["no possible size", "end the ranges at smaller extents"]),
    ("--dim n=1..4611686018427387904", "E0129", &["no possible size"]),
    ("--dim n=1..18446744073709551615", "E0129", &["no possible size"]),
    ("--dim n=1..2000000000 --dim s=1..2000000000 --dim t=4", "E0129", &["no possible size"]),
    ("--dim n=2..4 --dim-max n*s<=1", "E0129", &["no extents of the ranges keep n*s<=1", "raise the limits"]),
    ("--dim n=4 --dim s=3 --dim t=2 --dim-max n*s<=5", "E0129", &["no extents of the ranges keep n*s<=5"]),
    (
        "--dim n=1..4 --dim s=t+1 --dim t=s-1",
        "E0129",
        &["`s` cannot equal t+1", "ranges or extents of their own"],
    ),
    ("--dim n=1..4 --dim t=t+1", "E0129", &["`t` cannot equal t+1"]),
    (
        "--dim n=1..4 --dim s=1..4 --dim t=s-3",
        "E0129",
        &["with `--dim n=1` and `--dim s=1`", "an extent of -2", "larger extent"],
    ),
    ("--dim n=1..4 --dim s=2 --dim t=s-3", "E0129", &["`t` would be -1", "larger extents"]),
    ("--dim n=1..4 --dim s=1..4 --dim t=", "", &["neither a number nor a range"]),
    ("--dim n=9..3", "", &["contains no extent: 9 is above 3"]),
    ("--dim n=..5", "", &["is not a range; write `1..512`"]),
    ("--dim n=5..", "", &["has no upper bound; write `5..512`"]),
    ("--dim n=-3..5", "", &["is not a range"]),
    ("--dim n=1..9/0", "", &["step of `1..9/0` is zero"]),
    ("--dim n=128,64", "", &["does not ascend"]),
    ("--dim n=1..4 --dim-max n*s", "", &["is not a limit; write `height*width<=921600`"]),
    ("--dim n=1..4 --dim-max n*s<=-1", "", &["is not a limit"]),
];

#[test]
fn each_is_refused_with_a_next_step_and_nothing_is_written() {
    let folder = Folder::new("impossible-ranges");
    folder.write("in.onnx", bytes(&joined()));
    for (options, code, words) in REFUSALS {
        // Dimensions that the case leaves out get a range.
        let left = ["s", "t"].into_iter().filter(|name| !options.contains(&format!("--dim {name}=")));
        let left: String = left.map(|name| format!(" --dim {name}=1..4")).collect();
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}{left}"));
        let ran = if code.is_empty() { ran } else { ran.refused(2, code) };
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{words:?} in {ran:#?}");
        assert_eq!(folder.names(), ["in.onnx"], "{ran:#?}");
    }
}

/// Returns the sum of two inputs whose batches have the given names.
fn summed(left: &str, right: &str) -> ModelProto {
    with(vec![node("Add", &["a", "b"], &["s"]), node("Relu", &["s"], &["y"])], |graph| {
        graph.input = vec![symbolic("a", &[left, "8"]), symbolic("b", &[right, "8"])];
        graph.output = vec![symbolic("y", &[left, "8"])];
    })
}

#[test]
fn batches_with_different_names_are_told_to_be_tied() {
    let folder = Folder::new("impossible-ranges-tied");
    folder.write("in.onnx", bytes(&summed("n", "m")));
    let ran = folder.memc("optimize in.onnx -o out.onnx --dim n=1..8 --dim m=1..8").refused(2, "E0123");
    assert!(ran.err.contains("as with `--dim n=m`\n"), "{ran:#?}");
    folder.memc("optimize in.onnx -o out.onnx --dim m=1..8 --dim n=m").done();
}

#[test]
fn one_range_for_all_unnamed_dimensions_is_one_variable() {
    let folder = Folder::new("impossible-ranges-unnamed");
    folder.write("in.onnx", bytes(&summed("?", "?")));
    folder.memc("optimize in.onnx -o out.onnx --dim ?=1..8").done();
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert_eq!(layout["model"]["equal"]["b.0"], "a.0", "{}", layout["model"]);
    folder.memc("check in.onnx out.onnx out.layout.json").done();
}

#[test]
fn a_range_with_negative_extents_is_refused() {
    let folder = Folder::new("impossible-ranges-negative");
    folder.write("in.onnx", bytes(&fewer()));
    let ran = folder.memc("optimize in.onnx -o out.onnx --dim n=0..5 --dim s=3").refused(2, "E0129");
    assert!(ran.err.contains("`y` has the shape f32[n-2,3] and thus an extent of -2"), "{ran:#?}");
    assert!(
        ran.err.contains("help: begin the range at a larger extent, as with `--dim n=2..5`\n"),
        "{ran:#?}"
    );
    assert_eq!(folder.names(), ["in.onnx"]);
    folder.memc("optimize in.onnx -o out.onnx --dim n=2..5 --dim s=3").done();
}

#[test]
fn a_range_with_extents_that_do_not_fit_is_refused_with_one_that_fits() {
    let folder = Folder::new("impossible-ranges-step");
    for (given, proposed, fitting) in [
        ("h=2..64 w=16..64", ", as with `--dim h=2..64/2` and `--dim w=16..64/2`", "h=2..64/2 w=16..64/2"),
        ("h=3..33 w=16..64/4", ", as with `--dim h=4..32/2`", "h=4..32/2 w=16..64/4"),
        ("h=8 w=2..9", ", as with `--dim w=2..8/2`", "h=8 w=2..8/2"),
        ("h=8 w=5..5", "", "h=8 w=6"),
        ("w=1..64", ", as with `--dim w=5..64`", "w=5..64"),
        ("w=1..64/3", ", as with `--dim w=7..64/3`", "w=7..64/3"),
        ("w=1..4", "", "w=5"),
        ("r=1..9", ", as with `--dim r=4..9`", "r=4..9"),
    ] {
        let (model, fixed) = match given.split_at(1).0 {
            "h" => (halved(), "--dim n=1..2 --dim c=3"),
            "w" => (five_largest(), "--dim c=1..2"),
            _ => (fourth(), "--dim c=1..2"),
        };
        folder.write("in.onnx", bytes(&model));
        let dims = |text: &str| text.split(' ').map(|dim| format!(" --dim {dim}")).collect::<String>();
        let refused = folder.memc(&format!("optimize in.onnx -o none.onnx {fixed}{}", dims(given)));
        let refused = refused.refused(2, "E0123");
        assert!(
            refused
                .err
                .contains(&format!("help: give extents that fit the operands of this node{proposed}\n")),
            "{refused:#?}"
        );
        assert!(!folder.names().iter().any(|name| name.starts_with("none")), "{refused:#?}");
        folder.memc(&format!("optimize in.onnx -o out.onnx {fixed}{}", dims(fitting))).done();
    }
}

#[test]
fn a_freed_dimension_is_free_in_all_values() {
    let folder = Folder::new("impossible-ranges-freed");
    // The file still states the two rows that it had before.
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Slice", &["a", "first", "end", "axis"], &["b"]),
        node("Max", &["b", "w"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "8"])];
        graph.output = vec![symbolic("y", &["2", "8"])];
        graph.value_info = vec![symbolic("a", &["2", "8"])];
        graph.initializer = vec![
            integers("first", &[0]),
            integers("end", &[2]),
            integers("axis", &[0]),
            floats("w", &[2, 1]),
        ];
    });
    folder.write("in.onnx", bytes(&model));
    let ran = folder.memc("optimize in.onnx -o out.onnx --dim n=2..5").done();
    assert!(ran.err.contains("W0101") && ran.err.contains("its operator implies f32[n,8]"), "{ran:#?}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    #[cfg(feature = "ort")]
    folder.memc("verify in.onnx out.onnx").done();
}

#[test]
fn proposed_ranges_are_ones_at_which_the_model_fits() {
    let folder = Folder::new("impossible-ranges-proposed");
    // The table of positions has 24 rows, and no other length fits.
    let placed = with(vec![node("Add", &["x", "table"], &["a"]), node("Relu", &["a"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["n", "s", "8"])];
        graph.output = vec![symbolic("y", &["n", "s", "8"])];
        graph.initializer = vec![floats("table", &[24, 8])];
    });
    let models = [
        (halved(), "--dim n=1..8 --dim c=32..640/32 --dim h=32..640/32 --dim w=32..640/32"),
        (five_largest(), "--dim c=1..8 --dim w=5..512"),
        (placed, "--dim n=1..8 --dim s=24"),
    ];
    for (model, proposed) in models {
        folder.write("in.onnx", bytes(&model));
        let ran = folder.memc("optimize in.onnx -o none.onnx").refused(2, "E0114");
        let stated = ran.err.split("as in `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
        let sorted =
            |text: &str| text.split("--dim ").map(str::trim).map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(stated), sorted(proposed), "{ran:#?}");
        folder.memc(&format!("optimize in.onnx -o out.onnx --force --effort fast {stated}")).done();
    }
}

#[test]
fn equations_with_bound_dimensions_bind() {
    let folder = Folder::new("impossible-ranges-equal");
    folder.write("in.onnx", bytes(&joined()));
    folder.memc("optimize in.onnx -o out.onnx --dim n=1..4 --dim s=3 --dim t=s+1").done();
    let layout = folder.read("out.layout.json");
    assert!(layout.contains("\"t\": 4") && !layout.contains("\"equal\""), "{layout}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("optimize in.onnx -o out.onnx --dim n=2 --dim s=1..3 --dim t=s+n").done();
    let layout = folder.read("out.layout.json");
    assert!(layout.contains("\"t\": \"s+2\""), "{layout}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    // Limits may name equated and bound dimensions.
    folder.memc("optimize in.onnx -o out.onnx --dim n=2 --dim s=1..9 --dim t=s+n --dim-max n*t<=12").done();
    assert!(
        folder.read("out.layout.json").contains("\"of\": \"2*s+4\""),
        "{}",
        folder.read("out.layout.json")
    );
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
}
