//! Set-up of a stock session of ONNX Runtime that keeps a plan.

use memc_layout::Layout;
use memc_ops::Profile;
use memc_ops::profile::{Choice, Language, Recipe, SessionNeeds};

/// Operators that a session computes in blocks of channels, which takes less time.
const IN_BLOCKS: &[(&str, &str)] = &[
    ("", "Conv"),
    ("", "ConvTranspose"),
    ("", "MaxPool"),
    ("", "AveragePool"),
    ("com.microsoft", "FusedConv"),
];

/// Returns the properties of a plan that the settings of a session depend on.
pub fn session_needs(layout: &Layout) -> SessionNeeds {
    let schedule = &layout.schedule;
    let space = layout.target.spaces.first().map_or("", |space| space.name.as_str());
    SessionNeeds {
        anchored: layout.options.get("anchors").is_some_and(|value| value == "true"),
        quantized: schedule
            .iter()
            .any(|row| matches!(row.op.as_str(), "QuantizeLinear" | "DequantizeLinear")),
        transfers: !layout.transfers.is_empty(),
        recomputed: layout.cost.recomputed_nodes > 0,
        sliced: schedule.iter().filter(|row| row.domain.is_empty() && row.op == "Slice").count() > 1,
        convolves: schedule.iter().any(|row| IN_BLOCKS.contains(&(row.domain.as_str(), row.op.as_str()))),
        peak: layout.peak.get(space).map_or(0, |peak| peak.bytes),
        limit: layout.budget.get(space).copied(),
    }
}

/// Returns program text that creates session options for a plan, without counting: by one recipe, or by
/// `fast` and `smallest`, of which the last sets the options.
pub fn session_recipe(layout: &Layout, language: Language, recipe: Option<Recipe>) -> String {
    Profile::ORT.session_options(language, recipe, session_needs(layout)).unwrap_or_default()
}

/// Returns program text that creates session options for a plan by choices that were made.
pub fn session_program(layout: &Layout, language: Language, choices: &[(Recipe, Choice)]) -> String {
    Profile::ORT.session_options_of(language, choices, session_needs(layout)).unwrap_or_default()
}
