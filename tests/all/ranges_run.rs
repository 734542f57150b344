//! `memc check`, `verify` and `run` of plans for ranges: points, and extents of the inputs.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, floats, int, integers, ints, node, numbers, stated, symbolic, text, with};

/// Returns a model that joins `x` of `n,s,4` with its last rows, and computes on.
fn model() -> ModelProto {
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Sigmoid", &["p"], &["b"]),
        stated(node("Concat", &["a", "b"], &["c"]), vec![int("axis", 1)]),
        node("MatMul", &["c", "w"], &["d"]),
        node("Tanh", &["d"], &["e"]),
        node("Reshape", &["e", "flat"], &["f"]),
        node("Add", &["f", "one"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "s", "4"]), symbolic("p", &["n", "t", "4"])];
        graph.output = vec![symbolic("y", &["n", "all"])];
        graph.initializer = vec![floats("w", &[4, 4]), integers("flat", &[0, -1]), numbers("one", &[1.0])];
        // Texts of numbers are symbols here: state the last extent.
        for input in &mut graph.input {
            use memc_onnx_proto::onnx::{tensor_shape_proto::dimension::Value, type_proto};
            let Some(type_proto::Value::TensorType(tensor)) = &mut input.r#type.as_mut().unwrap().value
            else {
                panic!()
            };
            tensor.shape.as_mut().unwrap().dim[2].value = Some(Value::DimValue(4));
        }
    })
}

/// Plans the model for ranges.
fn planned(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(&model()));
    folder
        .memc(
            "optimize in.onnx -o out.onnx --dim n=1..5 --dim s=2..32/3 --dim t=s+1 --dim-max n*s<=60 --exact",
        )
        .done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder
}

#[test]
fn a_plan_is_verified_at_several_points() {
    let folder = planned("ranges-verify");
    assert!(folder.read("out.layout.json").contains("\"t\": \"s+1\""), "the equation is in the layout");
    let ran = folder.memc("verify in.onnx out.onnx").done();
    // The largest extents break the limit: their point lies on its border.
    assert!(ran.err.contains("n=5,s=11: equal") && ran.err.contains("n=1,s=2: equal"), "{ran:#?}");
    assert!(!ran.err.contains("n=5,s=32"), "{ran:#?}");
    let points = ran.err.lines().filter(|line| line.starts_with("n=") && line.ends_with(": equal")).count();
    assert!(points >= 8 && ran.err.contains(&format!("bit for bit in {points} points")), "{ran:#?}");
    let ran = folder.memc("verify in.onnx out.onnx --points 3 --json").done();
    assert!(ran.out.contains("\"points_left_out\": 0") && ran.err.contains("in 3 points"), "{ran:#?}");
    let ran = folder.memc("verify in.onnx out.onnx --at n=3,s=5 --at n=2,s=29").done();
    assert!(ran.err.contains("n=3,s=5: equal\nn=2,s=29: equal"), "{ran:#?}");
}

#[test]
fn extents_outside_the_ranges_are_refused_before_a_run() {
    let folder = planned("ranges-outside");
    for (extents, told) in [
        ("n=6,s=2", "n=6: the plan is for n=1..5"),
        ("n=0,s=2", "n=0: the plan is for n=1..5"),
        ("n=1,s=3", "s=3: the plan is for s=2..32/3"),
        ("n=5,s=14", "the plan is for n*s<=60"),
        ("n=5", "no extent of `s` is known"),
        ("n=5,s=2,q=1", "q=1: the free dimensions of the plan are n, s"),
    ] {
        let ran = folder.memc(&format!("verify in.onnx out.onnx --at {extents}")).refused(2, "E0715");
        assert!(ran.err.contains(told), "{ran:#?}");
    }
    let options =
        |extents: &str| extents.split(',').map(|extent| format!(" --dim {extent}")).collect::<String>();
    for (extents, told) in [("n=6,s=2", "n=1..5"), ("n=5,s=32", "n*s<=60"), ("q=1", "the free dimensions")] {
        let ran = folder
            .memc(&format!("run out.onnx --layout out.layout.json{}", options(extents)))
            .refused(2, "E0715");
        assert!(ran.err.contains(told), "{ran:#?}");
    }
}

#[test]
fn a_run_takes_the_extents_of_its_inputs() {
    let folder = planned("ranges-run");
    let ran = folder
        .memc("run out.onnx --layout out.layout.json --dim n=2 --dim s=5 --outputs y.npz --poison-check")
        .done();
    assert!(ran.err.contains("extents: n=2,s=5"), "{ran:#?}");
    // The outputs of one run are no inputs of another: names are checked, then shapes.
    folder.memc("run out.onnx --layout out.layout.json --inputs y.npz").refused(2, "E0706");
}

/// Returns a network on images of `h` rows: sliding windows with strides, a pool, an upscaled image, and
/// a join.
fn images() -> ModelProto {
    let window = |name: &str, operands: &[&str], result: &str, attributes| {
        stated(node(name, operands, &[result]), attributes)
    };
    let pads = |count: i64| ints("pads", &[count; 4]);
    let shape = |extent: i64| ints("kernel_shape", &[extent; 2]);
    let strides = || ints("strides", &[2, 2]);
    let upscaled = vec![
        text("mode", "nearest"),
        text("coordinate_transformation_mode", "asymmetric"),
        text("nearest_mode", "floor"),
    ];
    let nodes = vec![
        window("Conv", &["x", "w1"], "a", vec![shape(3), pads(1)]),
        node("Sigmoid", &["a"], &["b"]),
        node("Mul", &["a", "b"], &["c"]),
        window("Conv", &["c", "w2"], "d", vec![shape(3), pads(1), strides()]),
        window("MaxPool", &["d"], "e", vec![shape(3), pads(1), strides()]),
        window("Resize", &["e", "", "scales"], "f", upscaled),
        window("Concat", &["f", "d"], "g", vec![int("axis", 1)]),
        window("Softmax", &["g"], "s", vec![int("axis", 1)]),
        window("Conv", &["s", "w3"], "y", vec![shape(3), pads(1)]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["one", "two", "h", "width"])];
        graph.output = vec![symbolic("y", &["one", "four", "rows", "columns"])];
        let scales = numbers("scales", &[1.0, 1.0, 2.0, 2.0]);
        graph.initializer = vec![
            floats("w1", &[16, 2, 3, 3]),
            floats("w2", &[16, 16, 3, 3]),
            floats("w3", &[4, 32, 3, 3]),
            scales,
        ];
    })
}

#[test]
fn rows_whose_number_is_a_range_are_computed_in_parts() {
    let folder = Folder::new("ranges-rows");
    folder.write("in.onnx", bytes(&images()));
    let arena = |extents: &str| {
        folder
            .memc(&format!(
                "optimize in.onnx -o out.onnx --dim one=1 --dim two=2 --dim width=48 {extents} --slowdown 20%"
            ))
            .done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let layout = folder.read("out.layout.json");
        let size = layout.split("\"size\": ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        size.trim().parse::<u64>().unwrap()
    };
    let whole = arena("--dim h=16..96/4 --no-rewrite");
    let bound = arena("--dim h=96");
    let ranged = arena("--dim h=16..96/4");
    assert!(ranged * 10 < whole * 7, "{ranged} of {whole} bytes");
    assert!(ranged * 10 < bound * 12, "{ranged} bytes, {bound} for the largest image alone");
    let ran = folder.memc("verify in.onnx out.onnx --points 12");
    assert!(ran.done().err.contains("equal within the tolerance in "));
}

/// Returns two layers on rows of tokens of `n` texts: wide products, joined with what they read.
fn texts() -> ModelProto {
    let layer = |from: &str, at: usize| {
        let name = |what: &str| format!("{what}{at}");
        let [rows, wide, gate, narrow, back, sum] =
            ["rows", "wide", "gate", "narrow", "back", "sum"].map(name);
        vec![
            node("Reshape", &[from, "flat"], &[&rows]),
            node("MatMul", &[&rows, "w1"], &[&wide]),
            node("Relu", &[&wide], &[&gate]),
            node("MatMul", &[&gate, "w2"], &[&narrow]),
            node("Reshape", &[&narrow, "text"], &[&back]),
            node("Add", &[&back, from], &[&sum]),
        ]
    };
    let nodes = [layer("x", 1), layer("sum1", 2), vec![node("Relu", &["sum2"], &["y"])]].concat();
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "tokens", "width"])];
        graph.output = vec![symbolic("y", &["n", "tokens", "width"])];
        let extents = [integers("flat", &[-1, 128]), integers("text", &[-1, 64, 128])];
        graph.initializer = vec![floats("w1", &[128, 1024]), floats("w2", &[1024, 128])];
        graph.initializer.extend(extents);
    })
}

#[test]
fn a_batch_that_begins_at_one_is_computed_in_parts() {
    let folder = Folder::new("ranges-batch");
    folder.write("in.onnx", bytes(&texts()));
    let arena = |extents: &str| {
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --dim tokens=64 --dim width=128 {extents}"))
            .done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let layout = folder.read("out.layout.json");
        let size = layout.split("\"size\": ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        size.trim().parse::<u64>().unwrap()
    };
    let whole = arena("--dim n=1..8 --no-rewrite");
    let bound = arena("--dim n=8 --slowdown 10%");
    let ranged = arena("--dim n=1..8 --slowdown 10%");
    assert!(ranged * 2 < whole, "{ranged} of {whole} bytes");
    assert!(ranged * 10 < bound * 12, "{ranged} bytes, {bound} for eight texts alone");
    let ran = folder.memc("verify in.onnx out.onnx --points 8").done();
    assert!([1, 2, 7, 8].iter().all(|n| ran.err.contains(&format!("n={n}: "))), "{ran:#?}");
}

#[test]
fn numbers_that_follow_from_extents_are_proven_equal() {
    let folder = Folder::new("ranges-extents");
    let nodes = vec![
        stated(node("Transpose", &["x"], &["t"]), vec![ints("perm", &[1, 0])]),
        node("Shape", &["t"], &["extents"]),
        node("Gather", &["extents", "one"], &["rows"]),
        node("Range", &["zero", "rows", "one"], &["counted"]),
        stated(node("Cast", &["counted"], &["numbers"]), vec![int("to", 1)]),
        node("Mul", &["numbers", "t"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "width"])];
        graph.output = vec![symbolic("y", &["width", "n"])];
        let scalar = |name| memc_onnx_proto::onnx::TensorProto {
            dims: Vec::new(),
            ..integers(name, &[i64::from(name == "one")])
        };
        graph.initializer = vec![scalar("zero"), scalar("one")];
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --exact --dim width=8 --dim n=1..16").done();
    folder.memc("check in.onnx out.onnx out.layout.json").done();
    folder.memc("verify in.onnx out.onnx").done();
}

/// Returns a wide product of rows without their means, which are taken over the given axis.
fn centered(axis: i64) -> ModelProto {
    let nodes = vec![
        node("ReduceMean", &["x", "axis"], &["mean"]),
        node("Sub", &["x", "mean"], &["apart"]),
        node("MatMul", &["apart", "w1"], &["wide"]),
        node("Relu", &["wide"], &["gate"]),
        node("MatMul", &["gate", "w2"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "tokens", "width"])];
        graph.output = vec![symbolic("y", &["n", "tokens", "width"])];
        graph.initializer =
            vec![floats("w1", &[128, 1024]), floats("w2", &[1024, 128]), integers("axis", &[axis])];
    })
}

#[test]
fn means_over_an_axis_counted_from_the_end_are_divided_as_others() {
    let folder = Folder::new("ranges-means");
    let peak = |axis: i64| {
        folder.write("in.onnx", bytes(&centered(axis)));
        let ran = folder
            .memc("optimize in.onnx -o out.onnx --force --dim tokens=64 --dim width=128 --dim n=1..8 --slowdown 10%")
            .done();
        folder.memc("verify in.onnx out.onnx --at n=1 --at n=3 --at n=8").done();
        ran.err.lines().find(|line| line.starts_with("peak ")).unwrap().to_owned()
    };
    let (front, end) = (peak(2), peak(-1));
    assert_eq!(front, end);
    assert!(front.contains(" KiB  arena"), "nothing is divided: {front}");
}

/// Returns a model that gathers row 3 of `x`, which only a run shows: it takes at least four rows.
fn fourth_row() -> ModelProto {
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Mul", &["x", "zero"], &["zeros"]),
        node("Add", &["zeros", "three"], &["threes"]),
        stated(node("Cast", &["threes"], &["rows"]), vec![int("to", 7)]),
        stated(node("Gather", &["a", "rows"], &["g"]), vec![int("axis", 0)]),
        node("Exp", &["g"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n"])];
        graph.output = vec![symbolic("y", &["n"])];
        graph.initializer = vec![numbers("zero", &[0.0]), numbers("three", &[3.0])];
    })
}

#[test]
fn points_at_which_the_given_model_fails_are_left_out() {
    let folder = Folder::new("ranges-failing");
    folder.write("in.onnx", bytes(&fourth_row()));
    folder.memc("optimize in.onnx -o out.onnx --dim n=1..9").done();
    let ran = folder.memc("verify in.onnx out.onnx").done();
    assert!(
        ran.err.contains(" points were left out: the given model itself fails there, first at n=1: "),
        "{ran:#?}"
    );
    assert!(ran.err.contains("n=9: equal") && !ran.err.contains("n=1: equal"), "{ran:#?}");
    let json: serde_json::Value =
        serde_json::from_str(&folder.memc("verify in.onnx out.onnx --json").done().out).unwrap();
    assert!(
        json["points_refused"].as_array().unwrap().iter().all(|point| point["n"].as_u64() < Some(4)),
        "{json:#}"
    );
    // The array of a `.npy` file is that of the only input.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }\n";
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    array.extend((header.len() as u16).to_le_bytes());
    array.extend(header.bytes());
    array.extend((0..7).flat_map(|number| (number as f32).to_le_bytes()));
    folder.write("rows.npy", &array);
    let ran = folder.memc("verify in.onnx out.onnx --inputs rows.npy").done();
    assert!(ran.err.contains("n=7: equal"), "{ran:#?}");
    folder.memc("run out.onnx --layout out.layout.json --inputs rows.npy").done();
    // For extents, its file names the input.
    folder.write("x.npy", &array);
    folder.memc("optimize in.onnx --dim-from x.npy").done();
    assert_eq!(folder.memc("optimize in.onnx --dim-from rows.npy").code, Some(2));
    // A named point, or a plan that has no other, is refused.
    let named = folder.memc("verify in.onnx out.onnx --at n=2");
    assert!(named.code == Some(2) && named.err.contains("error[E0706]: at n=2: "), "{named:#?}");
    folder.memc("optimize in.onnx -o out.onnx --dim n=1..2").done();
    let none = folder.memc("verify in.onnx out.onnx");
    assert!(none.code == Some(2) && none.err.contains("error[E0706]: at n="), "{none:#?}");
}

#[test]
fn kernels_that_take_most_at_small_extents_are_checked_there() {
    // One of two equal convolutions is left out. They take columns for small images, and less for large ones.
    let nodes =
        ["a", "b"].map(|result| stated(node("Conv", &["x", "w"], &[result]), vec![ints("pads", &[1; 4])]));
    let join = stated(node("Concat", &["a", "b"], &["y"]), vec![int("axis", 1)]);
    let model = with([nodes.as_slice(), &[join]].concat(), |graph| {
        graph.input = vec![symbolic("x", &["n", "c", "h", "w"])];
        graph.output = vec![symbolic("y", &["n", "d", "h", "w"])];
        graph.initializer = vec![floats("w", &[64, 256, 3, 3])];
    });
    let folder = Folder::new("ranges-columns");
    folder.write("in.onnx", bytes(&model));
    for runtime in ["arena", "ort"] {
        let options =
            format!("--dim n=1 --dim c=256 --dim h=3..20 --dim w=3..20 --runtime {runtime} --force");
        folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
    }
}
