//! `memc fit`: the largest extent that a memory holds, a decoder's context, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::decoder;
use crate::models_made::{bytes, floats, node, symbolic, with};
use memc::{Fitting, Growing, Need, Request};
use memc_onnx_proto::ModelFile;

/// Two layers over a free batch, with 24 KiB of weights.
fn layers() -> Vec<u8> {
    let nodes = vec![
        node("MatMul", &["x", "w"], &["a"]),
        node("Tanh", &["a"], &["b"]),
        node("MatMul", &["b", "v"], &["c"]),
        node("Softmax", &["c"], &["y"]),
    ];
    bytes(&with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "32"])];
        graph.output = vec![symbolic("y", &["n", "32"])];
        graph.initializer = vec![floats("w", &[32, 96]), floats("v", &[96, 32])];
    }))
}

#[test]
fn the_largest_batch_is_found_and_the_next_one_does_not_fit() {
    let file = ModelFile::from_bytes(layers()).unwrap();
    for ram in [26_000, 30_000, 40_960] {
        let fitting = Fitting { ram, largest: None, context: None };
        let fitted = memc::fit(&file, &Request::new(), &fitting, &mut |_| {}).unwrap();
        let (growing, batch) = fitted.largest.clone().unwrap();
        assert_eq!(growing.name, "n");
        let layout = &fitted.planned.layout;
        let held = layout
            .tensors
            .iter()
            .filter(|tensor| tensor.class == memc_layout::Class::Input && tensor.offset.is_none());
        let sum = layout.weights + layout.arenas[0].size + held.map(|tensor| tensor.bytes).sum::<u64>();
        assert_eq!(fitted.need.in_run(), sum, "{ram}");
        assert!(sum <= ram && layout.weights >= 24_576 && batch > 1, "{ram}: {batch}, {sum}");
        let next = memc::plan(&file, &Request::new().dim("n", batch + 1)).unwrap();
        assert!(Need::of(&next.layout).in_run() > ram, "{ram}: {batch} is not the largest");
        let beyond = fitted.beyond.unwrap().0;
        assert!(beyond > batch && beyond - batch <= (batch / 16).max(1), "{ram}: {batch}, {beyond}");
    }
}

#[test]
fn a_larger_memory_never_holds_less() {
    let file = ModelFile::from_bytes(layers()).unwrap();
    let batch = |ram: u64, most: u64| {
        let extents = memc_ir::Range { min: 1, max: Some(most), step: 1 };
        let largest = Some(Growing { name: "n".to_owned(), extents, is_range: false });
        memc::fit(&file, &Request::new(), &Fitting { ram, largest, context: None }, &mut |_| {})
            .unwrap()
            .largest
            .unwrap()
            .1
    };
    let found = [26, 27, 31, 33].map(|ram| batch(ram * 1024, 500));
    assert!(found.is_sorted() && found[0] < found[3], "{found:?}");
    assert_eq!(batch(10_000_000, 17), 17, "no more than asked for");
}

#[test]
fn the_command_writes_the_plan_that_it_names() {
    let folder = Folder::new("fit");
    folder.write("in.onnx", layers());
    let ran = folder.memc("fit in.onnx --ram 30000 -o out.onnx").done();
    let line = ran.err.lines().find(|line| line.starts_with("as by `")).unwrap();
    let command = line.trim_start_matches("as by `memc ").trim_end_matches('`').replace('\'', "");
    let first = folder.read("out.layout.json");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc(&format!("{command} -o out.onnx")).done();
    assert_eq!(folder.read("out.layout.json"), first, "{command}");
    for row in ["weights", "inputs and outputs", "activations", "sum"] {
        assert!(ran.err.lines().any(|line| line.starts_with(row)), "{row}: {}", ran.err);
    }
    // A range: one plan for all batches up to the largest.
    let ran = folder.memc("fit in.onnx --ram 30000 --largest n=1..64 -o range.onnx").done();
    assert!(ran.err.contains("with n=1.."), "{}", ran.err);
    folder.memc("check in.onnx range.onnx range.layout.json").checked();
}

#[test]
fn bytes_that_follow_the_extent_take_few_plans() {
    let file = ModelFile::from_bytes(layers()).unwrap();
    for (ram, most) in [(30_000, 8), (100_000, 10), (1_000_000, 10), (10_000_000, 10)] {
        let fitting = Fitting { ram, largest: None, context: None };
        let mut lines = Vec::new();
        let fitted =
            memc::fit(&file, &Request::new(), &fitting, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(fitted.plans <= most && fitted.plans as usize == lines.len(), "{ram}: {lines:#?}");
    }
}

#[test]
fn weights_that_do_not_fit_stay_on_a_disk() {
    let folder = Folder::new("fit-disk");
    folder.write("in.onnx", layers());
    folder.memc("fit in.onnx --ram 16KB --runtime ort").refused(3, "E0365");
    let ran = folder.memc("fit in.onnx --ram 16KB --largest n=1 --effort 100 --json -o out.onnx").done();
    let line = ran.err.lines().find(|line| line.contains("of weights stay in `disk`")).unwrap().to_owned();
    assert!(line.contains("with all weights in memory"), "{line}");
    let numbers: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
    assert!(
        !layout.fetches.is_empty()
            && numbers["far"]["fetched"].as_u64() >= numbers["far"]["weights"].as_u64(),
        "{numbers}"
    );
    assert!(
        Need::of(&layout).in_run() <= 16_000 && numbers["need"]["in_run"] == Need::of(&layout).in_run(),
        "{numbers}"
    );
    let [near, far] = [0, 1].map(|at| numbers["far"]["smallest_ns"][at].as_f64().unwrap());
    assert!(near < far, "{numbers}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
    // The command in the message makes the same plan.
    let command = numbers["command"].as_str().unwrap().trim_start_matches("memc ").replace('\'', "");
    folder.memc(&format!("{command} -o again.onnx")).done();
    assert_eq!(folder.read("again.layout.json"), folder.read("out.layout.json"), "{command}");
}

#[test]
fn a_limit_on_rows_is_the_capacity_of_caches() {
    let folder = Folder::new("fit-capacity");
    folder.write("in.onnx", bytes(&decoder::free().model()));
    for runtime in ["arena", "ort"] {
        let dims =
            "--dim batch=1 --dim past=0..39 --dim seq=1..11 --dim total=past+seq --dim-max past+seq<=40";
        folder
            .memc(&format!(
                "optimize in.onnx -o out.onnx --effort 100 --runtime {runtime} --state present*=past* {dims}"
            ))
            .done();
        let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
        assert!(layout.caches.iter().all(|cache| cache.capacity == 40), "{runtime}: {:?}", layout.caches);
        assert_eq!(layout.state.len(), layout.caches.len(), "{runtime}: each cache is written in place");
    }
}

#[test]
fn the_last_row_of_logits_leaves_room_for_a_longer_chunk() {
    let folder = Folder::new("fit-last-token");
    folder.write("in.onnx", bytes(&decoder::free().model()));
    let chunk = |more: &str| {
        let ran =
            folder.memc(&format!("fit in.onnx --ram 30KB --context 40 --effort 100 --json {more}")).done();
        let numbers: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        numbers["largest"]["extent"].as_u64().unwrap()
    };
    let (all, last) = (chunk(""), chunk("--last-token"));
    assert!(all < last, "{all} and {last}");
}

#[test]
fn a_decoder_keeps_its_context_in_place() {
    let folder = Folder::new("fit-context");
    folder.write("in.onnx", bytes(&decoder::free().model()));
    let ran = folder.memc("fit in.onnx --ram 1MB --context 12 --effort 100 -o out.onnx").done();
    let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
    assert!(
        !layout.caches.is_empty() && layout.caches.iter().all(|cache| cache.capacity == 12),
        "{:?}",
        layout.caches
    );
    assert!(ran.err.contains("state") && layout.caches.iter().all(|cache| cache.rows == 12), "{}", ran.err);
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let caches = layout
        .tensors
        .iter()
        .filter(|tensor| tensor.class == memc_layout::Class::State)
        .map(|tensor| tensor.bytes);
    let outputs = layout
        .tensors
        .iter()
        .filter(|tensor| tensor.name == "logits" || tensor.name == "ids")
        .map(|tensor| tensor.bytes);
    let most = Need::of(&layout);
    assert_eq!(most.state, caches.sum::<u64>(), "caches count once");
    assert!(most.interface <= outputs.sum::<u64>() + 64, "{most:?}");
    // Less memory holds fewer new rows at once, and the same context.
    let ran = folder
        .memc(&format!(
            "fit in.onnx --ram {} --context 12 --effort 100 -o less.onnx",
            most.in_run() - most.arena / 20 * 19
        ))
        .done();
    let less = memc_layout::read(&folder.read("less.layout.json")).unwrap();
    let rows = less.caches[0].rows;
    assert!(rows < 12 && less.caches.iter().all(|cache| cache.capacity == 12), "{rows}: {}", ran.err);
    folder.memc("check in.onnx less.onnx less.layout.json").checked();
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_its_parts() {
    let folder = Folder::new("fit-refused");
    folder.write("in.onnx", layers());
    let ran = folder.memc("fit in.onnx --ram 20000 --runtime ort -o out.onnx").refused(3, "E0365");
    assert!(ran.err.contains("n=1 needs") && ran.err.contains("24.0 KiB of weights"), "{}", ran.err);
    let enough = ran.err.split("`--ram ").nth(1).unwrap().split('`').next().unwrap();
    let ran = folder.memc(&format!("fit in.onnx --ram {enough} --runtime ort")).done();
    assert!(ran.err.contains("with n=1 "), "{}", ran.err);
    folder.memc("fit in.onnx --ram 1MB --context 8").refused(2, "E0366");
    folder.memc("fit in.onnx --ram 1MB --largest m=8").refused(2, "E0117");
    let ran = folder.memc("fit in.onnx --ram 100 --largest n=8 -o out.onnx").refused(3, "E0365");
    assert!(ran.err.contains("n=1 needs"), "the disk does not help: {}", ran.err);
    folder.write("open.onnx", bytes(&decoder::free().model()));
    let ran = folder.memc("fit open.onnx --ram 1MB --context 41").refused(2, "E0368");
    assert!(ran.err.contains("`--context 40`"), "{}", ran.err);
    let ran = folder.memc("fit open.onnx --ram 1MB").refused(2, "E0114");
    assert!(ran.err.contains("--largest"), "{}", ran.err);
    assert_eq!(folder.names(), ["in.onnx", "open.onnx"]);
}

#[test]
fn a_table_of_positions_ends_the_search() {
    let folder = Folder::new("fit-positions");
    folder.write("in.onnx", bytes(&decoder::free().model()));
    let dims = "--largest seq=500 --dim batch=1 --dim past=0 --dim total=seq";
    let ran = folder.memc(&format!("fit in.onnx --ram 100MB --effort 100 {dims}")).done();
    assert!(ran.err.contains("index 40 is out of range for an extent of 40"), "{ran:#?}");
    let ran = folder.memc(&format!("fit in.onnx --ram 100MB --effort 100 --json {dims}")).done();
    let numbers: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(numbers["largest"]["extent"], 40);
}
