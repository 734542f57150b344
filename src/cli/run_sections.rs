//! `memc run MANIFEST.json`: plays all sections of a divided model in one process.

use std::collections::BTreeMap;
use std::path::Path;

use memc::{Error, Outputs, section_files};
use memc_check::devices::SectionFiles;
use memc_ir::Bytes;
use memc_layout::devices::{DeviceMemory, Manifest};
use memc_ort as play;
use play::inputs::{Inputs, Seeded};
use play::npz::Archive;
use play::point::Point;
use play::{Array, DeviceUse, Part, PlayOptions, Played, npz, play_sections, views};
use serde_json::json;

use super::args::Run;
use super::playing::{load, nanoseconds, refuse};
use super::{Outcome, Voice, print, usage};

/// Plays the program of a manifest and prints the memory of each device and the digest of the results.
pub fn run(arguments: &Run, model: &Path, voice: &Voice) -> Outcome {
    if arguments.repeat > 1 {
        let help = "`memc split --micro-batches M` writes a program of M runs";
        return Err(usage("a manifest has a number of runs of its own".to_owned(), help));
    }
    let manifest = memc::read_manifest(model)?;
    let mut files = section_files(model, &manifest)?;
    let extents = extents(arguments, &manifest, &files).map_err(refuse)?;
    for files in &mut files {
        let own =
            files.layout.model.ranges.keys().filter_map(|name| Some((name.clone(), *extents.get(name)?)));
        files.layout = play::point::at(&files.layout, &Point(own.collect())).map_err(refuse)?;
    }
    let runtime = load(arguments.playing.library.ort_lib.as_deref())?;
    let parts: Vec<Part<'_>> =
        files.iter().map(|files| Part { model: &files.model, layout: &files.layout }).collect();
    let is_pipeline = manifest.pipeline.is_some();
    let batches: Vec<_> =
        manifest.values.iter().filter_map(|value| Some((&value.name, value.joined.as_ref()?))).collect();
    let feed = |position: usize, micro_batch: u64| -> Result<Box<dyn Inputs>, play::Error> {
        let files = &files[position];
        let run = if is_pipeline { 0 } else { micro_batch };
        Ok(match &arguments.inputs {
            Some(path) => Box::new(Archive::open(path)?.for_model(&files.model)),
            None => {
                let seeded = Seeded::new(&files.model, &files.layout, arguments.seed.wrapping_add(run))?;
                Box::new(
                    batches.iter().fold(seeded, |seeded, (name, joined)| seeded.shaped(name, &joined.shape)),
                )
            }
        })
    };
    let options = PlayOptions {
        poison_check: arguments.playing.poison_check,
        swap_folder: arguments.playing.swap_dir.clone(),
        clock: Some(nanoseconds),
        ..PlayOptions::default()
    };
    let started = nanoseconds();
    let played = play_sections(&runtime, &manifest, &parts, &feed, &options).map_err(refuse)?;
    let milliseconds = nanoseconds().saturating_sub(started) as f64 / 1e6;
    let results = named(played.outputs);
    if let Some(path) = &arguments.outputs {
        write(path, &results)?;
    }
    let digest = play::digest(&views(&results));
    let stated: BTreeMap<&str, &DeviceMemory> =
        manifest.devices.iter().map(|device| (device.name.as_str(), device)).collect();
    let rows = played.devices.iter().map(|device| {
        let (weights, planned) =
            stated.get(device.device.as_str()).map_or((0, 0), |stated| (stated.weights, stated.peak));
        let arenas = device.arenas();
        (device, arenas, weights.saturating_add(arenas).saturating_add(device.held), planned)
    });
    if arguments.json {
        let devices = rows.map(|(device, arenas, bytes, planned)| {
            json!({"device": device.device, "arena_used": arenas, "held": device.held, "bytes": bytes, "planned": planned,
                "bytes_outside": most(device, Played::bytes_outside), "workspace_beyond": most(device, Played::workspace_beyond),
                "run_ms": device.nanoseconds as f64 / 1e6})
        });
        let object = json!({"digest": digest, "devices": devices.collect::<Vec<_>>(), "sent": played.sent, "ms": milliseconds});
        return print(&format!("{object:#}\n"));
    }
    for (device, arenas, bytes, planned) in rows {
        voice.say(&format!(
            "{}: {} of {} planned: arenas {}, held values {}; workspace beyond the plan: at most {}",
            device.device,
            Bytes(bytes),
            Bytes(planned),
            Bytes(arenas),
            Bytes(device.held),
            Bytes(most(device, Played::workspace_beyond))
        ));
    }
    voice.say(&format!("{} sent, {milliseconds:.1} ms with preparation", Bytes(played.sent)));
    print(&format!("{digest}\n"))
}

/// Extents of the free dimensions: stated ones, those of the given inputs, and the largest of all others.
fn extents(
    arguments: &Run,
    manifest: &Manifest,
    files: &[SectionFiles],
) -> Result<BTreeMap<String, u64>, play::Error> {
    let ranges = &manifest.source.ranges;
    if let Some((name, extent)) = arguments.dims.iter().find(|(name, _)| !ranges.contains_key(name)) {
        let reason = "the manifest has no such free dimension".to_owned();
        return Err(play::Error::Extent { extents: format!("{name}={extent}"), reason });
    }
    let mut found: BTreeMap<String, u64> =
        ranges.iter().map(|(name, range)| (name.clone(), range.max)).collect();
    if let Some(path) = arguments.inputs.as_ref().filter(|_| !ranges.is_empty()) {
        let fed = manifest.values.iter().filter(|value| value.from.is_none());
        for (value, files) in fed.flat_map(|value| files.iter().map(move |files| (value, files))) {
            let archive = Archive::open(path)?.for_model(&files.model);
            let Some((texts, (_, shape))) = value.shape_expr.as_ref().zip(archive.kind(&value.name)) else {
                continue;
            };
            let axes = texts.iter().zip(shape).filter(|(text, _)| ranges.contains_key(*text));
            found.extend(axes.map(|(name, extent)| (name.clone(), *extent)));
        }
    }
    found.extend(arguments.dims.iter().cloned());
    Ok(found)
}

/// The most bytes of any section of a device.
fn most(device: &DeviceUse, bytes: impl Fn(&Played) -> u64) -> u64 {
    device.played.iter().map(bytes).max().unwrap_or(0)
}

/// Results by name; with several runs, `NAME@RUN`.
fn named(mut outputs: Vec<BTreeMap<String, Array>>) -> BTreeMap<String, Array> {
    if outputs.len() == 1 {
        return outputs.pop().unwrap_or_default();
    }
    let runs = outputs.into_iter().enumerate();
    runs.flat_map(|(run, results)| {
        results.into_iter().map(move |(name, array)| (format!("{name}@{run}"), array))
    })
    .collect()
}

fn write(path: &Path, results: &BTreeMap<String, Array>) -> Result<(), Error> {
    let mut outputs = Outputs::default();
    outputs.add(path, |out| npz::write(&views(results), out))?;
    outputs.commit()
}
