//! Rule 1, files: hashes, names that are unique, and rows that the mode of the file allows.

use std::collections::BTreeSet;

use memc_layout::joint::{Joint, Mode};

use super::MemberFiles;
use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::header::sha256;

pub(super) fn check(joint: &Joint, members: &[MemberFiles], findings: &mut Findings) {
    let mut add = |message: String| findings.add(Kind::JointFile, At::default(), message);
    if joint.members.len() != members.len() || members.len() < 2 {
        add(format!(
            "the file has {} members; files of {} were given, and two are needed",
            joint.members.len(),
            members.len()
        ));
    }
    for (member, files) in joint.members.iter().zip(members) {
        let of = &files.layout.model;
        let rows = [
            (&member.given, &member.given_sha256, sha256(files.given.bytes()), Some(&of.input_sha256)),
            (&member.model, &member.model_sha256, sha256(files.model.bytes()), Some(&of.output_sha256)),
            (&member.layout, &member.layout_sha256, sha256(files.text.as_bytes()), None),
        ];
        for (name, stated, found, planned) in rows {
            if !stated.eq_ignore_ascii_case(&found) {
                add(format!("the file states `{stated}` for {name}, which has `{found}`"));
            }
            if planned.is_some_and(|planned| !planned.eq_ignore_ascii_case(&found)) {
                add(format!("{} is the layout of another model than {name}", member.layout));
            }
        }
    }
    let several = joint.members.iter().zip(members).filter(|(_, files)| files.layout.engines() > 1);
    several.for_each(|(member, _)| {
        add(format!("`{}` is planned for several engines, whose steps have no order", member.name))
    });
    let names: BTreeSet<&str> = joint.members.iter().map(|member| member.name.as_str()).collect();
    if names.len() != joint.members.len() {
        add("two members have one name".to_owned());
    }
    let spaces: BTreeSet<&str> = joint.arenas.iter().map(|arena| arena.space.as_str()).collect();
    if spaces.len() != joint.arenas.len() {
        add("a space has two arenas".to_owned());
    }
    let items = joint.handoffs.iter().flat_map(|handoff| [&handoff.from, &handoff.to]);
    let items =
        items.chain(joint.constants.iter().flat_map(|constant| &constant.uses)).map(|item| &item.member);
    let used = items.chain(joint.admissions.iter().map(|run| &run.guest));
    used.filter(|name| !names.contains(name.as_str()))
        .take(1)
        .for_each(|name| add(format!("there is no member `{name}`")));
    match joint.mode {
        Mode::Serial if !joint.admissions.is_empty() => {
            add("members run one after another, and none is a guest".to_owned())
        }
        Mode::Phased if !joint.admissions.is_empty() => {
            add("members run at once, and none is a guest".to_owned())
        }
        Mode::Phased if !joint.handoffs.is_empty() => {
            add("nothing is handed over between members that run at once".to_owned())
        }
        Mode::Nested if !joint.handoffs.is_empty() => add("nothing is handed over to a guest".to_owned()),
        Mode::Nested | Mode::Phased if joint.members.iter().any(|member| member.repeats) => {
            add("only members that run one after another repeat before the next one".to_owned());
        }
        _ => {}
    }
    if joint.mode != Mode::Phased
        && !(joint.sync.is_empty() && joint.members.iter().all(|member| member.runs == 0))
    {
        add("only members that run at once have periods and waits".to_owned());
    }
}
