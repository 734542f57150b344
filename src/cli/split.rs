//! `memc split`: divides a model over devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use memc::{Devices, Error, Outputs, Sections, sha256};
use memc_ir::{Bytes, Nanos};
use memc_layout::devices::{self, Crossing, Event, Manifest, Schedule};
use memc_passes::Rewriting;

use super::args::{Rewrites, RuntimeArg, ScheduleArg, Split};
use super::weights::Elsewhere;
use super::{ExitCode, Failure, Outcome, Voice, open, target, usage};
use memc::Runtime;

/// Divides, plans and writes.
pub fn run(arguments: &Split, voice: &Voice) -> Outcome {
    let folder = &arguments.output;
    if folder.exists() && !folder.is_dir() {
        let message = format!("{} is a file, and sections need a folder", folder.display());
        return Err(usage(message, "name a folder: `-o DIR`"));
    }
    let file = open(&arguments.input)?;
    let mut request = arguments.inputs.request()?;
    request.runtime = match arguments.runtime {
        RuntimeArg::Arena => Runtime::Arena,
        RuntimeArg::Ort => Runtime::Ort,
        RuntimeArg::Player => Runtime::Player,
    };
    request.target = target(&arguments.target)?;
    request.effort = arguments.effort;
    let (enabled, exact) = (arguments.rewrite != Rewrites::None, arguments.rewrite != Rewrites::Any);
    request.rewrite = Rewriting { enabled, exact, ..Rewriting::default() };
    let devices = Devices {
        count: arguments.devices,
        budgets: arguments.device_budget.clone(),
        links: arguments.links.clone(),
        micro_batches: arguments.micro_batches,
        schedule: arguments.schedule.map(|schedule| match schedule {
            ScheduleArg::OneForwardOneBackward => Schedule::OneForwardOneBackward,
            ScheduleArg::Gpipe => Schedule::Gpipe,
        }),
    };
    let sections = memc::split(&file, &request, &devices)?;
    write(arguments, &sections)?;
    tell(&sections.manifest, voice);
    Ok(ExitCode::SUCCESS)
}

/// Writes all files, or none: a folder that did not exist is removed again.
fn write(arguments: &Split, sections: &Sections) -> Result<(), Failure> {
    let folder = &arguments.output;
    let is_new = !folder.exists();
    let told = |source| Error::File { what: "write", path: folder.clone(), source };
    fs::create_dir_all(folder).map_err(told)?;
    let written = write_into(folder, &arguments.input, sections);
    if written.is_err() && is_new {
        // It is empty, or another program has put files there.
        let _ = fs::remove_dir(folder);
    }
    Ok(written?)
}

fn write_into(folder: &Path, input: &Path, sections: &Sections) -> Result<(), Error> {
    let mut outputs = Outputs::default();
    let mut sent = BTreeSet::new();
    for (section, planned) in sections.manifest.sections.iter().zip(&sections.planned) {
        let model = folder.join(&section.model);
        outputs.add(&model, |out| planned.model.write_to(out))?;
        let text = memc_layout::to_json(&planned.layout)?;
        debug_assert_eq!(sha256(text.as_bytes()), section.layout_sha256);
        outputs.add(&folder.join(&section.layout), |out| out.write_all(text.as_bytes()))?;
        // Sections share weight files: each goes along once.
        let files = planned.model.weight_files.iter().filter(|name| sent.insert((*name).clone())).cloned().collect();
        Elsewhere::of(&files, input, &model).send_along(&mut outputs)?;
    }
    let text = devices::to_json(&sections.manifest)?;
    outputs.add(&folder.join("manifest.json"), |out| out.write_all(text.as_bytes()))?;
    outputs.commit()
}

/// Prints a line for each device, and what crosses.
fn tell(manifest: &Manifest, voice: &Voice) {
    for device in &manifest.devices {
        let sections = manifest.sections.iter().filter(|section| section.device == device.name);
        let nodes: BTreeSet<u64> = sections.flat_map(|section| section.nodes.iter().copied()).collect();
        if nodes.is_empty() {
            voice.say(&format!("{}: no section", device.name));
            continue;
        }
        let budget = device.budget.map_or_else(String::new, |budget| format!(" of {}", Bytes(budget)));
        voice.say(&format!(
            "{}: {} nodes, weights {}, arena {}, peak {}{budget}",
            device.name,
            nodes.len(),
            Bytes(device.weights),
            Bytes(device.arena),
            Bytes(device.peak)
        ));
    }
    // Every message of the program, or of one run if all runs have inputs of their own.
    let sizes: BTreeMap<&str, &Crossing> = manifest.values.iter().map(|value| (value.name.as_str(), value)).collect();
    let runs = if manifest.pipeline.is_some() { u64::MAX } else { 0 };
    let (mut count, mut bytes) = (0_u64, 0_u64);
    for event in manifest.program.values().flatten() {
        if let Event::Send { value, micro_batch, .. } = event
            && *micro_batch <= runs
            && let Some(value) = sizes.get(value.as_str())
        {
            let joined = value.joined.as_ref().filter(|_| *micro_batch == manifest.micro_batches);
            count += 1;
            bytes = bytes.saturating_add(joined.map_or(value.bytes, |joined| joined.bytes));
        }
    }
    let slowest = manifest.links.iter().map(|link| link.bytes_per_second).fold(f64::INFINITY, f64::min);
    let time = Nanos(if count == 0 { 0.0 } else { bytes as f64 / slowest * 1e9 });
    let of = if manifest.pipeline.is_some() { "a step" } else { "a run" };
    voice.say(&format!("{count} values cross in {of}, {} ({:.3} ms on the slowest link)", Bytes(bytes), time.0 / 1e6));
}
