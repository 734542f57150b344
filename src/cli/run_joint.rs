//! `memc run --joint JOINT.json`: plays all members of a joint file in its arenas.

use std::collections::BTreeMap;
use std::path::Path;

use memc::{Outputs, joint_files, read_joint};
use memc_check::joint::MemberFiles;
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_layout::Layout;
use memc_layout::joint::{Joint, Mode};
use memc_ort as play;
use play::inputs::{Inputs, Seeded};
use play::{Array, JointPart, PlayOptions, Point, Turns, npz, play_joint, views};
use serde_json::json;

use super::args::Run;
use super::playing::{load, nanoseconds, refuse};
use super::{ExitCode, Failure, Outcome, Voice, print, usage};

/// Plays a joint file, and prints the memory of the joint arenas and a digest for each member.
pub fn run(arguments: &Run, path: &Path, voice: &Voice) -> Outcome {
    if !arguments.dims.is_empty() || arguments.repeat > 1 || arguments.inputs.is_some() {
        let help = "leave out `--dim`, `--repeat` and `--inputs`: members run at their largest extents, on inputs from `--seed`";
        return Err(usage("the members of a joint file have inputs of their own".to_owned(), help));
    }
    let joint = read_joint(path)?;
    let files = joint_files(path, &joint)?;
    let runtime = load(arguments.playing.library.ort_lib.as_deref())?;
    let layouts = files.iter().map(largest).collect::<Result<Vec<Layout>, _>>().map_err(refuse)?;
    let parts: Vec<JointPart<'_>> =
        files.iter().zip(&layouts).map(|(files, layout)| JointPart { model: &files.model, layout }).collect();
    let feed = |member: usize| -> Result<Box<dyn Inputs>, play::Error> {
        Ok(Box::new(Seeded::new(&files[member].model, &layouts[member], arguments.seed)?))
    };
    let options = PlayOptions {
        poison_check: arguments.playing.poison_check,
        swap_folder: arguments.playing.swap_dir.clone(),
        clock: Some(nanoseconds),
        ..PlayOptions::default()
    };
    let started = nanoseconds();
    let guests = boundaries(&joint, arguments.guest_runs, arguments.seed);
    let turns = Turns { guests, periods: u64::from(arguments.periods), seed: arguments.seed };
    let played = play_joint(&runtime, &joint, &parts, &feed, &turns, &options).map_err(refuse)?;
    let milliseconds = nanoseconds().saturating_sub(started) as f64 / 1e6;
    if let Some(path) = &arguments.outputs {
        let all = played.members.iter().flat_map(|member| {
            member
                .outputs
                .iter()
                .map(|(name, array)| Ok((format!("{}.{name}", member.name), Array::of(&array.view())?)))
        });
        let all = all.collect::<Result<BTreeMap<String, Array>, play::Error>>().map_err(refuse)?;
        let mut outputs = Outputs::default();
        outputs.add(path, |out| npz::write(&views(&all), out))?;
        outputs.commit()?;
    }
    // A member that runs again on equal inputs gives equal results, wherever it runs.
    let differing =
        played.members.iter().find(|member| member.digests.windows(2).any(|pair| pair[0] != pair[1]));
    if let Some(member) = differing {
        let text = format!("{}: two runs on equal inputs gave different results", member.name);
        let help = "the model draws random numbers, or the joint file is wrong: `memc check --joint` tells";
        return Err(Failure {
            diagnostics: vec![Diagnostic::new("E0708", Severity::Error, text).with_help(help)],
            code: 1,
        });
    }
    if arguments.json {
        let members = played.members.iter().map(|member| {
            json!({"name": member.name, "digest": member.digests.first(), "runs": member.digests.len(), "after": member.after,
                "bytes_outside": member.played.bytes_outside(), "workspace_beyond": member.played.workspace_beyond(),
                "run_ms": member.played.nanoseconds as f64 / 1e6})
        });
        let arenas = played
            .arenas
            .iter()
            .map(|arena| json!({"space": arena.space, "planned": arena.planned, "used": arena.used}));
        let object = json!({"members": members.collect::<Vec<_>>(), "arenas": arenas.collect::<Vec<_>>(), "ms": milliseconds});
        return print(&format!("{object:#}\n"));
    }
    for arena in played.arenas.iter().filter(|arena| arena.planned > 0) {
        voice.say(&format!(
            "{}: {} used of {} planned",
            arena.space,
            Bytes(arena.used),
            Bytes(arena.planned)
        ));
    }
    for member in &played.members {
        let beyond = member.played.workspace_beyond();
        let times = if member.digests.len() == 1 {
            "once".to_owned()
        } else {
            format!("{} times", member.digests.len())
        };
        voice.say(&format!(
            "{}: ran {times}; workspace beyond the plan: at most {}",
            member.name,
            Bytes(beyond)
        ));
    }
    voice.say(&format!("{milliseconds:.1} ms with preparation"));
    let lines = played
        .members
        .iter()
        .filter_map(|member| Some(format!("{} {}\n", member.digests.first()?, member.name)));
    print(&lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// The layout of a member at its largest extents.
fn largest(files: &MemberFiles) -> Result<Layout, play::Error> {
    let extents = files.layout.model.ranges.iter().map(|(name, range)| (name.clone(), range.max)).collect();
    play::point::at(&files.layout, &Point(extents))
}

/// Boundaries at which guests run: for each guest a number of them, spread over all that admit it, and moved
/// by the seed.
fn boundaries(joint: &Joint, count: u32, seed: u64) -> Vec<(u64, usize)> {
    if joint.mode != Mode::Nested {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (member, row) in joint.members.iter().enumerate().skip(1) {
        let runs = joint.admissions.iter().filter(|run| run.guest == row.name);
        let all: Vec<u64> = runs.flat_map(|run| run.after[0]..=run.after[1]).collect();
        let count = u64::from(count).min(all.len() as u64);
        for number in 0..count {
            // The middle of each of `count` equal parts, moved within its part.
            let width = (all.len() as u64 / count).max(1);
            let at = number.saturating_mul(all.len() as u64) / count + (width / 2 + seed) % width;
            found.extend(usize::try_from(at).ok().and_then(|at| all.get(at)).map(|after| (*after, member)));
        }
    }
    found.sort_unstable();
    found
}
