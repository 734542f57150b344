//! Damaged layouts: the checker answers and the reports are written, regardless of numbers and names.

use std::sync::OnceLock;

use memc::memc_check::{Options, check, form};
use memc::memc_layout::{Layout, LiveCurve, read, to_c_header, to_json, to_minimalloc_csv, to_rust};
use memc::memc_onnx_proto::ModelFile;
use memc::memc_report::{HtmlOptions, html, json, summary_line, text, trace};
use memc::{Request, plan};
use serde_json::{Value, json as value};

use crate::Choices;

/// A small model with views, an in-place result, bodies and anchors.
const MODEL: &[u8] = include_bytes!("../seeds/import_onnx/branches.onnx");
/// Words with a meaning in some field of a layout.
const WORDS: [&str; 20] = [
    "",
    "a",
    "b",
    "c",
    "x",
    "w",
    "device",
    "host",
    "view",
    "in_place",
    "scratch",
    "constant",
    "transient",
    "output",
    "state",
    "scratch:choose:body",
    "float",
    "int4",
    "arena",
    "\u{1F980}",
];

/// A valid plan and its two models.
struct Sound {
    given: ModelFile,
    out: ModelFile,
    layout: Value,
}

fn sound() -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let given = ModelFile::from_bytes(MODEL).unwrap_or_else(|error| panic!("{error}"));
        let request = Request { anchors: true, verify: true, ..Request::default() };
        let optimized = plan(&given, &request).unwrap_or_else(|error| panic!("{}", error.diagnostic()));
        let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap_or_else(|error| panic!("{error}"));
        let report = check(&given, &out, &optimized.layout, Options::default());
        assert!(report.holds(), "{:?}", report.violations);
        let layout = serde_json::to_value(&optimized.layout).unwrap_or_else(|error| panic!("{error}"));
        Sound { given, out, layout }
    })
}

/// Damages a valid layout, or reads the bytes as a layout.
pub fn check_layout(bytes: &[u8]) {
    let sound = sound();
    if bytes.first() == Some(&b'{') {
        return judge(sound, &String::from_utf8_lossy(bytes));
    }
    let mut choices = Choices::new(bytes);
    let mut layout = sound.layout.clone();
    for _ in 0..=choices.below(8) {
        damage(&mut layout, &mut choices);
    }
    judge(sound, &layout.to_string());
}

fn judge(sound: &Sound, text: &str) {
    form(text);
    let Ok(layout) = read(text) else { return };
    let again = to_json(&layout);
    if let Ok(again) = &again {
        assert!(read(again).is_ok(), "what was written is refused:\n{again}");
    }
    for options in [Options::default(), Options { exact: true, ..Options::default() }] {
        let report = check(&sound.given, &sound.out, &layout, options);
        assert!(serde_json::to_string(&report.summary).is_ok());
    }
    write_all(&layout);
}

fn write_all(layout: &Layout) {
    let _ = LiveCurve::of(layout);
    let _ = (to_c_header(layout), to_rust(layout), to_minimalloc_csv(layout, "device"));
    let _ = (summary_line(layout), text(layout), trace(layout), html(layout, &HtmlOptions::default()));
    let report = json(layout);
    assert!(serde_json::from_str::<Value>(&report).is_ok(), "no JSON:\n{report}");
}

/// Damages one place: descends from the root to a leaf, or stops earlier.
fn damage(layout: &mut Value, choices: &mut Choices<'_>) {
    let copy = find(layout, choices).clone();
    let place = find(layout, choices);
    if let Value::Array(items) = place
        && !items.is_empty()
        && !choices.once_in(4)
    {
        let (at, other) = (choices.below(items.len()), choices.below(items.len()));
        match choices.below(3) {
            0 => drop(items.remove(at)),
            1 => items.push(items[at].clone()),
            _ => items.swap(at, other),
        }
        return;
    }
    *place = match choices.below(6) {
        0 | 1 => value!(choices.number()),
        2 | 3 => value!(choices.pick(&WORDS)),
        4 => copy,
        _ => Value::Null,
    };
}

fn find<'v>(mut place: &'v mut Value, choices: &mut Choices<'_>) -> &'v mut Value {
    loop {
        let count = match &*place {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if count == 0 || choices.once_in(12) {
            return place;
        }
        let at = choices.below(count);
        let Some(next) = (match place {
            Value::Array(items) => items.get_mut(at),
            Value::Object(map) => map.values_mut().nth(at),
            _ => None,
        }) else {
            unreachable!("`at` is below the count");
        };
        place = next;
    }
}
