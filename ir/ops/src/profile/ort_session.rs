//! Prints the setup of a stock ONNX Runtime session for a plan: recipes in four languages.
//!
//! *Smallest* takes the least bytes. *Fast* takes the least bytes that cost no time. *Plain* sets nothing.
//! Each prints the settings that were chosen for the model (`ort_settings.rs`) with their bytes. None
//! sets the number of threads: two threads need no more bytes than one, and half the time. Each setting
//! was measured with ONNX Runtime 1.31.1. The C interface has no function for the order of execution and
//! the reuse of buffers, so only Python can set them.

use memc_ir::Bytes;

use super::ort_settings::{Choice, Level, SessionSettings};

/// A language with an interface to ONNX Runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// The package `onnxruntime`.
    Python,
    /// The header `onnxruntime_cxx_api.h`.
    Cpp,
    /// The package `Microsoft.ML.OnnxRuntime`.
    CSharp,
    /// The crate `ort`, version 2.
    Rust,
}

impl Language {
    /// All languages, with the names that [`Self::named`] takes.
    pub const ALL: [(&'static str, Self); 4] =
        [("python", Self::Python), ("cpp", Self::Cpp), ("csharp", Self::CSharp), ("rust", Self::Rust)];

    /// Returns the language with this name, or `None`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, language)| language)
    }

    const fn comment(self) -> &'static str {
        match self {
            Self::Python => "#",
            Self::Cpp | Self::CSharp | Self::Rust => "//",
        }
    }
}

/// A way to set up a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipe {
    /// The least bytes that cost no time.
    Fast,
    /// The least bytes.
    Smallest,
    /// A session with default options.
    Plain,
}

/// The recipes that are printed if none is named; the last one sets the options.
const PRINTED: [(&str, Recipe); 2] = [("fast", Recipe::Fast), ("smallest", Recipe::Smallest)];

impl Recipe {
    /// All recipes, by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("fast", Self::Fast), ("smallest", Self::Smallest), ("plain", Self::Plain)];

    /// Returns the name of the recipe.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, recipe)| *recipe == self).map_or("plain", |(name, _)| name)
    }

    /// The recipes that a request prints: the named one, or `fast` and `smallest`.
    pub fn printed(named: Option<Self>) -> Vec<Self> {
        named.map_or_else(|| PRINTED.map(|(_, recipe)| recipe).to_vec(), |recipe| vec![recipe])
    }

    /// Returns the recipe with this name, or `None`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, recipe)| recipe)
    }
}

/// Properties of the plan that the settings depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionNeeds {
    /// Whether dead-end nodes pin the order.
    pub anchored: bool,
    /// Whether the model quantizes or dequantizes.
    pub quantized: bool,
    /// Whether the plan moves values to other spaces.
    pub transfers: bool,
    /// Whether the plan recomputes values.
    pub recomputed: bool,
    /// Whether nodes take parts of values one by one.
    pub sliced: bool,
    /// Whether the model has convolutions or pools, which run faster in blocks of channels.
    pub convolves: bool,
    /// Planned peak, in bytes.
    pub peak: u64,
    /// Budget of the plan's first space, in bytes.
    pub limit: Option<u64>,
}

/// Size of a block that is allocated and freed before a session is created, in bytes, as program text.
/// Without an arena, every run allocates and frees its values. The C library of Linux returns freed
/// memory to the system above thresholds, which it raises to the largest block freed so far, up to 32
/// MiB. Without this block each run maps its pages again, which took 1.4 times the time on a text
/// detector.
const FREED_BLOCK: &str = "31 << 20";

/// File name of the library with memc's own operators, on the system that memc runs on.
const LIBRARY: &str = if cfg!(windows) {
    "memc_ort_ops.dll"
} else if cfg!(target_vendor = "apple") {
    "libmemc_ort_ops.dylib"
} else {
    "libmemc_ort_ops.so"
};

/// One setting of a session.
#[derive(Clone, Debug)]
enum Setting {
    /// Which graph optimizations run.
    Level(Level),
    /// Runs one node after another.
    Sequential,
    /// Runs nodes in file order.
    FileOrder,
    /// Does not keep a buffer for a later value of equal size.
    NoReuse,
    /// Does not allocate one block for all values of a run.
    NoPattern,
    /// Disables the arena, which grows in powers of two and never shrinks.
    NoArena,
    /// Adds an entry to the session's configuration.
    Entry(&'static str, String),
    /// Registers the library with memc's own operators.
    Library,
}

/// Returns the chosen settings, in the order in which they are written.
fn settings(chosen: &SessionSettings, needs: SessionNeeds) -> Vec<Setting> {
    if *chosen == SessionSettings::PLAIN {
        return if needs.transfers { vec![Setting::Library] } else { Vec::new() };
    }
    // Optimizations fold anchors away, so with optimizations the order is set explicitly as well.
    let orders = chosen.file_order && (!needs.anchored || chosen.level != Level::None);
    let entry = |key, value: &str| Setting::Entry(key, value.to_owned());
    let rows = [
        (true, Setting::Level(chosen.level)),
        (true, Setting::Sequential),
        (orders, Setting::FileOrder),
        (!chosen.reuse, Setting::NoReuse),
        (!chosen.pattern, Setting::NoPattern),
        (!chosen.arena, Setting::NoArena),
        (
            !chosen.without.is_empty(),
            entry("optimization.disable_specified_optimizers", &chosen.without.join(";")),
        ),
        (chosen.keeps_pairs, entry("session.disable_quant_qdq", "1")),
        (needs.transfers, Setting::Library),
    ];
    rows.into_iter().filter_map(|(is_made, setting)| is_made.then_some(setting)).collect()
}

/// Name of a level in a language.
fn level(language: Language, level: Level) -> &'static str {
    match (language, level) {
        (Language::Python | Language::Cpp | Language::CSharp, Level::None) => "ORT_DISABLE_ALL",
        (Language::Python | Language::Cpp | Language::CSharp, Level::Basic) => "ORT_ENABLE_BASIC",
        (Language::Python | Language::Cpp | Language::CSharp, Level::Extended) => "ORT_ENABLE_EXTENDED",
        (Language::Python | Language::Cpp | Language::CSharp, Level::All) => "ORT_ENABLE_ALL",
        (Language::Rust, Level::None) => "Disable",
        (Language::Rust, Level::Basic) => "Level1",
        (Language::Rust, Level::Extended) => "Level2",
        (Language::Rust, Level::All) => "All",
    }
}

/// Prints a setting of the session options `name` in a language; `None` if the language cannot set it.
fn written(language: Language, name: &str, setting: &Setting) -> Option<String> {
    let line = match (language, setting) {
        (Language::Python, Setting::Level(chosen)) => {
            format!(
                "{name}.graph_optimization_level = ort.GraphOptimizationLevel.{}",
                level(language, *chosen)
            )
        }
        (Language::Python, Setting::Sequential) => {
            format!("{name}.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL")
        }
        (Language::Python, Setting::FileOrder) => {
            format!("{name}.execution_order = ort.ExecutionOrder.PRIORITY_BASED")
        }
        (Language::Python, Setting::NoReuse) => format!("{name}.enable_mem_reuse = False"),
        (Language::Python, Setting::NoPattern) => format!("{name}.enable_mem_pattern = False"),
        (Language::Python, Setting::NoArena) => format!("{name}.enable_cpu_mem_arena = False"),
        (Language::Python, Setting::Entry(key, value)) => {
            format!("{name}.add_session_config_entry(\"{key}\", \"{value}\")")
        }
        (Language::Python, Setting::Library) => format!("{name}.register_custom_ops_library(\"{LIBRARY}\")"),
        (_, Setting::FileOrder | Setting::NoReuse) => return None,
        (Language::Cpp, Setting::Level(chosen)) => {
            format!("{name}.SetGraphOptimizationLevel(GraphOptimizationLevel::{});", level(language, *chosen))
        }
        (Language::Cpp, Setting::Sequential) => {
            format!("{name}.SetExecutionMode(ExecutionMode::ORT_SEQUENTIAL);")
        }
        (Language::Cpp, Setting::NoPattern) => format!("{name}.DisableMemPattern();"),
        (Language::Cpp, Setting::NoArena) => format!("{name}.DisableCpuMemArena();"),
        (Language::Cpp, Setting::Entry(key, value)) => {
            format!("{name}.AddConfigEntry(\"{key}\", \"{value}\");")
        }
        (Language::Cpp, Setting::Library) => {
            format!("{name}.RegisterCustomOpsLibrary(ORT_TSTR(\"{LIBRARY}\"));")
        }
        (Language::CSharp, Setting::Level(chosen)) => {
            format!("{name}.GraphOptimizationLevel = GraphOptimizationLevel.{};", level(language, *chosen))
        }
        (Language::CSharp, Setting::Sequential) => {
            format!("{name}.ExecutionMode = ExecutionMode.ORT_SEQUENTIAL;")
        }
        (Language::CSharp, Setting::NoPattern) => format!("{name}.EnableMemoryPattern = false;"),
        (Language::CSharp, Setting::NoArena) => format!("{name}.EnableCpuMemArena = false;"),
        (Language::CSharp, Setting::Entry(key, value)) => {
            format!("{name}.AddSessionConfigEntry(\"{key}\", \"{value}\");")
        }
        (Language::CSharp, Setting::Library) => format!("{name}.RegisterCustomOpLibrary(\"{LIBRARY}\");"),
        (Language::Rust, Setting::Level(chosen)) => {
            let level = level(language, *chosen);
            format!("    .with_optimization_level(ort::session::builder::GraphOptimizationLevel::{level})?")
        }
        (Language::Rust, Setting::Sequential) => "    .with_parallel_execution(false)?".to_owned(),
        (Language::Rust, Setting::NoPattern) => "    .with_memory_pattern(false)?".to_owned(),
        (Language::Rust, Setting::NoArena) => {
            "    .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?"
                .to_owned()
        }
        (Language::Rust, Setting::Entry(key, value)) => {
            format!("    .with_config_entry(\"{key}\", \"{value}\")?")
        }
        (Language::Rust, Setting::Library) => format!("    .with_operator_library(\"{LIBRARY}\")?"),
    };
    Some(line)
}

/// Returns the promises of a recipe, and the settings that the language cannot make.
fn remarks(language: Language, recipe: Recipe, choice: &Choice, needs: SessionNeeds) -> Vec<String> {
    let planned = Bytes(needs.peak).exact();
    let counted = match choice.bytes {
        Some(bytes) if choice.is_counted => {
            format!("a run takes {}, counted; planned are {planned}.", Bytes(bytes).exact())
        }
        Some(bytes) => format!("a run takes the planned {}.", Bytes(bytes).exact()),
        None => format!("a run may take more than the planned {planned}: no session has counted it."),
    };
    let head = match recipe {
        Recipe::Fast => "the least bytes that cost no time",
        Recipe::Smallest => "the least bytes",
        Recipe::Plain => "default options",
    };
    let mut remarks = vec![format!("Recipe {}, {head}: {counted}", recipe.name())];
    let settings = &choice.settings;
    match settings.level {
        Level::None => {
            remarks.push("The nodes run as written; slower if the session would fuse nodes.".to_owned())
        }
        _ => remarks
            .push("The session's own optimizations stay on: results may differ in last bits.".to_owned()),
    }
    if !settings.without.is_empty() {
        remarks.push(
            "The optimizations that are off by name would merge or hold what the plan computes again or \
             in parts."
                .to_owned(),
        );
    }
    if recipe != Recipe::Plain && language != Language::Python {
        if settings.level == Level::None && !needs.anchored {
            remarks.push("The order cannot be set here: plan with --anchors, which pin it.".to_owned());
        } else if settings.level != Level::None {
            remarks.push(
                "The session chooses the order: recomputed nodes may run too early to save memory."
                    .to_owned(),
            );
        }
        remarks.push(
            "Reuse of buffers cannot be turned off here: where the runtime keeps one for later, the peak is above.".to_owned(),
        );
    }
    remarks
}

/// Prints the statement that makes the C library keep the memory that runs free.
fn keep_freed(language: Language) -> String {
    match language {
        Language::Python => format!("bytearray({FREED_BLOCK})"),
        // The compiler may remove a pair of calls, but not an access to a volatile variable.
        Language::Cpp => {
            format!("{{ void* volatile block = std::malloc({FREED_BLOCK}); std::free(block); }}")
        }
        Language::CSharp => {
            let marshal = "System.Runtime.InteropServices.Marshal";
            format!("{marshal}.FreeHGlobal({marshal}.AllocHGlobal({FREED_BLOCK}));")
        }
        Language::Rust => format!("drop(std::hint::black_box(Vec::<u8>::with_capacity({FREED_BLOCK})));"),
    }
}

/// Returns the lines that create the session options `name` by a recipe.
fn block(
    language: Language,
    (recipe, choice): &(Recipe, Choice),
    needs: SessionNeeds,
    name: &str,
) -> Vec<String> {
    let remarks = remarks(language, *recipe, choice, needs).into_iter();
    let mut lines: Vec<String> = remarks.map(|remark| format!("{} {remark}", language.comment())).collect();
    lines.push(match language {
        Language::Python => format!("{name} = ort.SessionOptions()"),
        Language::Cpp => format!("Ort::SessionOptions {name};"),
        Language::CSharp => format!("var {name} = new SessionOptions();"),
        Language::Rust => format!("let mut {name} = ort::session::Session::builder()?"),
    });
    lines.extend(
        settings(&choice.settings, needs).iter().filter_map(|setting| written(language, name, setting)),
    );
    if language == Language::Rust
        && let Some(last) = lines.last_mut()
    {
        last.push(';');
    }
    lines
}

/// Prints session options named `options` by one choice. Of several choices, each gets the name of its
/// recipe, and `options` is the last one.
pub(super) fn text(language: Language, choices: &[(Recipe, Choice)], needs: SessionNeeds) -> String {
    let mut lines = match language {
        Language::Python => vec!["import onnxruntime as ort".to_owned(), String::new()],
        Language::Cpp | Language::CSharp | Language::Rust => Vec::new(),
    };
    if choices.iter().any(|(_, choice)| !choice.settings.arena) {
        let why = "Allocates and frees one block: after that, the C library of Linux keeps the bytes that a run frees for the next run.";
        lines.extend([format!("{} {why}", language.comment()), keep_freed(language), String::new()]);
    }
    match choices {
        [] => {}
        [choice] => lines.extend(block(language, choice, needs, "options")),
        [.., (last, _)] => {
            for choice in choices {
                lines.extend(block(language, choice, needs, choice.0.name()));
                lines.push(String::new());
            }
            let last = last.name();
            lines.push(match language {
                Language::Python => format!("options = {last}"),
                Language::Cpp => format!("Ort::SessionOptions& options = {last};"),
                Language::CSharp => format!("var options = {last};"),
                Language::Rust => format!("let mut options = {last};"),
            });
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_NEEDS: SessionNeeds = SessionNeeds {
        anchored: false,
        quantized: true,
        transfers: true,
        recomputed: true,
        sliced: false,
        convolves: false,
        peak: 4096,
        limit: None,
    };

    fn text(language: Language, recipe: Option<Recipe>, needs: SessionNeeds) -> String {
        let choices: Vec<_> = Recipe::printed(recipe)
            .into_iter()
            .map(|recipe| (recipe, recipe.predicted(language, needs)))
            .collect();
        super::text(language, &choices, needs)
    }

    #[test]
    fn every_language_disables_the_options_that_raise_the_peak() {
        for (name, language) in Language::ALL {
            assert_eq!(Language::named(name), Some(language));
            for recipe in [None, Some(Recipe::Smallest)] {
                let text = text(language, recipe, ALL_NEEDS);
                let plain = text.to_lowercase().replace('_', "");
                for word in
                    ["disable", "pattern", "arena", "disablequantqdq", "memcortops", "options", "4,096 b"]
                {
                    assert!(plain.contains(word), "{name} lacks {word}:\n{text}");
                }
                assert!(!plain.contains("thread"), "two threads take the same bytes:\n{text}");
                assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
            }
        }
        assert_eq!(Language::named("fortran"), None);
    }

    #[test]
    fn the_fast_recipe_disables_only_options_that_undo_the_plan() {
        for (name, language) in Language::ALL {
            let again = text(language, Some(Recipe::Fast), ALL_NEEDS);
            assert!(
                again.contains(
                    "\"optimization.disable_specified_optimizers\", \"CommonSubexpressionElimination\""
                ),
                "{again}"
            );
            assert!(again.contains("31 << 20"), "{name} gives pages back after each run:\n{again}");
            assert!(!again.contains("DISABLE_ALL") && !again.contains("Level::Disable"), "{name}:\n{again}");
            let once = text(language, Some(Recipe::Fast), SessionNeeds { recomputed: false, ..ALL_NEEDS });
            assert!(
                !once.contains("disable_specified_optimizers") && !once.contains("disable_quant_qdq"),
                "{once}"
            );
        }
        assert_eq!(Recipe::named("fast"), Some(Recipe::Fast));
        assert_eq!(Recipe::named("slow"), None);
        let plain = text(Language::Python, Some(Recipe::Plain), ALL_NEEDS);
        assert!(
            plain.contains("Recipe plain") && !plain.contains("enable_") && !plain.contains("31 << 20"),
            "{plain}"
        );
    }

    #[test]
    fn options_missing_from_a_language_are_stated() {
        let smallest = |language, needs| text(language, Some(Recipe::Smallest), needs);
        assert!(smallest(Language::Python, ALL_NEEDS).contains("PRIORITY_BASED"));
        assert!(smallest(Language::Cpp, ALL_NEEDS).contains("--anchors"));
        let anchored = SessionNeeds { anchored: true, ..SessionNeeds::default() };
        assert!(!smallest(Language::Cpp, anchored).contains("--anchors"));
        assert!(!smallest(Language::Rust, anchored).contains("qdq"));
        assert!(text(Language::CSharp, Some(Recipe::Fast), anchored).contains("chooses the order"));
        // Optimizations fold anchors away.
        assert!(text(Language::Python, Some(Recipe::Fast), anchored).contains("PRIORITY_BASED"));
    }
}
