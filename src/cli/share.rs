//! `memc share`: several planned models in one memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use memc::{
    AtOnce, Error, Outputs, Sequence, ShareMember, ShareTable, complete_joint, share_nested, share_phased,
    share_serial, share_table,
};
use memc_ir::Bytes;
use memc_layout::joint::{self, Joint, Mode};
use serde_json::json;

use super::share_args::Share;
use super::{ExitCode, Failure, Outcome, Voice, print, usage};

/// Largest number of pairs of members that are printed.
const MAX_PAIRS: usize = 30;

/// Reads layouts, and prints a table or writes a joint file.
pub fn run(arguments: &Share, voice: &Voice) -> Outcome {
    let members = members(arguments)?;
    if !arguments.serial && !arguments.phased && arguments.nested.is_empty() {
        if arguments.output.is_some() {
            return Err(usage(
                "a joint file needs a mode".to_owned(),
                "add `--serial`, `--phased`, or `--nested host=A guest=B`",
            ));
        }
        let table = share_table(&members).map_err(Error::from)?;
        let text = if arguments.json { format!("{:#}\n", json(&table)) } else { text(&table) };
        return print(&text);
    }
    let mut at_once = AtOnce::default();
    let mut joint = if arguments.serial {
        let sequence = Sequence {
            handoffs: arguments.handoffs.clone(),
            repeats: arguments.repeats.clone(),
            keep_offsets: arguments.keep_offsets,
            effort: arguments.effort,
        };
        share_serial(&members, &sequence).map_err(Error::from)?
    } else if arguments.phased {
        let joint;
        (joint, at_once) =
            share_phased(&members, arguments.keep_offsets, arguments.effort).map_err(Error::from)?;
        joint
    } else {
        share_nested(&members, arguments.keep_offsets, arguments.effort).map_err(Error::from)?
    };
    if let Some(path) = &arguments.output {
        let given: BTreeMap<String, PathBuf> = arguments.given.iter().cloned().collect();
        complete_joint(&mut joint, &members, path, &given)?;
        let text = joint::to_json(&joint).map_err(Error::from)?;
        let mut outputs = Outputs::default();
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
        if let Some(header) = &arguments.header {
            outputs.add(header, |out| out.write_all(joint::to_c_header(&joint).as_bytes()))?;
        }
        outputs.commit()?;
    }
    tell(&joint, &members, arguments.output.is_some(), voice);
    if joint.mode == Mode::Phased {
        tell_phase(&joint, at_once, voice);
    }
    if arguments.json {
        return print(&joint::to_json(&joint).map_err(Error::from)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the members; with `--nested`, the host comes first.
fn members(arguments: &Share) -> Result<Vec<ShareMember>, Failure> {
    let mut members = Vec::new();
    for words in &arguments.members {
        members.push(ShareMember::open(words)?);
    }
    if arguments.nested.is_empty() {
        return Ok(members);
    }
    let (mut hosts, mut guests) = (Vec::new(), Vec::new());
    for words in &arguments.nested {
        let (role, name) = words.split_once('=').unwrap_or(("", words));
        let known = members.iter().find(|member| member.name == name).cloned();
        let member = || known.map_or_else(|| ShareMember::open(name).map_err(Failure::from), Ok);
        match role {
            "host" => hosts.push(member()?),
            "guest" => guests.push(member()?),
            _ => {
                return Err(usage(
                    format!("`{words}` is neither host=A nor guest=B"),
                    "write `--nested host=A guest=B`",
                ));
            }
        }
    }
    if hosts.len() != 1 || guests.is_empty() {
        return Err(usage(
            format!("{} hosts and {} guests", hosts.len(), guests.len()),
            "name one host and at least one guest",
        ));
    }
    hosts.extend(guests);
    Ok(hosts)
}

/// The table as JSON.
fn json(table: &ShareTable) -> serde_json::Value {
    let space = |row: &memc::SpaceUse| json!({"space": row.space, "arena": row.arena, "peak": row.peak, "mean": row.mean, "mean_hole": row.hole});
    let members = table.members.iter().map(|row| {
        json!({"name": row.name, "spaces": row.spaces.iter().map(space).collect::<Vec<_>>(), "state": row.state,
            "caller": row.caller, "weights": row.weights, "steps": row.steps, "ns": row.nanoseconds})
    });
    let pairs = table.pairs.iter().map(|pair| {
        json!({"host": pair.host, "guest": pair.guest, "boundaries": pair.boundaries, "all": pair.all, "wait_ns": pair.wait,
            "at_once": pair.at_once, "at_once_bound": pair.at_once_bound})
    });
    json!({"members": members.collect::<Vec<_>>(), "pairs": pairs.collect::<Vec<_>>()})
}

/// The table of all members and pairs.
fn text(table: &ShareTable) -> String {
    let mut text = String::new();
    let width = table.members.iter().map(|row| row.name.len()).max().unwrap_or(0).max(8);
    let size = |bytes: u64| Bytes(bytes).to_string();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<width$}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}",
        "member", "arena", "peak", "mean", "mean hole", "state", "caller", "weights"
    );
    let (mut sum, mut largest) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for row in &table.members {
        for (number, space) in row.spaces.iter().enumerate() {
            let name = if number == 0 { row.name.clone() } else { format!("  {}", space.space) };
            let own = |bytes: u64| if number == 0 { size(bytes) } else { String::new() };
            let _ = writeln!(
                text,
                "{name:<width$}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}",
                size(space.arena),
                size(space.peak),
                size(space.mean),
                size(space.hole),
                own(row.state),
                own(row.caller),
                own(row.weights)
            );
            let entry = sum.entry(&space.space).or_default();
            *entry = entry.saturating_add(space.arena);
            let entry = largest.entry(&space.space).or_default();
            *entry = (*entry).max(space.arena);
        }
    }
    let all =
        |of: fn(&memc::ShareUse) -> u64| size(table.members.iter().map(of).fold(0, u64::saturating_add));
    for (space, sum) in &sum {
        let name = if sum_is_of_first(table, space) { "sum".to_owned() } else { format!("sum, {space}") };
        let _ = writeln!(
            text,
            "{name:<width$}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}",
            size(*sum),
            "",
            "",
            "",
            all(|row| row.state),
            all(|row| row.caller),
            all(|row| row.weights)
        );
        let _ =
            writeln!(text, "{:<width$}  {:>11}", "largest", size(largest.get(space).copied().unwrap_or(0)));
    }
    let _ = writeln!(text, "\nOne after another (`--serial`), the members need the largest arena.");
    for pair in table.pairs.iter().take(MAX_PAIRS) {
        let share = 100.0 * pair.boundaries as f64 / (pair.all.max(1)) as f64;
        let wait = if pair.boundaries > 0 && pair.wait > 0 {
            format!(", longest wait {}", milliseconds(pair.wait))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{} inside {}: fits at {} of {} boundaries ({share:.1} %) at +0 B{wait}",
            pair.guest, pair.host, pair.boundaries, pair.all
        );
    }
    if table.pairs.len() > MAX_PAIRS {
        let _ = writeln!(text, "... and {} more pairs", table.pairs.len() - MAX_PAIRS);
    }
    for pair in table.pairs.iter().filter(|pair| pair.at_once > 0).take(MAX_PAIRS) {
        let _ = writeln!(
            text,
            "{} and {} at once, in their best phase: {} in use, at least {} at any shift",
            pair.host,
            pair.guest,
            size(pair.at_once),
            size(pair.at_once_bound)
        );
    }
    text
}

/// Whether a space is the first one of the members.
fn sum_is_of_first(table: &ShareTable, space: &str) -> bool {
    table.members.iter().all(|row| row.spaces.first().is_none_or(|first| first.space == space))
}

/// Says how large the joint arenas are, and what is shared.
fn tell(joint: &Joint, members: &[ShareMember], is_complete: bool, voice: &Voice) {
    for arena in joint.arenas.iter().filter(|arena| arena.sum_alone > 0) {
        voice.say(&format!(
            "{}: joint arena {}, largest {}, sum {}, bound {}",
            arena.space,
            Bytes(arena.size),
            Bytes(arena.max_alone),
            Bytes(arena.sum_alone),
            Bytes(arena.bound)
        ));
    }
    for handoff in &joint.handoffs {
        let place = match (&handoff.space, handoff.offset) {
            (Some(space), Some(offset)) => format!("at byte {offset} of {space}"),
            _ => "in a buffer of the caller".to_owned(),
        };
        let (from, to) = (&handoff.from, &handoff.to);
        voice.say(&format!(
            "{}.{} is {}.{}: {} {place}",
            from.member,
            from.tensor,
            to.member,
            to.tensor,
            Bytes(handoff.bytes)
        ));
    }
    if joint.mode == Mode::Nested {
        let all = members.first().map_or(0, |host| host.layout.schedule.len().saturating_sub(1));
        for guest in members.iter().skip(1) {
            let runs = joint.admissions.iter().filter(|run| run.guest == guest.name);
            let (mut boundaries, mut count) = (0, 0);
            for run in runs {
                boundaries += run.after[1].saturating_sub(run.after[0]) + 1;
                count += 1;
            }
            let share = 100.0 * boundaries as f64 / all.max(1) as f64;
            voice.say(&format!(
                "{}: fits at {boundaries} of {all} boundaries ({share:.1} %), in {count} runs of one place",
                guest.name
            ));
        }
        if joint.members.first().is_some_and(|host| !host.offsets.is_empty()) {
            voice.say("the host is placed around its largest guest");
        }
    }
    if is_complete {
        voice.say(&format!(
            "weights: {} with shared ones once, sum {}",
            Bytes(joint.weights_joint),
            Bytes(joint.weights_sum)
        ));
    }
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", nanoseconds as f64 / 1e6)
}

/// Says how members run at once, and what it saves.
fn tell_phase(joint: &Joint, at_once: AtOnce, voice: &Voice) {
    for member in joint.members.iter().filter(|member| member.runs > 1) {
        voice.say(&format!("{}: runs {} times in a period", member.name, member.runs));
    }
    let Some(arena) = joint.arenas.iter().find(|arena| arena.sum_alone > 0) else { return };
    if joint.sync.is_empty() {
        voice.say("no bytes are shared: the members lie side by side, and run without waits");
        return;
    }
    let above = 100.0 * arena.size.saturating_sub(at_once.load) as f64 / at_once.load.max(1) as f64;
    let share = 100.0 * arena.size as f64 / arena.sum_alone as f64;
    voice.say(&format!(
        "{}: {share:.1} % of the sum; modelled {} in use at once (the arena is {above:.1} % above), {} after {} of a period of {}",
        arena.space,
        Bytes(at_once.load),
        joint.members.last().map_or("", |member| &member.name),
        milliseconds(at_once.shift),
        milliseconds(at_once.period)
    ));
    voice
        .say(&format!("{} waits keep the bytes of both apart, whatever time a step takes", joint.sync.len()));
}
