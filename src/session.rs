//! Set-up of a stock session of ONNX Runtime that keeps a plan.

use memc_layout::Layout;
use memc_ops::Profile;
use memc_ops::profile::{Language, Recipe, SessionNeeds};

/// Returns program text that creates session options for a plan: by one recipe, or by both, of which
/// `smallest` is the last.
pub fn session_recipe(layout: &Layout, language: Language, recipe: Option<Recipe>) -> String {
    let schedule = &layout.schedule;
    let needs = SessionNeeds {
        anchored: layout.options.get("anchors").is_some_and(|value| value == "true"),
        quantized: schedule.iter().any(|row| matches!(row.op.as_str(), "QuantizeLinear" | "DequantizeLinear")),
        transfers: !layout.transfers.is_empty(),
        recomputed: layout.cost.recomputed_nodes > 0,
        peak: layout.target.spaces.first().and_then(|space| layout.peak.get(&space.name)).map_or(0, |peak| peak.bytes),
    };
    Profile::ORT.session_options(language, recipe, needs).unwrap_or_default()
}
