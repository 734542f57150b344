//! A joint file as a C header: joint arenas, first bytes of members, offsets of members that were placed
//! anew, values that are handed over, boundaries at which guests run, and waits.

use std::fmt::Write as _;

use super::types::{Joint, Mode, Moment};
use crate::c_header::literal;
use crate::identifiers::{Identifiers, c_string, comment};

/// Returns the joint file as macros of a C99 (or C++) header without includes. Names of members and spaces
/// become upper-case identifiers, made unique by a number.
///
/// - `MEMC_JOINT_<SPACE>_SIZE` and `_ALIGNMENT`, in bytes, for each joint arena.
/// - `MEMC_JOINT_<MEMBER>_<SPACE>_BASE`: to be added to all offsets of a member in this space. A member that
///   was placed anew has `MEMC_JOINT_<MEMBER>_<TENSOR>_OFFSET` for each tensor that owns bytes instead.
/// - `MEMC_JOINT_HANDOFF_<N>_OFFSET` and `_SIZE`, for each value that is handed over in an arena.
/// - With `MEMC_TABLES` defined, constant arrays: `memc_joint_admissions` (guest, first and last step of the
///   host, first byte of the guest's arena) and `memc_joint_waits`. Members are numbered in the order of the
///   file, and spaces in that of its arenas.
///
/// O(offsets + admissions + waits).
pub fn to_c_header(joint: &Joint) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_header(joint, &mut text);
    text
}

fn write_header(joint: &Joint, text: &mut String) -> std::fmt::Result {
    let mut names = Identifiers::default();
    writeln!(
        text,
        "/* Several models in one memory ({}), made by memc {}. */",
        joint.mode.as_str(),
        comment(&joint.memc_version)
    )?;
    writeln!(text, "#ifndef MEMC_JOINT_H\n#define MEMC_JOINT_H\n")?;
    for arena in &joint.arenas {
        let space = names.upper(&arena.space);
        writeln!(text, "#define MEMC_JOINT_{space}_SIZE {}", literal(arena.size))?;
        writeln!(text, "#define MEMC_JOINT_{space}_ALIGNMENT {}", literal(arena.alignment))?;
    }
    for (number, member) in joint.members.iter().enumerate() {
        writeln!(text, "\n/* member {number}: {} */", comment(&member.name))?;
        if joint.mode == Mode::Nested && number > 0 {
            continue;
        }
        for (tensor, offset) in &member.offsets {
            let name = names.upper(&format!("{}_{tensor}", member.name));
            writeln!(text, "#define MEMC_JOINT_{name}_OFFSET {}", literal(*offset))?;
        }
        for arena in joint.arenas.iter().filter(|_| member.offsets.is_empty()) {
            let name = names.upper(&format!("{}_{}", member.name, arena.space));
            let base = member.bases.get(&arena.space).copied().unwrap_or(0);
            writeln!(text, "#define MEMC_JOINT_{name}_BASE {}", literal(base))?;
        }
    }
    for (number, row) in joint.handoffs.iter().enumerate() {
        let (from, to) = (&row.from, &row.to);
        let ends = [&from.member, &from.tensor, &to.member, &to.tensor].map(|name| comment(name));
        writeln!(text, "\n/* {}.{} is {}.{} */", ends[0], ends[1], ends[2], ends[3])?;
        if let Some(offset) = row.offset {
            writeln!(text, "#define MEMC_JOINT_HANDOFF_{number}_OFFSET {}", literal(offset))?;
        }
        writeln!(text, "#define MEMC_JOINT_HANDOFF_{number}_SIZE {}", literal(row.bytes))?;
    }
    writeln!(text, "\n#ifdef MEMC_TABLES")?;
    write_tables(joint, text)?;
    writeln!(text, "#endif\n\n#endif")
}

fn write_tables(joint: &Joint, text: &mut String) -> std::fmt::Result {
    let member = |name: &str| {
        joint.members.iter().position(|member| member.name == name).unwrap_or(joint.members.len())
    };
    let names: Vec<String> = joint.members.iter().map(|member| c_string(&member.name)).collect();
    writeln!(text, "static const char *const memc_joint_members[] = {{{}}};", names.join(", "))?;
    if !joint.admissions.is_empty() {
        writeln!(
            text,
            "static const struct {{ unsigned guest, space; unsigned long long first, last, base; }}"
        )?;
        writeln!(text, "    memc_joint_admissions[] = {{")?;
        for run in &joint.admissions {
            let [first, last] = run.after;
            for (space, arena) in joint.arenas.iter().enumerate() {
                let Some(base) = run.bases.get(&arena.space) else { continue };
                writeln!(text, "    {{{}, {space}, {first}ULL, {last}ULL, {base}ULL}},", member(&run.guest))?;
            }
        }
        writeln!(text, "}};")?;
    }
    if !joint.sync.is_empty() {
        writeln!(text, "struct memc_joint_moment {{ unsigned member; unsigned long long run, step; }};")?;
        writeln!(
            text,
            "static const struct {{ struct memc_joint_moment after, before; long periods_later; }}"
        )?;
        writeln!(text, "    memc_joint_waits[] = {{")?;
        let moment = |moment: &Moment| {
            format!("{{{}, {}ULL, {}ULL}}", member(&moment.member), moment.run, moment.step)
        };
        for row in &joint.sync {
            writeln!(
                text,
                "    {{{}, {}, {}L}},",
                moment(&row.after),
                moment(&row.before),
                row.periods_later
            )?;
        }
        writeln!(text, "}};")?;
    }
    Ok(())
}
