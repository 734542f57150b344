//! Checks rows of `stated`: whether sizes come from the model file or from the user.

use std::collections::BTreeSet;

use memc_layout::StatedBy;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};

/// Checks that each row names a known tensor and that no tensor has two rows. The file's rows must be
/// the values whose sizes follow from the input model only with the sizes that the file states.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let given = &ctx.given.module;
    let claimed: BTreeSet<&str> = given.claimed.iter().map(|value| ctx.given.name(*value)).collect();
    let mut named = BTreeSet::new();
    for row in &ctx.layout.stated {
        let name = row.tensor.as_str();
        let why = match row.by {
            _ if !ctx.named.contains_key(name) => "names no tensor",
            _ if !named.insert(name) => "occurs twice",
            StatedBy::File if ctx.given.named.contains_key(name) && !claimed.contains(name) => {
                "has a size that follows from the input model"
            }
            StatedBy::User if claimed.contains(name) => "has a size that the file states",
            StatedBy::File | StatedBy::User => continue,
        };
        findings.add(Kind::Stated, At::tensor(name), format!("`{name}` in `stated` {why}"));
    }
    for name in claimed.iter().filter(|name| ctx.named.contains_key(*name) && !named.contains(*name)) {
        findings.add(
            Kind::Stated,
            At::tensor(name),
            format!("only the file states the size of `{name}`, but `stated` has no row for it"),
        );
    }
}
