//! Properties of every plan: no more memory than in file order, limits of bytes and time kept together,
//! no dominated plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::models_made;

use memc::{Budget, Error, Planned, Request, Runtime, Size, plan};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::type_proto::Value::TensorType;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto};
use models_made::{bytes, fixed, floats, int, integers, ints, node, numbers, raw, stated, with};

const INT8: i32 = 3;
const INT64: i32 = 7;
const UINT8: i32 = 2;

/// Plans a model, and asserts that the checker accepts the plan.
fn planned_by(model: &ModelProto, request: &Request) -> Result<Planned, Error> {
    let file = ModelFile::from_bytes(bytes(model)).unwrap();
    let optimized = plan(&file, request)?;
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let report = memc_check::check(&file, &out, &optimized.layout, Default::default());
    assert!(report.holds(), "{:?}", report.violations);
    Ok(optimized)
}

fn request(edit: impl FnOnce(&mut Request)) -> Request {
    let mut request = Request { verify: true, ..Request::default() };
    edit(&mut request);
    request
}

/// Returns the peaks of the plan and of the input model in file order, in bytes.
fn peaks(optimized: &Planned) -> (u64, u64) {
    (optimized.layout.peak["device"].bytes, optimized.layout.baseline.own_peak["device"])
}

fn codes(optimized: &Planned) -> Vec<&str> {
    optimized.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// Returns a model with wide values between successive products. Split by rows, it takes less memory
/// and more time.
fn wide() -> ModelProto {
    let mut nodes = Vec::new();
    for k in 0..2 {
        let [a, h, t, p] = ["a", "h", "t", "p"].map(|stem| format!("{stem}{k}"));
        nodes.push(node("MatMul", &[&a, "u"], &[&h]));
        nodes.push(node("Tanh", &[&h], &[&t]));
        nodes.push(node("MatMul", &[&t, "v"], &[&p]));
        nodes.push(node("Add", &[&p, &a], &[&format!("a{}", k + 1)]));
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("a0", &[64, 16])];
        graph.output = vec![fixed("a2", &[64, 16])];
        graph.initializer = vec![floats("u", &[16, 256]), floats("v", &[256, 16])];
    })
}

#[test]
fn an_input_that_nothing_reads_takes_no_place_in_the_arena() {
    // Only the extents of `a` are read, and folding removes the reader.
    let nodes = vec![
        node("Shape", &["a"], &["s"]),
        node("Reshape", &["b", "s"], &["r"]),
        node("TopK", &["r", "k"], &["y", "i"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("a", &[64, 32]), fixed("b", &[2048])];
        graph.output = vec![fixed("y", &[64, 8])];
        graph.initializer = vec![integers("k", &[8])];
    });
    let optimized =
        planned_by(&model, &request(|request| request.io = Some(memc_passes::Io::Arena))).unwrap();
    let (peak, before) = peaks(&optimized);
    assert!(peak <= before, "{peak} > {before}");
    let idle = optimized.layout.tensors.iter().find(|tensor| tensor.name == "a").unwrap();
    assert_eq!((idle.offset, &idle.space), (None, &None));
}

#[test]
fn the_whole_of_the_file_order_is_room_enough() {
    // No size is a multiple of an alignment, and nothing runs in place.
    let nodes = vec![node("Sin", &["x"], &["a"]), node("Exp", &["a"], &["b"]), node("Cos", &["b"], &["y"])];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[3, 7, 11])];
        graph.output = vec![fixed("y", &[3, 7, 11])];
    });
    for runtime in [Runtime::Arena, Runtime::Ort, Runtime::Cuda, Runtime::Player] {
        let planned = planned_by(&model, &Request::new().runtime(runtime).budget(Size::Percent(100.0)));
        assert!(planned.is_ok(), "{runtime:?}: {}", planned.err().unwrap());
    }
}

#[test]
fn values_that_a_runtime_keeps_longer_count_in_both_peaks() {
    // A session keeps the second half to the end, though no node reads it.
    let halves =
        stated(node("Split", &["x"], &["used", "unread"]), vec![int("axis", 0), int("num_outputs", 2)]);
    let nodes = vec![halves, node("Exp", &["used"], &["e"]), node("Concat", &["e", "e", "e"], &["y"])];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64])];
        graph.output = vec![fixed("y", &[96])];
    });
    model.graph.as_mut().unwrap().node[2].attribute.push(int("axis", 0));
    let optimized = planned_by(&model, &request(|request| request.runtime = Runtime::Ort)).unwrap();
    let (peak, before) = peaks(&optimized);
    assert!(peak <= before, "{peak} > {before}");
    assert!(before > optimized.layout.baseline.file_order_peak["device"]);
}

#[test]
fn bytes_and_time_are_kept_together() {
    let by = |slowdown: u32, budget: Option<u64>| {
        let request = request(|request| {
            // Little effort shows the same in a fraction of the time.
            request.effort = 500;
            // Parts of the batch reach the smallest plan of this model without extra time.
            request.rewrite.micro_batches = Some(1);
            request.rewrite.slowdown = slowdown;
            request.budgets = budget.map(|bytes| Size::Bytes(bytes).into()).into_iter().collect();
        });
        planned_by(&wide(), &request)
    };
    let arena = |optimized: &Planned| optimized.layout.arenas[0].size;
    let time = |optimized: &Planned| {
        optimized.layout.cost.modelled_ns_after / optimized.layout.cost.modelled_ns_before
    };
    let (free, slower) = (by(0, None).unwrap(), by(3000, None).unwrap());
    assert!(arena(&slower) < arena(&free));
    // A budget larger than the plan changes nothing.
    assert_eq!(arena(&by(3000, Some(1 << 30)).unwrap()), arena(&slower));
    // The slowdown limit alone needs more bytes than the budget. The fastest plan within the budget
    // takes more time.
    let least = arena(&slower);
    let Err(error @ Error::Slow { .. }) = by(1, Some(least)) else { panic!("both limits cannot be kept") };
    assert_eq!(error.exit_code(), 3);
    let Error::Slow { takes, smallest: Some(smallest), .. } = error else { unreachable!() };
    // Both numbers in the message can be reached.
    let kept = by(takes, Some(least)).unwrap();
    assert!(arena(&kept) <= least && time(&kept) <= 1.0 + f64::from(takes + 1) / 10_000.0);
    assert!(arena(&by(1, Some(smallest)).unwrap()) <= smallest);
}

#[test]
fn cuts_that_take_longer_than_is_allowed_are_left_out() {
    // A cut of five numbers costs a node, and saves four of them in another.
    let row = stated(node("Gather", &["s", "row"], &["r"]), vec![int("axis", 0)]);
    let model = with(vec![node("Sigmoid", &["x"], &["s"]), row, node("Neg", &["r"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[5])];
        graph.output = vec![fixed("y", &[1])];
        graph.initializer.push(integers("row", &[2]));
    });
    let by = |slowdown: u32| {
        let planned = planned_by(&model, &request(|request| request.rewrite.slowdown = slowdown)).unwrap();
        let cost = &planned.layout.cost;
        (peaks(&planned).0, cost.modelled_ns_after / cost.modelled_ns_before)
    };
    let ((kept, in_time), (cut, later)) = (by(1), by(10_000));
    assert!(in_time <= 1.0001, "{in_time}");
    assert!(cut < kept && later > in_time, "{cut} {kept} {later}");
}

#[test]
fn manual_checkpoints_are_merged_if_that_saves_bytes_and_time() {
    let mut nodes: Vec<NodeProto> =
        (0..8).map(|k| node("Sin", &[&format!("h{k}")], &[&format!("h{}", k + 1)])).collect();
    nodes.push(stated(node("ReduceSum", &["h8"], &["loss"]), vec![int("keepdims", 0)]));
    let mut gradient = "h8".to_owned();
    for start in [4, 0] {
        let mut again = vec![format!("h{start}")];
        for k in 0..4 {
            again.push(format!("again{start}_{k}"));
            nodes.push(node("Sin", &[&again[k]], &[&again[k + 1]]));
        }
        for k in (0..4).rev() {
            let [cosine, next] = ["cosine", "gradient"].map(|stem| format!("{stem}{start}_{k}"));
            nodes.push(node("Cos", &[&again[k]], &[&cosine]));
            nodes.push(node("Mul", &[&gradient, &cosine], &[&next]));
            gradient = next;
        }
    }
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("h0", &[4096])];
        graph.output = vec![fixed("loss", &[]), fixed(&gradient, &[4096])];
    });
    let result = |budgets: &[Budget]| {
        let optimized = planned_by(&model, &request(|request| request.budgets = budgets.to_vec())).unwrap();
        (optimized.layout.arenas[0].size, optimized.layout.cost.modelled_ns_after)
    };
    let (free, within) = (result(&[]), result(&[Size::Percent(80.0).into()]));
    assert!(free.0 <= within.0 || free.1 <= within.1, "{within:?} beats {free:?}");
    assert!(free.0 <= 65_600, "{free:?}");
}

#[test]
fn integer_kernels_that_take_more_memory_are_not_used() {
    let small = |name: &str, ty: i32, dims: &[i64], bytes: &[u8]| TensorProto {
        data_type: Some(ty),
        ..raw(name, dims, bytes)
    };
    let nodes = vec![
        node("QuantizeLinear", &["x", "sx", "zx"], &["qx"]),
        node("DequantizeLinear", &["qx", "sx", "zx"], &["dx"]),
        node("DequantizeLinear", &["w", "sw", "zw"], &["dw"]),
        stated(node("Conv", &["dx", "dw"], &["m"]), vec![ints("pads", &[3, 3, 3, 3])]),
        node("QuantizeLinear", &["m", "sx", "zx"], &["qy"]),
        node("DequantizeLinear", &["qy", "sx", "zx"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 3, 24, 24])];
        graph.output = vec![fixed("y", &[1, 8, 24, 24])];
        let scale = |name: &str, value: f32| TensorProto { dims: vec![], ..numbers(name, &[value]) };
        let weights: Vec<u8> = (0..8 * 3 * 49).map(|k| (k * 37 % 251) as u8).collect();
        graph.initializer = vec![
            scale("sx", 0.05),
            scale("sw", 0.01),
            small("zx", UINT8, &[], &[128]),
            small("zw", INT8, &[], &[0]),
            small("w", INT8, &[8, 3, 7, 7], &weights),
        ];
    });
    // The player's runtime copies the integers of all windows.
    let with_kernels = |asked: bool| {
        let edit = |request: &mut Request| {
            request.runtime = Runtime::Player;
            request.rewrite.integer_kernels = asked;
        };
        planned_by(&model, &request(edit)).unwrap()
    };
    let (asked, unasked) = (with_kernels(true), with_kernels(false));
    assert_eq!(peaks(&asked), peaks(&unasked));
    assert!(codes(&asked).contains(&"W0307"));
    assert!(!codes(&unasked).contains(&"W0307"));
}

/// Returns a model whose input is wider than all other values. A copy of half the input dominates its
/// memory.
fn narrowing() -> ModelProto {
    let nodes = vec![
        node("MatMul", &["x", "w"], &["a"]),
        node("Relu", &["a"], &["r"]),
        node("MatMul", &["r", "v"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[4, 256])];
        graph.output = vec![fixed("y", &[4, 4])];
        graph.initializer = vec![floats("w", &[256, 4]), floats("v", &[4, 4])];
    })
}

#[test]
fn parts_of_an_input_lie_in_the_buffer_of_the_caller() {
    let optimized =
        planned_by(&narrowing(), &request(|request| request.rewrite.micro_batches = Some(2))).unwrap();
    let (peak, before) = peaks(&optimized);
    assert!(peak <= before, "{peak} > {before}");
}

#[test]
fn an_option_that_raises_the_peak_says_so() {
    // A session copies the parts of an input.
    let by = |parts: Option<u64>| {
        let edit = |request: &mut Request| {
            request.runtime = Runtime::Ort;
            request.rewrite.micro_batches = parts;
        };
        planned_by(&narrowing(), &request(edit)).unwrap()
    };
    let (halves, whole) = (by(Some(2)), by(None));
    let (peak, before) = peaks(&halves);
    assert!(peak > before, "{peak} <= {before}: the model does not show what the test is about");
    assert!(codes(&halves).contains(&"W0306"));
    assert!(!codes(&whole).contains(&"W0306"));
}

#[test]
fn weights_that_folding_copies_are_counted() {
    // The transposed copy is folded, and the original weight stays as well.
    let turned = stated(node("Transpose", &["w"], &["t"]), vec![ints("perm", &[1, 0])]);
    let nodes = vec![
        turned,
        node("MatMul", &["x", "t"], &["a"]),
        node("Gather", &["w", "k"], &["g"]),
        node("Add", &["a", "g"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 16]), fixed("k", &[1])];
        graph.output = vec![fixed("y", &[1, 16])];
        graph.initializer = vec![floats("w", &[16, 16])];
        if let Some(Some(TensorType(tensor))) = graph.input[1].r#type.as_mut().map(|ty| ty.value.as_mut()) {
            tensor.elem_type = Some(INT64);
        }
    });
    let layout = planned_by(&model, &request(|_| {})).unwrap().layout;
    assert_eq!(layout.baseline.weights, 1024);
    assert_eq!(layout.weights, 2048);
    let text = memc_report::text(&layout);
    assert!(text.contains("weights 1.0 KiB -> 2.0 KiB"), "{text}");
}

#[test]
fn a_result_without_readers_is_held_no_longer_than_in_the_input_model() {
    // Nothing reads the sum, so it is removed. Then nothing reads the summed half, which a session
    // keeps to the end.
    let halves = stated(node("Split", &["x"], &["a", "b"]), vec![int("axis", 0), int("num_outputs", 2)]);
    let nodes = vec![
        halves,
        stated(node("ReduceSum", &["a"], &["unread"]), vec![int("keepdims", 0)]),
        node("Exp", &["b"], &["e"]),
        node("Concat", &["e", "e", "e"], &["y"]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64])];
        graph.output = vec![fixed("y", &[96])];
    });
    let graph = model.graph.as_mut().unwrap();
    graph.node[3].attribute.push(int("axis", 0));
    let edit = |request: &mut Request| {
        request.runtime = Runtime::Ort;
        request.io = Some(memc_passes::Io::External);
    };
    let optimized = planned_by(&model, &request(edit)).unwrap();
    let (peak, before) = peaks(&optimized);
    assert!(peak <= before, "{peak} > {before}");
}

#[test]
fn a_constant_output_counts_in_both_peaks() {
    // Once the shape is folded, the output is made from a constant. In the file it is a view of the
    // shape.
    let nodes = vec![node("Shape", &["x"], &["s"]), node("Reshape", &["s", "k"], &["y"])];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3, 4])];
        graph.output = vec![fixed("y", &[3])];
        if let Some(Some(TensorType(tensor))) = graph.output[0].r#type.as_mut().map(|ty| ty.value.as_mut()) {
            tensor.elem_type = Some(INT64);
        }
        graph.initializer = vec![integers("k", &[3])];
    });
    let (peak, before) = peaks(&planned_by(&model, &request(|_| {})).unwrap());
    assert!(peak <= before, "{peak} > {before}");
}

/// Threads share caches of answers, and take results in the order of the questions.
#[test]
fn plans_and_their_logs_do_not_depend_on_the_number_of_threads() {
    let file = ModelFile::from_bytes(bytes(&wide())).unwrap();
    for asked in ["", "60%", "1000", "slowdown"] {
        let found = |threads: usize| {
            let request = match asked {
                "" => Request::new(),
                "slowdown" => request(|request| request.rewrite.slowdown = 500),
                budget => Request::new().budget(budget.parse::<Budget>().unwrap().size),
            };
            let planned = plan(&file, &request.threads(threads)).map_err(|error| error.to_string())?;
            let log = planned
                .log
                .iter()
                .map(|entry| (entry.candidate.clone(), entry.bytes, entry.effort, entry.verdict));
            Ok::<_, String>((
                planned.model_bytes().unwrap(),
                memc_layout::to_json(&planned.layout).unwrap(),
                log.collect::<Vec<_>>(),
            ))
        };
        let alone = found(1);
        assert_eq!(alone.is_ok(), asked != "1000", "{asked}");
        for threads in [2, 5] {
            assert_eq!(found(threads), alone, "{asked}, {threads} threads");
        }
    }
}
