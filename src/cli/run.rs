//! `memc run`: plays a plan.

use std::time::Instant;

use memc::Error;
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ort as play;
use play::inputs::{Inputs, Seeded};
use play::npz::Archive;
use play::{PlayOptions, Played, Player, Point, npz};
use serde_json::json;

use super::args::Run;
use super::playing::{archive, layout, load, nanoseconds, refuse, sleep_at_random};
use super::{Failure, Outcome, Voice, print, run_joint, run_sections, usage};
use memc::Outputs;

/// Largest number of printed rows of a list.
const MAX_ROWS: usize = 10;

/// Plays the plan and prints its memory and time.
pub fn run(arguments: &Run, voice: &Voice) -> Outcome {
    if let Some(joint) = &arguments.joint {
        return run_joint::run(arguments, joint, voice);
    }
    let Some(model) = &arguments.model else {
        return Err(usage(
            "there is no model to play".to_owned(),
            "name it: memc run OUT.onnx --layout OUT.layout.json",
        ));
    };
    let is_manifest = model.extension().is_some_and(|extension| extension == "json");
    let path = match &arguments.layout {
        None if is_manifest => return run_sections::run(arguments, model, voice),
        Some(_) if is_manifest => {
            return Err(usage("a manifest names its layouts".to_owned(), "leave out `--layout`"));
        }
        None => {
            return Err(usage(
                "a plan is played by its layout".to_owned(),
                "name it: `--layout OUT.layout.json`",
            ));
        }
        Some(path) => path,
    };
    let out = ModelFile::open(model).map_err(Error::from)?;
    let layout = layout(path)?;
    let runtime = load(arguments.playing.library.ort_lib.as_deref())?;
    let archive = archive(arguments.inputs.as_deref(), &out)?;
    let point = point(&layout, archive.as_ref(), &arguments.dims).map_err(refuse)?;
    let layout = play::point::at(&layout, &point).map_err(refuse)?;
    let given: Box<dyn Inputs> = match archive {
        Some(archive) => Box::new(archive),
        None => Box::new(Seeded::new(&out, &layout, arguments.seed).map_err(refuse)?),
    };
    let options = PlayOptions {
        poison_check: arguments.playing.poison_check,
        swap_folder: arguments.playing.swap_dir.clone(),
        clock: Some(nanoseconds),
        delay: arguments.random_sleeps.then_some(sleep_at_random),
        ..PlayOptions::default()
    };
    let started = Instant::now();
    let mut player = Player::new(&runtime, &out, &layout, options).map_err(refuse)?;
    let start = started.elapsed().as_secs_f64() * 1e3;
    let mut times = Vec::new();
    let mut played = Played::default();
    let mut first = None;
    for number in 1..=arguments.repeat.max(1) {
        played = player.play(&*given).map_err(refuse)?;
        times.push(played.nanoseconds as f64 / 1e6);
        if arguments.random_sleeps {
            let digest = play::digest(&player.outputs().map_err(refuse)?);
            if *first.get_or_insert_with(|| digest.clone()) != digest {
                return Err(unequal(number));
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let results = player.outputs().map_err(refuse)?;
    if let Some(path) = &arguments.outputs {
        let mut outputs = Outputs::default();
        outputs.add(path, |out| npz::write(&results, out))?;
        outputs.commit()?;
    }
    let digest = play::digest(&results);
    let others = results.iter().filter(|(_, content)| content.tensor().is_none());
    let others: Vec<(&String, String)> = others.map(|(name, content)| (name, content.to_string())).collect();
    if arguments.json {
        let arenas = played
            .arenas
            .iter()
            .map(|arena| json!({"space": arena.space, "planned": arena.planned, "used": arena.used}));
        let outside = played.outside.iter().map(
            |node| json!({"node": node.node, "op": node.op, "reason": node.reason, "bytes": node.bytes}),
        );
        let work = played.workspace.iter().map(
            |node| json!({"node": node.node, "op": node.op, "planned": node.planned, "beyond": node.beyond}),
        );
        let links = played.links.iter().map(|link| {
            json!({"from": link.from, "to": link.to, "transfers": link.transfers, "bytes": link.bytes, "direct": link.direct,
                "busy_ms": link.busy as f64 / 1e6, "waited_ms": link.waited as f64 / 1e6})
        });
        let object = json!({
            "extents": point.0, "moved": played.moved, "links": links.collect::<Vec<_>>(),
            "digest": digest, "arenas": arenas.collect::<Vec<_>>(), "bytes_outside": played.bytes_outside(),
            "workspace_beyond": played.workspace_beyond(), "ran": played.ran, "skipped": played.skipped, "constant": played.constant,
            "outside": outside.collect::<Vec<_>>(), "workspace": work.collect::<Vec<_>>(), "caller_bytes": played.caller,
            "no_arrays": others.iter().map(|(name, kind)| json!({"output": name, "is": kind})).collect::<Vec<_>>(),
            "anonymous_bytes": anonymous(), "start_ms": start, "run_ms": median, "runs": times.len(),
        });
        return print(&format!("{object:#}\n"));
    }
    if !point.0.is_empty() {
        voice.say(&format!("extents: {point}"));
    }
    tell(&played, voice);
    for (name, kind) in others.iter().take(MAX_ROWS) {
        voice.say(&format!("output `{name}`: {kind}"));
    }
    voice.say(&format!("start {start:.1} ms, run {median:.3} ms (median of {})", times.len()));
    print(&format!("{digest}\n"))
}

/// Returns the extents of a run: those of the inputs, or stated ones with the largest for other dimensions.
/// A stated extent that contradicts the inputs is an error.
fn point(layout: &Layout, archive: Option<&Archive>, dims: &[(String, u64)]) -> Result<Point, play::Error> {
    let stated = dims.iter().cloned();
    let Some(archive) = archive else {
        let mut point =
            Point(layout.model.ranges.iter().map(|(name, range)| (name.clone(), range.max)).collect());
        point.0.extend(stated);
        return Ok(point);
    };
    let found = if layout.model.ranges.is_empty() {
        Point::default()
    } else {
        play::point::of_inputs(layout, archive)?
    };
    for (name, extent) in stated {
        if found.0.get(&name).is_some_and(|found| *found != extent) {
            let reason = format!("the inputs have {name}={}", found.0[&name]);
            return Err(play::Error::Extent { extents: format!("{name}={extent}"), reason });
        }
        if !found.0.contains_key(&name) {
            play::point::keeps(layout, &Point([(name, extent)].into()))?;
        }
    }
    Ok(found)
}

/// Refuses a plan whose results depend on the speed of its engines.
fn unequal(run: u32) -> Failure {
    let text = format!("the results of run {run} differ from those of the first run, on equal inputs");
    let help = "`memc check` names the wait that the plan lacks; if it finds none, random numbers in the model may be the cause";
    Failure { diagnostics: vec![Diagnostic::new("E0709", Severity::Error, text).with_help(help)], code: 1 }
}

/// Prints the memory, the engines and the transfers of a run.
fn tell(played: &Played, voice: &Voice) {
    for arena in &played.arenas {
        voice.say(&format!(
            "arena {}: {} planned, {} used",
            arena.space,
            Bytes(arena.planned),
            Bytes(arena.used)
        ));
    }
    voice.say(&format!(
        "{} nodes ran, {} had nothing to do, {} were computed as constants before the run",
        played.ran, played.skipped, played.constant
    ));
    for (number, engine) in played.engines.iter().enumerate() {
        let (busy, waited) = (engine.busy as f64 / 1e6, engine.waited as f64 / 1e6);
        voice.say(&format!(
            "engine {number}: {} steps, busy {busy:.3} ms, waited {waited:.3} ms",
            engine.steps
        ));
    }
    for link in &played.links {
        let (busy, waited) = (link.busy as f64 / 1e6, link.waited as f64 / 1e6);
        let (from, to) = (&link.from, &link.to);
        let (count, bytes) = (link.transfers, Bytes(link.bytes));
        let cached = if link.direct { "" } else { ", through the system's file cache" };
        voice.say(&format!(
            "link {from} -> {to}: {count} transfers, {bytes}, busy {busy:.3} ms, waited for {waited:.3} ms{cached}"
        ));
    }
    voice.say(&format!(
        "results outside the arena: {}, by {} nodes; workspace beyond the plan: at most {}",
        Bytes(played.bytes_outside()),
        played.outside.len(),
        Bytes(played.workspace_beyond()),
    ));
    for node in played.outside.iter().take(MAX_ROWS) {
        voice.say(&format!("  \"{}\" ({}), {}: {}", node.node, node.op, Bytes(node.bytes), node.reason));
    }
    let mut beyond: Vec<_> = played.workspace.iter().filter(|node| node.beyond > 0).collect();
    beyond.sort_by_key(|node| std::cmp::Reverse(node.beyond));
    for node in beyond.iter().take(MAX_ROWS) {
        voice.say(&format!(
            "  workspace of \"{}\" ({}): {} beyond the plan",
            node.node,
            node.op,
            Bytes(node.beyond)
        ));
    }
}

/// Bytes of this process that no file backs; `None` on systems that do not report them.
fn anonymous() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
