//! Files: hashes, and names that other parts of the manifest refer to.

use std::collections::BTreeSet;

use memc_layout::devices::{Manifest, Section};
use memc_onnx_proto::ModelFile;

use super::SectionFiles;
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::header::sha256;

/// The model that was divided in place of the given one is the one that the manifest names.
pub(super) fn prepared(files: Option<&SectionFiles>, manifest: &Manifest, findings: &mut Findings) {
    let mut add = |message: String| findings.add(Kind::SectionFile, At::default(), message);
    match (&manifest.source.prepared, files) {
        (None, None) => {}
        (Some(stated), Some(files)) => {
            compare(&stated.model, &stated.model_sha256, files.model.bytes()).into_iter().for_each(&mut add);
            compare(&stated.layout, &stated.layout_sha256, files.text.as_bytes())
                .into_iter()
                .for_each(&mut add);
        }
        (Some(stated), None) => {
            add(format!("the files of `{}`, which was divided, were not given", stated.model))
        }
        (None, Some(_)) => {
            add("the manifest names no model that was divided in place of the given one".to_owned())
        }
    }
}

fn compare(what: &str, stated: &str, bytes: &[u8]) -> Option<String> {
    let found = sha256(bytes);
    (!stated.eq_ignore_ascii_case(&found))
        .then(|| format!("the manifest states `{stated}` for {what}, which has `{found}`"))
}

pub(super) fn check(
    given: &ModelFile,
    manifest: &Manifest,
    sections: &[SectionFiles],
    findings: &mut Findings,
) {
    let mut add = |message: String| findings.add(Kind::SectionFile, At::default(), message);
    compare("the given model", &manifest.source.sha256, given.bytes()).into_iter().for_each(&mut add);
    if manifest.sections.len() != sections.len() {
        add(format!(
            "the manifest has {} sections; files of {} were given",
            manifest.sections.len(),
            sections.len()
        ));
    }
    for (section, files) in manifest.sections.iter().zip(sections) {
        compare(&section.model, &section.model_sha256, files.model.bytes()).into_iter().for_each(&mut add);
        compare(&section.layout, &section.layout_sha256, files.text.as_bytes())
            .into_iter()
            .for_each(&mut add);
        if files.layout.model.output_sha256 != section.model_sha256 {
            add(format!("{} is the layout of another model than {}", section.layout, section.model));
        }
    }
    let names: BTreeSet<&str> = manifest.devices.iter().map(|device| device.name.as_str()).collect();
    if names.len() != manifest.devices.len() {
        add("two devices have one name".to_owned());
    }
    let with_section = manifest.sections.iter().flat_map(Section::devices);
    let with_section: BTreeSet<&str> = with_section.map(String::as_str).collect();
    if manifest.pipeline.is_none() && with_section.len() != manifest.sections.len() {
        add("two sections are on one device".to_owned());
    }
    let sections: BTreeSet<&str> = manifest.sections.iter().map(Section::name).collect();
    if sections.len() != manifest.sections.len() {
        add("two sections have one name".to_owned());
    }
    let with_program: BTreeSet<&str> = manifest.program.keys().map(String::as_str).collect();
    if with_program != with_section {
        add("the devices with a section are not those with a program".to_owned());
    }
    let values: BTreeSet<&str> = manifest.values.iter().map(|value| value.name.as_str()).collect();
    if values.len() != manifest.values.len() {
        add("two values have one name".to_owned());
    }
    let ends = manifest.values.iter().flat_map(|value| value.from.iter().chain(&value.to));
    let unknown = ends.into_iter().find(|name| !sections.contains(name.as_str()));
    unknown.into_iter().for_each(|name| add(format!("there is no section `{name}`")));
    let used = manifest.sections.iter().flat_map(|section| section.devices().iter().chain([&section.device]));
    let used = used.chain(manifest.collectives.iter().flat_map(|row| row.devices.iter().chain(&row.root)));
    let used = used.chain(manifest.links.iter().flat_map(|link| [&link.from, &link.to]));
    let used = used.chain(manifest.copies.iter().flat_map(|copy| &copy.devices));
    used.filter(|name| !names.contains(name.as_str()))
        .take(1)
        .for_each(|name| add(format!("there is no device `{name}`")));
    if manifest.micro_batches == 0 {
        add("the program runs the model 0 times".to_owned());
    }
}
