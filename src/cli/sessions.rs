//! Chooses the settings of sessions by counting: each candidate runs in a process of its own.
//!
//! Without a library of ONNX Runtime, settings follow from the plan alone, and a session with default
//! options gets the given nodes in their own order: it may undo a plan, and takes more than of these then.

use std::path::{Path, PathBuf};

use memc::{Model, PlainForm, Planned, Request, session_needs, session_program};
use memc_ir::{Bytes, Diagnostic, Severity};
#[cfg(feature = "ort")]
use memc_ops::profile::SessionNeeds;
use memc_ops::profile::{Choice, Language, Recipe};

use super::args::Optimize;
#[cfg(feature = "ort")]
use super::counting::counted;
use super::counting::{OWN_NODES, Tried, Write};
use super::plain_sessions::Forms;
use super::{Failure, Voice};

/// Share of a limit by which counted bytes may exceed it, as a divisor: the runtime rounds each value to
/// 64 bytes, which plans do not.
const ROUNDING: u64 = 100;

/// Counts the candidates of a recipe for a model as it is, each in another process; `None` if none runs.
/// If `fast` breaks the limit, the result is that of `smallest`.
#[cfg(feature = "ort")]
pub fn counted_choice(
    model: &Path,
    library: Option<&Path>,
    recipe: Recipe,
    needs: SessionNeeds,
) -> Option<Choice> {
    let library = memc_ort::library::find(library).ok()?;
    let of = |recipe: Recipe| {
        let candidates = recipe.candidates(Language::Python, needs).into_iter();
        recipe.least(candidates.map(|settings| {
            let bytes = counted(&library, model, &settings.to_string());
            (settings, bytes)
        }))
    };
    let choice = of(recipe)?;
    let is_broken = recipe == Recipe::Fast && needs.limit.is_some_and(|limit| !keeps(&choice, limit));
    if is_broken { of(Recipe::Smallest) } else { Some(choice) }
}

impl Tried {
    /// Counts the candidates of a recipe.
    fn candidates(&mut self, library: &Path, language: Language, recipe: Recipe) -> Option<Choice> {
        let all = recipe.candidates(language, session_needs(&self.planned.layout));
        let counted: Vec<_> = all
            .into_iter()
            .map(|settings| {
                let bytes = self.count(library, &settings);
                (settings, bytes)
            })
            .collect();
        recipe.least(counted)
    }
}

/// Returns the best choice of a recipe over plans, with the position of its plan; earlier plans win ties.
fn best(plans: &mut [Tried], library: &Path, language: Language, recipe: Recipe) -> Option<(usize, Choice)> {
    let found = plans.iter_mut().map(|plan| plan.candidates(library, language, recipe)).enumerate();
    let found = found.filter_map(|(position, choice)| Some((position, choice?)));
    found.min_by_key(|(_, choice)| choice.bytes)
}

/// Chooses plan and settings for the recipes that the arguments name. Returns the plan to write and the
/// program that creates the session's options.
///
/// If one recipe is named, and a session takes less of the model in its own order than of the plan, the
/// result is the plan in that order.
///
/// # Errors
/// Files cannot be written, or every candidate breaks a limit.
pub fn settle(
    arguments: &Optimize,
    request: &Request,
    file: &Model,
    planned: Planned,
    voice: &Voice,
    write: Write<'_>,
) -> Result<(Planned, Option<String>), Failure> {
    let Some((language, named)) = arguments.session else { return Ok((planned, None)) };
    let recipes = Recipe::printed(named);
    let needs = session_needs(&planned.layout);
    let Some(library) = library().filter(|_| !needs.transfers) else {
        let (planned, written) = match named {
            Some(Recipe::Plain) => uncounted_plain(arguments, request, file, planned),
            _ => (planned, Uncounted::Plan),
        };
        voice.diagnostics(&[uncounted(needs.transfers, written)]);
        let needs = session_needs(&planned.layout);
        let choices: Vec<_> =
            recipes.iter().map(|recipe| (*recipe, recipe.predicted(language, needs))).collect();
        let program = session_program(&planned.layout, language, &choices);
        return Ok((planned, Some(program)));
    };
    let mut plans = vec![Tried::write(arguments, file, planned, false, 0, write)?];
    if let Some(own) = in_own_order(arguments, request, file, &plans[0].planned) {
        plans.push(Tried::write(arguments, file, own, true, 1, write)?);
    }
    if named == Some(Recipe::Plain) && arguments.machine.passes.is_none() {
        let mut forms = Forms { arguments, request, file, plans: &mut plans, library: &library, write };
        forms.add_forms(0)?;
        if let Some(limit) = needs.limit {
            forms.keep(limit.saturating_add(limit / ROUNDING))?;
        }
    }
    let mut chosen = (0, Vec::new());
    for recipe in recipes {
        // The options of several recipes are for one file.
        let tried = if named.is_some() { plans.len() } else { 1 };
        let mut found = best(&mut plans[..tried], &library, language, recipe);
        if let Some(limit) = needs.limit
            && found.as_ref().is_some_and(|(_, choice)| !keeps(choice, limit))
        {
            let smallest = best(&mut plans[..tried], &library, language, Recipe::Smallest)
                .filter(|(_, choice)| keeps(choice, limit));
            let (Some(kept), true) = (smallest, recipe != Recipe::Plain) else {
                return Err(broken(recipe, language, found.and_then(|(_, choice)| choice.bytes), limit));
            };
            voice.diagnostics(&[replaced(recipe, found.and_then(|(_, choice)| choice.bytes), limit)]);
            found = Some(kept);
        }
        let (position, choice) = found.unwrap_or_else(|| (0, recipe.predicted(language, needs)));
        chosen.0 = position;
        if plans[position].is_own {
            voice.diagnostics(&[in_file_order(recipe, &choice, &mut plans[0], &library, language)]);
        } else if named.is_none() && recipe == Recipe::Fast {
            let other = plans[1..]
                .iter_mut()
                .filter_map(|plan| plan.candidates(&library, language, recipe)?.bytes)
                .min();
            voice.diagnostics(smaller_in_own_order(other, choice.bytes).as_slice());
        }
        voice.say(&line(recipe, &choice, &plans[position].planned.plain));
        chosen.1.push((recipe, choice));
    }
    let planned = plans.swap_remove(chosen.0).planned;
    let program = session_program(&planned.layout, language, &chosen.1);
    Ok((planned, Some(program)))
}

/// Whether counted bytes keep a limit, but for rounding.
fn keeps(choice: &Choice, limit: u64) -> bool {
    choice.bytes.is_some_and(|bytes| bytes <= limit.saturating_add(limit / ROUNDING))
}

/// The library of the runtime, if there is one.
fn library() -> Option<PathBuf> {
    #[cfg(feature = "ort")]
    {
        memc_ort::library::find(None).ok()
    }
    #[cfg(not(feature = "ort"))]
    {
        None
    }
}

/// Plans the model in its own order with its own nodes; `None` if the request runs passes of its own, if
/// that plan keeps no limit, or if it writes the same model.
fn in_own_order(arguments: &Optimize, request: &Request, file: &Model, planned: &Planned) -> Option<Planned> {
    if arguments.machine.passes.is_some() {
        return None;
    }
    own_plan(request, file).filter(|own| own.layout.model.output_sha256 != planned.layout.model.output_sha256)
}

/// Plans the model in its own order with its own nodes; `None` if that plan keeps no limit.
fn own_plan(request: &Request, file: &Model) -> Option<Planned> {
    let request =
        Request { pipelines: Vec::new(), pareto: 0, compare: false, ..request.clone() }.passes(OWN_NODES);
    memc::plan(file, &request).ok()
}

/// What is written where no session was counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uncounted {
    /// The plan, for a session that keeps it.
    Plan,
    /// The given nodes in their own order.
    Own,
    /// The plan for a session with default options, which may take more than of the given nodes.
    Unproven,
}

/// Chooses what is written for a session with default options that nobody counts: the given nodes in their
/// own order, as it gets them from the given model. The plan stays if only that one keeps a
/// limit, or if the request names its passes.
fn uncounted_plain(
    arguments: &Optimize,
    request: &Request,
    file: &Model,
    planned: Planned,
) -> (Planned, Uncounted) {
    if arguments.machine.passes.is_some() {
        return (planned, Uncounted::Unproven);
    }
    match own_plan(request, file) {
        Some(own) => (own, Uncounted::Own),
        None => (planned, Uncounted::Unproven),
    }
}

/// States the choice of a recipe in one line.
fn line(recipe: Recipe, choice: &Choice, form: &PlainForm) -> String {
    let bytes = match choice.bytes {
        Some(bytes) if choice.is_counted => format!("{}, counted", Bytes(bytes).exact()),
        Some(bytes) => format!("{}, as planned", Bytes(bytes).exact()),
        None => "not counted: no candidate runs here".to_owned(),
    };
    let form = if form.is_none() { String::new() } else { format!("; the model is {form}") };
    format!("session {}: {bytes} ({}){form}", recipe.name(), choice.settings)
}

fn uncounted(has_transfers: bool, written: Uncounted) -> Diagnostic {
    let (why, help) = match has_transfers {
        true => (
            "the plan moves values to other spaces",
            "no action needed: `smallest` runs the nodes as planned",
        ),
        false => (
            "no library of ONNX Runtime was found",
            "install `onnxruntime`, or name a library in ORT_DYLIB_PATH",
        ),
    };
    let so = match written {
        Uncounted::Plan => "",
        Uncounted::Own => {
            "; the written model has the nodes and the order of the given one, since a plain session may undo a plan"
        }
        Uncounted::Unproven => "; a plain session may take more of the plan than of the given model",
    };
    Diagnostic::new("W0363", Severity::Remark, format!("sessions were not counted: {why}{so}"))
        .with_help(help)
}

fn replaced(recipe: Recipe, took: Option<u64>, limit: u64) -> Diagnostic {
    let took = took.map_or_else(|| "more".to_owned(), |bytes| Bytes(bytes).exact());
    let message = format!(
        "the recipe `{}` keeps the budget with fewer optimizations: with those that cost no time a session takes {took}, the budget is {}",
        recipe.name(),
        Bytes(limit).exact()
    );
    Diagnostic::new("W0362", Severity::Remark, message)
        .with_help("no action needed; a larger budget leaves more optimizations on")
}

fn broken(recipe: Recipe, language: Language, took: Option<u64>, limit: u64) -> Failure {
    let took = took.map_or_else(|| "more".to_owned(), |bytes| Bytes(bytes).exact());
    let message = format!(
        "no session by the recipe `{}` keeps the budget of {}: the best one takes {took}",
        recipe.name(),
        Bytes(limit).exact()
    );
    let help = match (recipe, language) {
        (Recipe::Plain, _) => "use the recipe `smallest`, or a larger budget".to_owned(),
        (_, Language::Python) => format!("use `--budget {}`", limit.saturating_mul(2).max(1)),
        _ => "pin the order with `--anchors`, use python, or a larger budget".to_owned(),
    };
    Failure { diagnostics: vec![Diagnostic::new("E0361", Severity::Error, message).with_help(help)], code: 3 }
}

/// Remarks that the written model is the given one in its own order.
fn in_file_order(
    recipe: Recipe,
    choice: &Choice,
    plan: &mut Tried,
    library: &Path,
    language: Language,
) -> Diagnostic {
    let of_plan = plan.candidates(library, language, recipe).and_then(|choice| choice.bytes);
    let exact = |bytes: Option<u64>| {
        bytes.map_or_else(|| "an unknown number of bytes".to_owned(), |bytes| Bytes(bytes).exact())
    };
    let message = format!(
        "the written model has the nodes and the order of the given one: by the recipe `{}` a session takes {} of it, and {} of the plan",
        recipe.name(),
        exact(choice.bytes),
        exact(of_plan)
    );
    Diagnostic::new("W0361", Severity::Remark, message)
        .with_help("no action needed; `--session python=smallest` keeps the plan if it takes less")
}

/// Remarks that a session of the given model takes less than one of the plan.
fn smaller_in_own_order(own: Option<u64>, planned: Option<u64>) -> Option<Diagnostic> {
    let (own, planned) = (own?, planned?);
    let message = format!(
        "by the recipe `fast` a session takes {} of the given model, and {} of the plan",
        Bytes(own).exact(),
        Bytes(planned).exact()
    );
    let help = "name the recipe to write the smaller one: `--session python=fast`";
    (own < planned).then(|| Diagnostic::new("W0361", Severity::Remark, message).with_help(help))
}
