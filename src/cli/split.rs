//! `memc split`: divides a model over devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use memc::{Devices, Error, Outputs, Sections, sha256};
use memc_ir::{Bytes, Nanos};
use memc_layout::devices::{self, Crossing, Event, Manifest, Order, Schedule};
use memc_passes::Rewriting;

use super::cluster::{self, Cluster};
use super::split_args::{Rewrites, ScheduleArg, Split, SumsArg};
use super::weights::Elsewhere;
use super::{ExitCode, Failure, Outcome, Voice, open, target, usage};

/// Divides, plans and writes.
pub fn run(arguments: &Split, voice: &Voice) -> Outcome {
    let folder = &arguments.output;
    if folder.exists() && !folder.is_dir() {
        let message = format!("{} is a file, and sections need a folder", folder.display());
        return Err(usage(message, "name a folder: `-o DIR`"));
    }
    let file = open(&arguments.input)?;
    let mut request = arguments.inputs.request()?;
    request.runtime = arguments.runtime;
    let cluster = cluster(arguments)?;
    request.target = target(cluster.target.as_deref().unwrap_or(&arguments.target))?;
    request.effort = arguments.effort;
    let (enabled, exact) = (arguments.rewrite != Rewrites::None, arguments.rewrite != Rewrites::Any);
    request.rewrite = Rewriting { enabled, exact, ..Rewriting::default() };
    request.alias_state = arguments.alias_state;
    request.state.clone_from(&arguments.state);
    request.external_data.clone_from(&arguments.external_data);
    let devices = Devices {
        count: cluster.devices,
        budgets: if arguments.device_budget.is_empty() {
            cluster.budgets
        } else {
            arguments.device_budget.clone()
        },
        links: if arguments.links.is_empty() { cluster.links } else { arguments.links.clone() },
        micro_batches: arguments.micro_batches,
        schedule: arguments.schedule.map(|schedule| match schedule {
            ScheduleArg::OneForwardOneBackward => Schedule::OneForwardOneBackward,
            ScheduleArg::Gpipe => Schedule::Gpipe,
            ScheduleArg::Data => Schedule::Data,
        }),
        sums: match arguments.sums {
            SumsArg::Index => Order::Index,
            SumsArg::Engine => Order::Engine,
        },
        shard_state: arguments.shard_state,
    };
    let sections = memc::split(&file, &request, &devices)?;
    write(arguments, &sections)?;
    tell(&sections.manifest, voice);
    Ok(ExitCode::SUCCESS)
}

/// The devices: of the options, or of the file of a cluster.
fn cluster(arguments: &Split) -> Result<Cluster, Failure> {
    let path = Path::new(&arguments.target);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    let found = if is_file { cluster::parse(path, &memc::read(path)?)? } else { None };
    match (found, arguments.devices) {
        (Some(cluster), Some(devices)) if cluster.devices != devices => {
            let message = format!("`--devices {devices}`, and {} states {}", path.display(), cluster.devices);
            Err(usage(message, "leave out `--devices`"))
        }
        (Some(cluster), _) => Ok(cluster),
        (None, Some(devices)) => Ok(Cluster { devices, ..Cluster::default() }),
        (None, None) => Err(usage("the number of devices is not stated".to_owned(), "write `--devices 2`")),
    }
}

/// Writes all files, or none: a folder that did not exist is removed again.
fn write(arguments: &Split, sections: &Sections) -> Result<(), Failure> {
    let folder = &arguments.output;
    let is_new = !folder.exists();
    let told = |source| Error::File { what: "write", path: folder.clone(), source };
    fs::create_dir_all(folder).map_err(told)?;
    let written = write_into(arguments, sections);
    if written.is_err() && is_new {
        // It is empty, or another program has put files there.
        let _ = fs::remove_dir(folder);
    }
    Ok(written?)
}

fn write_into(arguments: &Split, sections: &Sections) -> Result<(), Error> {
    let (folder, input, external) = (&arguments.output, &arguments.input, &arguments.external_data);
    let mut outputs = Outputs::default();
    let mut sent = BTreeSet::new();
    for (section, planned) in sections.manifest.sections.iter().zip(&sections.planned) {
        let model = folder.join(&section.model);
        outputs.add(&model, |out| planned.model.write_to(out))?;
        let text = memc_layout::to_json(&planned.layout)?;
        debug_assert_eq!(sha256(text.as_bytes()), section.layout_sha256);
        outputs.add(&folder.join(&section.layout), |out| out.write_all(text.as_bytes()))?;
        // Sections share weight files: each goes along once.
        let files =
            planned.model.weight_files.iter().filter(|name| sent.insert((*name).clone())).cloned().collect();
        Elsewhere::of(&files, input, &model).send_along(&mut outputs)?;
        if let Some(external) = external {
            external.of_model(section.name()).add_to(&mut outputs, planned, input, &model)?;
        }
    }
    if let Some((stated, planned)) =
        sections.manifest.source.prepared.as_ref().zip(sections.prepared.as_ref())
    {
        let model = folder.join(&stated.model);
        outputs.add(&model, |out| planned.model.write_to(out))?;
        let text = memc_layout::to_json(&planned.layout)?;
        outputs.add(&folder.join(&stated.layout), |out| out.write_all(text.as_bytes()))?;
        let files =
            planned.model.weight_files.iter().filter(|name| sent.insert((*name).clone())).cloned().collect();
        Elsewhere::of(&files, input, &model).send_along(&mut outputs)?;
    }
    let text = devices::to_json(&sections.manifest)?;
    outputs.add(&folder.join("manifest.json"), |out| out.write_all(text.as_bytes()))?;
    outputs.commit()
}

/// Prints a line for each device, and what crosses.
fn tell(manifest: &Manifest, voice: &Voice) {
    for device in &manifest.devices {
        let sections = manifest.sections.iter().filter(|section| section.runs_on(&device.name));
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
    let sizes: BTreeMap<&str, &Crossing> =
        manifest.values.iter().map(|value| (value.name.as_str(), value)).collect();
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
    if !manifest.collectives.is_empty() {
        let whole = |value: &&Crossing| value.joined.as_ref().map_or(value.bytes, |joined| joined.bytes);
        let bytes =
            manifest.collectives.iter().filter_map(|row| sizes.get(row.value.as_str())).map(whole).sum();
        voice.say(&format!(
            "{} values are joined or sent by all devices in a step, {}",
            manifest.collectives.len(),
            Bytes(bytes)
        ));
        return;
    }
    let slowest = manifest.links.iter().map(|link| link.bytes_per_second).fold(f64::INFINITY, f64::min);
    let time = Nanos(if count == 0 { 0.0 } else { bytes as f64 / slowest * 1e9 });
    let of = if manifest.pipeline.is_some() { "a step" } else { "a run" };
    voice.say(&format!(
        "{count} values cross in {of}, {} ({:.3} ms on the slowest link)",
        Bytes(bytes),
        time.0 / 1e6
    ));
}
