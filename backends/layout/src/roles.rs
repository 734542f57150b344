//! Role of each key of a layout file: whether `memc check` verifies it, or it only informs. The schema
//! states the role as `x-memc`.

use serde_json::Value;

/// Keys that only inform: no reader needs them to run a plan, and the check does not derive them. All
/// other keys are verified.
///
/// A type with all of its keys, or one key of a type. A new key is verified until a row here says
/// otherwise, and then a test asks for a damage that the check refuses.
const INFORMATIVE: &[(&str, &[&str])] = &[
    ("Layout", &["memc_version", "options", "pareto", "solvers", "timeline", "trace", "unpaired"]),
    ("AddedOutput", &["by"]),
    (
        "Cost",
        &[
            "base_flops",
            "extra_flops",
            "modelled_error",
            "modelled_ns_after",
            "modelled_ns_before",
            "overhead_lower_bound",
        ],
    ),
    ("Encoding", &["form"]),
    ("Link", &["bytes_per_second", "latency_ns"]),
    ("ParetoPoint", &["arena", "bound", "budget", "extra_ns"]),
    ("Peak", &["at_most"]),
    ("Rewrite", &["rules"]),
    ("Solver", &["effort", "lower_bound", "pass", "stop", "unit", "value"]),
    ("Space", &["access"]),
    ("Target", &["name"]),
    ("Trace", &["passes", "strategy"]),
    ("Unpaired", &["candidates", "reason", "result"]),
    ("Unplanned", &["at_most", "reason"]),
];

/// Keyword of the schema.
const KEYWORD: &str = "x-memc";

/// Adds the role of each key to a schema.
pub(crate) fn mark(schema: &mut Value) {
    properties(schema, "Layout");
    let Some(types) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    for (name, of) in types.iter_mut() {
        properties(of, name);
    }
}

fn properties(of: &mut Value, name: &str) {
    let Some(keys) = of.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let informs = |key: &str| INFORMATIVE.iter().any(|(of, keys)| *of == name && keys.contains(&key));
    for (key, property) in keys.iter_mut() {
        let role = if informs(key) { "informative" } else { "verified" };
        if let Some(property) = property.as_object_mut() {
            property.insert(KEYWORD.to_owned(), role.into());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_key_that_informs_is_in_the_schema() {
        let schema: Value = serde_json::from_str(crate::schema()).unwrap();
        for (name, keys) in INFORMATIVE {
            let of = if *name == "Layout" { &schema } else { &schema["$defs"][*name] };
            for key in *keys {
                assert_eq!(of["properties"][*key][KEYWORD], "informative", "{name}.{key}");
            }
        }
    }
}
