//! Caches that grow: kept once, checked, and compared step by step on ONNX Runtime's kernels.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::bytes;
use models_made::decoder::{Decoder, Mask};
use prost::Message as _;
use serde_json::{Value, json};

/// Option for all caches of a decoder.
const STATE: &str = "--state present_*=past_*";

fn plain(mask: Mask) -> Decoder {
    Decoder {
        seed: 1,
        opset: 17,
        layers: 2,
        batch: 2,
        heads: 2,
        groups: 2,
        width: 4,
        rows: 1,
        mask,
        heads_first: true,
        past: None,
        short_table: false,
        free_rows: false,
        free_batch: false,
    }
}

/// Returns a function that draws numbers below a count; the state must not be zero.
fn draws(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |count| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % count
    }
}

/// Returns a decoder that depends on a seed.
fn random(seed: u64) -> (Decoder, u64) {
    let mut below = draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let groups = 1 + below(2) as i64;
    let decoder = Decoder {
        seed,
        opset: [13, 15, 17, 20, 21, 24][below(6) as usize],
        layers: 1 + below(3) as usize,
        batch: 1 + below(3) as i64,
        heads: groups * (1 + below(2) as i64),
        groups,
        width: [1, 2, 4, 8][below(4) as usize],
        rows: [1, 1, 2, 5][below(4) as usize],
        mask: [Mask::None, Mask::Input, Mask::Ranges, Mask::Buffer][below(4) as usize],
        heads_first: below(2) == 0,
        past: None,
        short_table: below(3) == 0,
        free_rows: false,
        free_batch: false,
    };
    (decoder, 1 + below(20))
}

/// Returns a decoder whose new rows are free, and options with ranges, that depend on a seed; and the
/// capacity.
fn random_free(seed: u64) -> (Decoder, String, u64) {
    let mut below = draws(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
    let groups = 1 + below(2) as i64;
    let opset = [13, 15, 17, 20, 21, 24][below(6) as usize];
    let mask =
        [Mask::None, Mask::Input, Mask::Ranges, Mask::Buffer, Mask::Both, Mask::Triangle][below(6) as usize];
    let decoder = Decoder {
        seed,
        opset,
        layers: 1 + below(2) as usize,
        batch: 1 + below(2) as i64,
        heads: groups * (1 + below(2) as i64),
        groups,
        width: [1, 2, 4][below(3) as usize],
        rows: 1,
        mask: if opset < 14 && mask == Mask::Triangle { Mask::Ranges } else { mask },
        heads_first: below(2) == 0,
        past: None,
        short_table: below(3) == 0,
        free_rows: true,
        free_batch: below(2) == 0,
    };
    let (past, rows) = (4 + below(14), 1 + below(7));
    let (seq, least) = match below(4) {
        0 => (format!("1,{}", rows + 1), 1),
        1 => (format!("0..{}", rows + 1), 0),
        2 => (format!("2..{}/{rows}", 2 + rows), 2),
        _ => (format!("1..{}", rows + 1), 1),
    };
    let most = if least == 2 { 2 + rows } else { 1 + rows };
    let mut options = format!("--dim past=0..{past} --dim seq={seq} --dim total=past+seq");
    if decoder.free_batch {
        options += [" --dim batch=2", " --dim batch=1..3"][below(2) as usize];
    }
    let capacity = match below(3) {
        0 => {
            options += &format!(" --dim-max past+seq<={}", past + least);
            past + least
        }
        _ => past + most,
    };
    (decoder, options, capacity)
}

fn layout(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out.layout.json")).unwrap()
}

/// Returns the bytes of tensors of a class without the storage of others.
fn held(layout: &Value, class: &str) -> u64 {
    let shared: Vec<&Value> = layout["state"].as_array().unwrap().iter().map(|row| &row["result"]).collect();
    let own = layout["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["class"] == class);
    own.filter(|tensor| !shared.contains(&&tensor["name"]))
        .map(|tensor| tensor["bytes"].as_u64().unwrap())
        .sum()
}

#[test]
fn random_decoders_compute_equal_tokens_step_by_step() {
    for seed in 0..24 {
        let (decoder, past) = random(seed);
        let folder = Folder::new(&format!("caches-random-{seed}"));
        folder.write("in.onnx", bytes(&decoder.model()));
        let ran =
            folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} --dim past={past} --effort fast"));
        assert_eq!(ran.code, Some(0), "{decoder:?} past {past}: {ran:#?}");
        let layout = layout(&folder);
        let rows = layout["caches"].as_array().unwrap_or_else(|| panic!("{decoder:?}: {ran:#?}"));
        assert_eq!(
            (rows.len(), layout["state"].as_array().unwrap().len()),
            (2 * decoder.layers, 2 * decoder.layers)
        );
        assert_eq!(rows[0]["capacity"], past + decoder.rows as u64);
        let checked = folder.memc("check in.onnx out.onnx out.layout.json");
        assert!(matches!(checked.code, Some(0 | 4)), "{decoder:?}: {checked:#?}");
        let verified = folder.memc(&format!("verify in.onnx out.onnx -n 2 --seed {seed}"));
        assert_eq!(verified.code, Some(0), "{decoder:?} past {past}: {verified:#?}");
        assert!(verified.err.contains(" steps: the written model, and the plan played"), "{verified:#?}");
    }
}

#[test]
fn random_decoders_with_free_rows_compute_equal_tokens() {
    let of = std::env::var("MEMC_CACHE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    for seed in 0..of {
        let (decoder, options, capacity) = random_free(seed);
        let folder = Folder::new(&format!("caches-free-{seed}"));
        folder.write("in.onnx", bytes(&decoder.model()));
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} {options} --effort fast"));
        assert_eq!(ran.code, Some(0), "{decoder:?} {options}: {ran:#?}");
        let layout = layout(&folder);
        let rows = layout["caches"].as_array().unwrap_or_else(|| panic!("{decoder:?}: {ran:#?}"));
        assert_eq!(
            (rows.len(), layout["state"].as_array().unwrap().len()),
            (2 * decoder.layers, 2 * decoder.layers)
        );
        assert_eq!(
            (&rows[0]["capacity"], &rows[0]["rows_expr"]),
            (&json!(capacity), &json!("seq")),
            "{options}"
        );
        let checked = folder.memc("check in.onnx out.onnx out.layout.json");
        assert!(matches!(checked.code, Some(0 | 4)), "{decoder:?} {options}: {checked:#?}");
        let verified = folder.memc(&format!("verify in.onnx out.onnx --seed {seed} --points 4"));
        assert_eq!(verified.code, Some(0), "{decoder:?} {options}: {verified:#?}");
        assert!(verified.err.contains(" steps: the written model, and the plan played"), "{verified:#?}");
    }
}

/// Options for the ranges of a decoder whose new rows are free.
const RANGES: &str = "--dim past=0..12 --dim seq=1..4 --dim total=past+seq";

#[test]
fn a_prompt_and_single_tokens_run_in_one_file() {
    let decoder = Decoder { free_rows: true, ..plain(Mask::Both) };
    let folder = Folder::new("caches-buckets");
    folder.write("in.onnx", bytes(&decoder.model()));
    folder
        .memc(&format!(
            "optimize in.onnx -o out.onnx {STATE} --dim past=0..12 --dim seq=1,4 --dim total=past+seq"
        ))
        .done();
    let layout = layout(&folder);
    assert_eq!(
        layout["caches"][0],
        json!({"input": "past_key_0", "output": "present_key_0", "axis": 2, "capacity": 16, "rows": 4, "rows_expr": "seq",
            "count": "cache_length", "grows": {"past": 15, "total": 16}})
    );
    assert_eq!(
        (&layout["model"]["dims"]["total"], &layout["model"]["equal"]),
        (&json!(16), &json!({"past": "-seq+16"}))
    );
    // All caches of full capacity, once; single tokens need a smaller arena than a prompt.
    assert_eq!(held(&layout, "state"), 2 * 2 * 2 * 2 * 16 * 4 * 4);
    let arena = |bucket: usize| layout["layouts"][bucket]["arenas"][0]["size"].as_u64().unwrap();
    assert!(layout["layouts"].as_array().unwrap().len() == 2 && arena(0) < arena(1), "{layout}");
    let verified = folder.memc("verify in.onnx out.onnx --at seq=4 --at seq=3");
    assert!(verified.err.contains("in 2 points, in 18 steps"), "{verified:#?}");
    // The rows of a bound number may be a range, too: the bound number is the largest one.
    folder
        .memc(&format!(
            "optimize in.onnx -o out.onnx {STATE} --dim past=12 --dim seq=1..4 --dim total=past+seq"
        ))
        .done();
    assert_eq!(self::layout(&folder)["caches"][0]["capacity"], 16);
    folder.memc("verify in.onnx out.onnx --points 2").done();
}

#[test]
fn ranges_that_give_no_capacity_are_refused() {
    let folder = Folder::new("caches-no-capacity");
    folder.write("in.onnx", bytes(&Decoder { free_rows: true, ..plain(Mask::Both) }.model()));
    for (dims, code, words) in [
        ("--dim past=0.. --dim seq=1..4 --dim total=past+seq", "error", "no upper bound"),
        ("--dim seq=1..4 --dim total=seq --allow-unbound", "E0306", "--dim past=0..1023"),
        ("--dim past=0..12 --dim seq=1..4 --dim total=1..16", "E0123", "total"),
    ] {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} {dims}"));
        assert!(ran.err.contains(words), "{dims}: {ran:#?}");
        assert!(ran.code != Some(0) && ran.err.contains(code), "{dims}: {ran:#?}");
        assert_eq!(folder.names(), ["in.onnx"], "{dims}");
    }
}

#[test]
fn the_check_refuses_changed_rows_of_ranges() {
    let folder = Folder::new("caches-ranges-changed");
    for opset in [17, 24] {
        folder.write(
            "in.onnx",
            bytes(&Decoder { opset, free_rows: true, free_batch: true, ..plain(Mask::Ranges) }.model()),
        );
        folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} {RANGES} --dim batch=1..3")).done();
        let layout = layout(&folder);
        let check = |changed: &Value, code: &str| {
            folder.write("changed.json", serde_json::to_string(changed).unwrap());
            let ran = folder.memc("check in.onnx out.onnx changed.json");
            assert!(ran.code == Some(1) && ran.err.contains(code), "{code}: {ran:#?}");
        };
        for (key, value) in [
            ("capacity", json!(17)),
            ("axis", json!(1)),
            ("rows", json!(3)),
            ("rows_expr", json!("seq-1")),
            ("rows_expr", json!("4")),
            ("rows_expr", json!("seq+")),
        ] {
            let mut changed = layout.clone();
            changed["caches"][0][key] = value;
            check(&changed, "E0575");
        }
        let mut changed = layout.clone();
        changed["caches"][0]["count"] = json!("ids");
        check(&changed, "E0576");
        // A model that writes rows from another row on.
        let given = ModelProto::decode(std::fs::read(folder.path("out.onnx")).unwrap().as_slice()).unwrap();
        let mut model = given.clone();
        let nodes = &mut model.graph.as_mut().unwrap().node;
        match opset {
            24 => {
                let at = nodes.iter().position(|node| node.op_type() == "TensorScatter").unwrap();
                let circle = memc_onnx_proto::onnx::AttributeProto {
                    name: Some("mode".to_owned()),
                    s: Some("circular".into()),
                    r#type: Some(3),
                    ..Default::default()
                };
                nodes[at].attribute.push(circle);
            }
            _ => {
                let at = nodes.iter().position(|node| node.output[0] == "cache_rows").unwrap();
                nodes[at].input.swap(0, 1);
            }
        }
        folder.write("out.onnx", bytes(&model));
        check(&layout, "E0576");
    }
}

/// Returns a model of one attention with caches in buffers of 8 rows.
fn grouped() -> ModelProto {
    let names = ["q", "k", "v", "past_key", "past_value", "last", "total"];
    let mut attention =
        models_made::node("GroupQueryAttention", &names, &["y", "present_key", "present_value"]);
    attention.domain = Some("com.microsoft".to_owned());
    attention.attribute.extend([models_made::int("num_heads", 4), models_made::int("kv_num_heads", 2)]);
    let mut model = models_made::with(vec![attention], |graph| {
        let integers = |name: &str, dims: &[i64]| {
            let mut info = models_made::fixed(name, dims);
            if let Some(memc_onnx_proto::onnx::type_proto::Value::TensorType(tensor)) =
                &mut info.r#type.as_mut().unwrap().value
            {
                tensor.elem_type = Some(6);
            }
            info
        };
        graph.input = vec![
            models_made::symbolic("q", &["1", "seq", "32"]),
            models_made::symbolic("k", &["1", "seq", "16"]),
            models_made::symbolic("v", &["1", "seq", "16"]),
            models_made::fixed("past_key", &[1, 2, 8, 8]),
            models_made::fixed("past_value", &[1, 2, 8, 8]),
            integers("last", &[1]),
            integers("total", &[1]),
        ];
        graph.output = vec![
            models_made::symbolic("y", &["1", "seq", "32"]),
            models_made::fixed("present_key", &[1, 2, 8, 8]),
            models_made::fixed("present_value", &[1, 2, 8, 8]),
        ];
    });
    let own = |domain: &str, version: i64| memc_onnx_proto::onnx::OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    model.opset_import = vec![own("", 17), own("com.microsoft", 1)];
    model
}

#[test]
fn attention_that_writes_into_its_buffers_holds_them_once() {
    let folder = Folder::new("caches-grouped");
    folder.write("in.onnx", bytes(&grouped()));
    for dims in ["--dim seq=1", "--dim seq=1..4"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --state present_*=past_* {dims}")).done();
        let layout = layout(&folder);
        assert!(
            layout["state"].as_array().unwrap().len() == 2 && layout["unpaired"].is_null(),
            "{dims}: {layout}"
        );
        assert_eq!(held(&layout, "state"), 2 * 2 * 8 * 8 * 4, "{dims}");
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
    }
    // A buffer that another node reads later keeps its old rows.
    let mut model = grouped();
    let graph = model.graph.as_mut().unwrap();
    graph.node.push(models_made::node("Add", &["past_key", "present_key"], &["both"]));
    graph.output.push(models_made::fixed("both", &[1, 2, 8, 8]));
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --state present_*=past_* --dim seq=1").done();
    assert_eq!(layout(&folder)["state"].as_array().unwrap().len(), 1);
}

#[test]
fn a_cache_is_held_once_and_its_pairs_have_either_order() {
    let decoder = Decoder { past: Some(9), ..plain(Mask::Input) };
    let folder = Folder::new("caches-fixed");
    folder.write("in.onnx", bytes(&decoder.model()));
    folder.memc("optimize in.onnx -o out.onnx --io external").done();
    let before: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let (cache, full) = (2 * 2 * 2 * 2 * 9 * 4 * 4, 2 * 2 * 2 * 2 * 10 * 4 * 4);
    let all = before["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["class"] == "output");
    assert!(all.map(|tensor| tensor["bytes"].as_u64().unwrap()).sum::<u64>() >= full);
    for state in [
        STATE,
        "--state past_*=present_*",
        "--state present_key_*=past_key_* --state past_value_*=present_value_*",
    ] {
        folder.memc(&format!("optimize in.onnx -o out.onnx {state} --exact")).done();
        let layout = layout(&folder);
        assert_eq!(held(&layout, "state"), full, "{state}");
        assert!(held(&layout, "output") < cache / 4 && layout["unpaired"].is_null(), "{layout}");
        assert_eq!(
            layout["caches"][0],
            json!({"input": "past_key_0", "output": "present_key_0", "axis": 2, "capacity": 10, "rows": 1, "count": "cache_length"})
        );
        // A full buffer has the extents of the given model, so every bit is equal.
        let verified = folder.memc("verify in.onnx out.onnx -n 2");
        assert!(verified.err.contains("equal bit for bit in 2 rounds, in 2 steps"), "{verified:#?}");
    }
}

#[test]
fn prefill_and_decoding_share_one_buffer() {
    // 16 rows in both files: 12 and 4 new ones, or 15 and 1.
    let folder = Folder::new("caches-phases");
    for (rows, past) in [(4, 12), (1, 15)] {
        folder.write("in.onnx", bytes(&Decoder { rows, ..plain(Mask::Ranges) }.model()));
        folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} --dim past={past}")).done();
        assert_eq!(layout(&folder)["caches"][0]["capacity"], 16);
        folder.memc("verify in.onnx out.onnx -n 1").done();
    }
}

/// A change of a decoder, its options, and the code and words of the refusal.
type Refusal = (&'static str, fn(&mut ModelProto), &'static str, &'static str, &'static str);

/// Replaces a node by its result's name.
fn change(model: &mut ModelProto, result: &str, edit: impl FnOnce(&mut memc_onnx_proto::onnx::NodeProto)) {
    let nodes = &mut model.graph.as_mut().unwrap().node;
    edit(nodes.iter_mut().find(|node| node.output[0] == result).unwrap());
}

const REFUSALS: &[Refusal] = &[
    (
        "rows before the cache",
        |m| change(m, "present_key_0", |node| node.input.swap(0, 1)),
        "past=6",
        "E0324",
        "operands of Concat",
    ),
    (
        "no concatenation",
        |m| {
            let nodes = &mut m.graph.as_mut().unwrap().node;
            let at = nodes.iter().position(|node| node.output[0] == "present_key_0").unwrap();
            nodes[at].output[0] = "joined".to_owned();
            nodes.insert(at + 1, models_made::node("Neg", &["joined"], &["present_key_0"]));
        },
        "past=6",
        "E0324",
        "Neg computes it",
    ),
    (
        "a sum over all rows",
        |m| {
            let graph = m.graph.as_mut().unwrap();
            let pooled = models_made::stated(
                models_made::node("GlobalAveragePool", &["present_key_0"], &["pooled"]),
                Vec::new(),
            );
            graph.node.push(pooled);
            graph.output.push(models_made::fixed("pooled", &[2, 2, 1, 1]));
        },
        "past=6",
        "E0325",
        "GlobalAveragePool",
    ),
    (
        "the cache before the run",
        |m| {
            let graph = m.graph.as_mut().unwrap();
            graph.node.push(models_made::node("Exp", &["past_key_0"], &["other"]));
            graph.output.push(models_made::symbolic("other", &["B", "H", "past", "D"]));
        },
        "past=6",
        "E0325",
        "before the new rows",
    ),
    (
        "scores as an output",
        |m| m.graph.as_mut().unwrap().output.push(models_made::symbolic("shares_0", &["B", "H", "S", "T"])),
        "past=6",
        "E0325",
        "graph output",
    ),
    ("no rows before the run", |_| {}, "past=0", "E0326", "largest number"),
    (
        "values that are not finite",
        |m| change(m, "value_0", |node| node.op_type = Some("Reciprocal".to_owned())),
        "past=6",
        "E0325",
        "sums over rows",
    ),
];

#[test]
fn models_that_need_the_exact_number_of_rows_are_refused() {
    for (what, edit, dim, code, words) in REFUSALS {
        let folder = Folder::new("caches-refused");
        let mut model = plain(Mask::Ranges).model();
        edit(&mut model);
        folder.write("in.onnx", bytes(&model));
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} --dim {dim}"));
        assert!(ran.err.contains(code) && ran.err.contains(words), "{what}: {ran:#?}");
        ran.refused(2, code);
        assert_eq!(folder.names(), ["in.onnx"], "{what}");
    }
}

#[test]
fn wrong_pairs_are_refused() {
    let folder = Folder::new("caches-pairs");
    folder.write("in.onnx", bytes(&plain(Mask::Ranges).model()));
    for (state, words) in [
        ("--state future_*=past_*", "no output named `future_*`"),
        ("--state present_*=old_*", "no input named `old_key_0`"),
        ("--state logits=past_key_0", "`logits` is"),
        ("--state present_key_0=past_key_0 --state present_value_0=past_key_0", "another pair"),
    ] {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {state} --dim past=6"));
        assert!(ran.err.contains(words), "{state}: {ran:#?}");
        ran.refused(2, "E0306");
    }
}

#[test]
fn the_check_refuses_changed_rows_and_places() {
    let folder = Folder::new("caches-changed");
    folder.write("in.onnx", bytes(&plain(Mask::Ranges).model()));
    folder.memc(&format!("optimize in.onnx -o out.onnx {STATE} --dim past=6")).done();
    let layout = layout(&folder);
    let check = |changed: &Value, code: &str| {
        folder.write("changed.json", serde_json::to_string(changed).unwrap());
        let ran = folder.memc("check in.onnx out.onnx changed.json");
        assert!(ran.code == Some(1) && ran.err.contains(code), "{code}: {ran:#?}");
    };
    for (key, value) in [
        ("capacity", json!(8)),
        ("axis", json!(1)),
        ("rows", json!(2)),
        ("output", json!("logits")),
        ("input", json!("ids")),
    ] {
        let mut changed = layout.clone();
        changed["caches"][0][key] = value;
        check(&changed, "E0575");
    }
    let mut changed = layout.clone();
    changed["caches"][0]["count"] = json!("ids");
    check(&changed, "E0576");
    let mut changed = layout.clone();
    changed["state"].as_array_mut().unwrap().remove(0);
    check(&changed, "E0577");
    let mut changed = layout.clone();
    changed["caches"].as_array_mut().unwrap().remove(0);
    check(&changed, "E0557");
    // A model that writes rows elsewhere.
    let mut model = ModelProto::decode(std::fs::read(folder.path("out.onnx")).unwrap().as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let places =
        graph.initializer.iter_mut().find(|tensor| tensor.name().starts_with("cache_places")).unwrap();
    let mut raw_data = places.raw_data.clone().unwrap().to_vec();
    raw_data[16] ^= 1;
    places.raw_data = Some(raw_data.into());
    folder.write("out.onnx", bytes(&model));
    check(&layout, "E0576");
}
