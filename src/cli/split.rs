//! `memc split`: divides a model over devices.

use std::fs;
use std::path::Path;

use memc::{Devices, Error, Outputs, Sections, sha256};
use memc_ir::{Bytes, Nanos};
use memc_layout::devices::{self, Manifest};
use memc_passes::Rewriting;

use super::args::{Rewrites, RuntimeArg, Split};
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
    let mut sent = std::collections::BTreeSet::new();
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
        let section = manifest.sections.iter().find(|section| section.device == device.name);
        let Some(section) = section else {
            voice.say(&format!("{}: no section", device.name));
            continue;
        };
        let budget = device.budget.map_or_else(String::new, |budget| format!(" of {}", Bytes(budget)));
        voice.say(&format!(
            "{}: {} nodes, weights {}, arena {}, peak {}{budget}",
            device.name,
            section.nodes.len(),
            Bytes(device.weights),
            Bytes(device.arena),
            Bytes(device.peak)
        ));
    }
    let crossing = manifest.values.iter().filter(|value| value.from.is_some() && !value.to.is_empty());
    let (mut count, mut bytes) = (0_u64, 0_u64);
    for value in crossing {
        count += value.to.len() as u64;
        bytes = bytes.saturating_add(value.bytes.saturating_mul(value.to.len() as u64));
    }
    let slowest = manifest.links.iter().map(|link| link.bytes_per_second).fold(f64::INFINITY, f64::min);
    let time = Nanos(if count == 0 { 0.0 } else { bytes as f64 / slowest * 1e9 });
    voice.say(&format!("{count} values cross in a run, {} ({:.3} ms on the slowest link)", Bytes(bytes), time.0 / 1e6));
}
