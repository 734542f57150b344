//! `memc passes`, `ops`, `explain`, `targets`, `schema`: tables and pages that are part of memc.

use memc_check as check;
use memc_cost::target::{self, Target};
use memc_ir::codes;
use memc_layout as layout_file;
use memc_ops as ops;
use memc_passes::PassInfo;
use memc_plan::registry;

use super::command::SchemaOf;
use super::{Failure, Outcome, did_you_mean, print, this_machine, usage};

/// The list of passes, or the page of one.
pub fn passes(name: Option<&str>) -> Outcome {
    match name {
        None => {
            let lines: Vec<String> = registry::REGISTRY
                .iter()
                .map(|pass| format!("{:<12} {}\n", pass.name, pass.summary))
                .collect();
            let strategies: Vec<String> =
                memc_plan::strategies().map(|(name, summary)| format!("{name:<30} {summary}\n")).collect();
            let between = "\nstrategies, in the order in which they run (`memc optimize --log-plans` shows the candidates of each)\n";
            print(&[lines.concat(), between.to_owned(), strategies.concat()].concat())
        }
        Some(name) => print(known_pass(name)?.page),
    }
}

/// Finds a pass by name.
///
/// # Errors
/// No pass has this name.
pub fn known_pass(name: &str) -> Result<&'static PassInfo, Failure> {
    let known = registry::REGISTRY.iter().map(|pass| pass.name);
    let list = "`memc passes` lists all passes";
    registry::find(name)
        .ok_or_else(|| usage(format!("there is no pass named `{name}`"), &did_you_mean(name, known, list)))
}

/// The operator table, or the entry of one operator.
pub fn ops(name: Option<&str>) -> Outcome {
    let Some(name) = name else { return print(&ops::describe::table_text()) };
    let (domain, operator) = name.rsplit_once("::").unwrap_or(("", name));
    match ops::find(domain, operator) {
        Some(info) => print(&ops::describe::describe(info)),
        None => {
            let known = ops::all().iter().filter(|info| info.domain == domain).map(|info| info.name);
            let list = "`memc ops` lists all operators; name other domains as com.microsoft::FusedConv";
            Err(usage(
                format!("`{name}` is not in the operator table: memc treats it as opaque"),
                &did_you_mean(operator, known, list),
            ))
        }
    }
}

/// The targets that come with memc, or the file of one.
pub fn targets(name: Option<&str>) -> Outcome {
    let Some(name) = name else {
        let parsed =
            target::BUILT_IN.iter().filter_map(|(name, text)| Some((name, Target::parse(text).ok()?)));
        let lines = parsed.map(|(name, target)| {
            let spaces = target.spaces.iter().map(|space| format!("{:13}{}\n", "", about_space(space)));
            format!("{name:<12} {}\n", target.summary) + &spaces.collect::<String>()
        });
        return print(&lines.collect::<String>());
    };
    match target::built_in(name) {
        Some(text) => print(text),
        None if name == this_machine::NAME => print(&this_machine::text()),
        None => Err(unknown_target(name)),
    }
}

/// Rejects a target that does not come with memc.
pub fn unknown_target(name: &str) -> Failure {
    let known = target::BUILT_IN.map(|(name, _)| name);
    let list = format!(
        "the targets are {}, auto, or a file that ends in .toml; `memc targets` describes them",
        known.join(", ")
    );
    usage(format!("there is no target named `{name}`"), &did_you_mean(name, known, &list))
}

/// A memory space in one line.
fn about_space(space: &target::Space) -> String {
    let capacity = space.capacity.map_or_else(|| "no limit".to_owned(), |bytes| bytes.to_string());
    let offsets = match space.alignment {
        Some(alignment) => format!("offsets are multiples of {alignment}"),
        None => format!("offsets are multiples of {}, the runtime's default", ops::Profile::ARENA.alignment),
    };
    let constants = if space.constants { ", holds constants" } else { "" };
    format!("{:<8} {capacity}, {offsets}{constants}", space.name)
}

/// The page of a code, or the list of all.
pub fn explain(code: Option<&str>) -> Outcome {
    let Some(code) = code else {
        let lines: Vec<String> =
            all_codes().iter().map(|info| format!("{}  {}\n", info.code, info.title)).collect();
        return print(&lines.concat());
    };
    if let Some(page) = code.strip_prefix("rule/").and_then(memc_plan::rewrite::rule_page) {
        return print(&page);
    }
    let found = codes::explain(code).or_else(|| check::codes::explain(code));
    #[cfg(feature = "ort")]
    let found = found.or_else(|| memc_ort::codes::explain(code));
    match found {
        Some(info) => print(&info.to_string()),
        None => Err(unknown_code(code)),
    }
}

/// Rejects a code without a page.
fn unknown_code(code: &str) -> Failure {
    let rules: Vec<String> = memc_plan::rewrite::rule_names().map(|name| format!("rule/{name}")).collect();
    let known = all_codes().into_iter().map(|info| info.code).chain(rules.iter().map(String::as_str));
    usage(format!("there is no code `{code}`"), &did_you_mean(code, known, "`memc explain` lists all codes"))
}

/// All diagnostic codes, in order.
fn all_codes() -> Vec<&'static codes::CodeInfo> {
    let mut all = codes::all();
    all.extend(check::codes::all().map(|entry| &entry.info));
    #[cfg(feature = "ort")]
    all.extend(memc_ort::codes::ALL);
    all.sort_by_key(|info| info.code);
    all
}

/// The schema of a file.
pub fn schema(what: SchemaOf) -> Outcome {
    match what {
        SchemaOf::Layout => print(layout_file::schema()),
        SchemaOf::Devices => print(layout_file::devices::schema()),
        SchemaOf::Joint => print(layout_file::joint::schema()),
        #[cfg(feature = "ort")]
        SchemaOf::Tune => print(include_str!("schema/memc.tune-1.json")),
    }
}
