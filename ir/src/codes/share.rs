//! Codes of sharing a memory: E034x.

use super::{CodeInfo, Fault};

/// Errors of sharing.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0340",
        title: "models cannot share a memory as requested",
        fault: Fault::Request,
        meaning: "The words of `memc share` contradict each other or the layouts: two members have one name, a handoff joins values of unequal \
            types or leads to a member that runs earlier, a member must keep offsets that it cannot keep, or a model is not the one of its \
            layout.",
        example: "memc share a.layout.json b.layout.json --serial --handoff b.y=a.x",
        action: "Follow the help line of the message.",
    },
    CodeInfo {
        code: "E0341",
        title: "a guest fits into no hole of its host",
        fault: Fault::Request,
        meaning: "`memc share --nested` runs a guest in bytes that no tensor of the host uses across a boundary between two steps. At no \
            boundary is one range of free bytes as large as the guest's arena; the message states the largest one and the missing bytes.",
        example: "memc share --nested host=small.layout.json guest=large.layout.json",
        action: "Run the models one after another with `--serial`, or plan the guest with a smaller `--budget`.",
    },
];
