//! `memc check`.

use memc::{Error, Weights};
use memc_onnx_proto::ModelFile;
use serde_json::json;

use super::args::Check;
use super::{ExitCode, Outcome, Voice, print, say, usage};
use memc::read;

/// Largest number of printed violations; the others are counted.
const MAX_FINDINGS: usize = 50;

/// Verifies a plan from the files alone.
pub fn run(arguments: &Check, voice: &Voice) -> Outcome {
    let given = ModelFile::open(&arguments.input).map_err(Error::from)?;
    let is_manifest = arguments.output.extension().is_some_and(|extension| extension == "json");
    let report = match &arguments.layout {
        None if is_manifest => memc::check_manifest(&given, &arguments.output)?,
        Some(path) if !is_manifest => {
            let out = ModelFile::open(&arguments.output).map_err(Error::from)?;
            let layout = memc_layout::read(&read(path)?).map_err(|source| Error::Layout { path: path.clone(), source })?;
            Weights::beside(&given, &out).check(&given, &out, &layout)
        }
        None => {
            return Err(usage(
                "a planned model is checked with its layout".to_owned(),
                "name it: memc check IN.onnx OUT.onnx OUT.layout.json",
            ));
        }
        Some(_) => {
            return Err(usage(
                "a manifest names its layouts".to_owned(),
                "leave out the layout: memc check IN.onnx DIR/manifest.json",
            ));
        }
    };
    if arguments.json {
        let violations = report.violations.iter().map(|violation| {
            json!({"kind": violation.kind.name(), "tensor": violation.tensor, "step": violation.step, "text": violation.diagnostic.message})
        });
        let object = json!({"ok": report.holds(), "proven": report.is_proven(), "violations": violations.collect::<Vec<_>>(), "remarks": report.remarks, "summary": report.summary});
        print(&format!("{object:#}\n"))?;
    }
    for violation in report.violations.iter().take(MAX_FINDINGS) {
        say(&violation.diagnostic.to_string());
    }
    for remark in &report.remarks {
        voice.say(&format!("remark: {remark}"));
    }
    let count = report.violations.len();
    voice.say(&match count {
        0 if !report.is_proven() => "check: nothing wrong, but equality is unproven: compare by `memc verify`".to_owned(),
        0 => "check: nothing wrong".to_owned(),
        1 => "check: 1 violation".to_owned(),
        count => format!("check: {count} violations"),
    });
    Ok(match count {
        0 if report.is_proven() => ExitCode::SUCCESS,
        0 => ExitCode::UNPROVEN,
        _ => ExitCode::from(1),
    })
}
