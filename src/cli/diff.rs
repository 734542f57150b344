//! `memc diff`.

use memc_report::Changes;

use super::args::Diff;
use super::report::read_layout;
use super::{ExitCode, Outcome, Voice, print};

/// Compares two layouts. Like `diff`, it ends with 0 if they are the same, and with 1 if they differ.
pub fn run(arguments: &Diff, voice: &Voice) -> Outcome {
    let (before, after) = (read_layout(&arguments.before)?, read_layout(&arguments.after)?);
    let changes = Changes::of(&before, &after);
    if before.memc_version != after.memc_version {
        voice.say(&format!(
            "remark: memc {} and memc {} wrote the layouts",
            before.memc_version, after.memc_version
        ));
    }
    print(&if arguments.json { changes.json() } else { changes.text() })?;
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
