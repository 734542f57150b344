//! `memc check`.

use memc::{Error, Weights};
use memc_check::Report;
use memc_onnx_proto::ModelFile;
use serde_json::json;

use super::args::Check;
use super::{ExitCode, Failure, Outcome, Voice, print, say, usage};
use memc::read;

/// Largest number of printed violations; the others are counted.
const MAX_FINDINGS: usize = 50;

/// Verifies a plan from the files alone.
pub fn run(arguments: &Check, voice: &Voice) -> Outcome {
    let report = report(arguments)?;
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
        0 if !report.is_proven() => {
            "check: nothing wrong, but equality is unproven: compare by `memc verify`".to_owned()
        }
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

/// Checks a plan, a manifest, or a joint file.
fn report(arguments: &Check) -> Result<Report, Failure> {
    let (input, output) = match (&arguments.joint, &arguments.input, &arguments.output) {
        (Some(joint), ..) => return Ok(memc::check_joint(joint)?),
        (None, Some(input), Some(output)) => (input, output),
        _ => {
            let help = "memc check IN.onnx OUT.onnx OUT.layout.json";
            return Err(usage("a plan is checked with both of its models".to_owned(), help));
        }
    };
    let given = ModelFile::open(input).map_err(Error::from)?;
    let is_manifest = output.extension().is_some_and(|extension| extension == "json");
    match &arguments.layout {
        None if is_manifest => Ok(memc::check_manifest(&given, output)?),
        Some(path) if !is_manifest => {
            let out = ModelFile::open(output).map_err(Error::from)?;
            let layout = memc_layout::read(&read(path)?)
                .map_err(|source| Error::Layout { path: path.clone(), source })?;
            Ok(Weights::beside(&given, &out).check(&given, &out, &layout))
        }
        None => Err(usage(
            "a planned model is checked with its layout".to_owned(),
            "name it: memc check IN.onnx OUT.onnx OUT.layout.json",
        )),
        Some(_) => Err(usage(
            "a manifest names its layouts".to_owned(),
            "leave out the layout: memc check IN.onnx DIR/manifest.json",
        )),
    }
}
