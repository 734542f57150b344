//! Prints the setup of a stock ONNX Runtime session for a plan: two recipes in four languages.
//!
//! *Smallest* runs the written nodes unchanged and in file order, so the planned peak holds. *Fast*
//! leaves the session's own optimizations on, except those that would undo the plan. Neither sets the
//! number of threads: two threads need no more bytes than one, and half the time. Each setting was
//! measured with ONNX Runtime 1.31.1. The C interface has no function for the order of execution and the
//! reuse of buffers, so only Python can set them.

use memc_ir::Bytes;

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
    /// The session's optimizations stay on, except those that undo the plan.
    Fast,
    /// The nodes run as planned, so the planned peak holds.
    Smallest,
}

impl Recipe {
    /// Both recipes, by name.
    pub const ALL: [(&'static str, Self); 2] = [("fast", Self::Fast), ("smallest", Self::Smallest)];

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
    /// Planned peak, in bytes.
    pub peak: u64,
}

/// The session optimization that merges equal nodes, and so undoes recomputation.
const MERGES_EQUAL_NODES: &str = "CommonSubexpressionElimination";

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
#[derive(Clone, Copy, Debug)]
enum Setting {
    /// Disables graph optimization.
    Unoptimized,
    /// Enables all graph optimizations, which is the default.
    Optimized,
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
    Entry(&'static str, &'static str),
    /// Registers the library with memc's own operators.
    Library,
}

/// Returns the settings of a recipe, in the order in which they are written.
fn settings(recipe: Recipe, needs: SessionNeeds) -> Vec<Setting> {
    use Setting::{Entry, FileOrder, Library, NoArena, NoPattern, NoReuse, Optimized, Sequential, Unoptimized};
    let level = match recipe {
        Recipe::Fast => Optimized,
        Recipe::Smallest => Unoptimized,
    };
    let mut settings = vec![level, Sequential];
    // Optimizations fold anchors away, so with optimizations the order is set explicitly as well.
    if !needs.anchored || recipe == Recipe::Fast {
        settings.push(FileOrder);
    }
    settings.extend([NoReuse, NoPattern, NoArena]);
    if recipe == Recipe::Fast && needs.recomputed {
        settings.push(Entry("optimization.disable_specified_optimizers", MERGES_EQUAL_NODES));
    }
    if recipe == Recipe::Smallest && needs.quantized {
        settings.push(Entry("session.disable_quant_qdq", "1"));
    }
    if needs.transfers {
        settings.push(Library);
    }
    settings
}

/// Prints a setting of the session options `name` in a language; `None` if the language cannot set it.
fn written(language: Language, name: &str, setting: Setting) -> Option<String> {
    let line = match (language, setting) {
        (Language::Python, Setting::Unoptimized) => {
            format!("{name}.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL")
        }
        (Language::Python, Setting::Optimized) => {
            format!("{name}.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL")
        }
        (Language::Python, Setting::Sequential) => format!("{name}.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL"),
        (Language::Python, Setting::FileOrder) => format!("{name}.execution_order = ort.ExecutionOrder.PRIORITY_BASED"),
        (Language::Python, Setting::NoReuse) => format!("{name}.enable_mem_reuse = False"),
        (Language::Python, Setting::NoPattern) => format!("{name}.enable_mem_pattern = False"),
        (Language::Python, Setting::NoArena) => format!("{name}.enable_cpu_mem_arena = False"),
        (Language::Python, Setting::Entry(key, value)) => format!("{name}.add_session_config_entry(\"{key}\", \"{value}\")"),
        (Language::Python, Setting::Library) => format!("{name}.register_custom_ops_library(\"{LIBRARY}\")"),
        (_, Setting::FileOrder | Setting::NoReuse) => return None,
        (Language::Cpp, Setting::Unoptimized) => {
            format!("{name}.SetGraphOptimizationLevel(GraphOptimizationLevel::ORT_DISABLE_ALL);")
        }
        (Language::Cpp, Setting::Optimized) => {
            format!("{name}.SetGraphOptimizationLevel(GraphOptimizationLevel::ORT_ENABLE_ALL);")
        }
        (Language::Cpp, Setting::Sequential) => format!("{name}.SetExecutionMode(ExecutionMode::ORT_SEQUENTIAL);"),
        (Language::Cpp, Setting::NoPattern) => format!("{name}.DisableMemPattern();"),
        (Language::Cpp, Setting::NoArena) => format!("{name}.DisableCpuMemArena();"),
        (Language::Cpp, Setting::Entry(key, value)) => format!("{name}.AddConfigEntry(\"{key}\", \"{value}\");"),
        (Language::Cpp, Setting::Library) => format!("{name}.RegisterCustomOpsLibrary(ORT_TSTR(\"{LIBRARY}\"));"),
        (Language::CSharp, Setting::Unoptimized) => {
            format!("{name}.GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL;")
        }
        (Language::CSharp, Setting::Optimized) => {
            format!("{name}.GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL;")
        }
        (Language::CSharp, Setting::Sequential) => format!("{name}.ExecutionMode = ExecutionMode.ORT_SEQUENTIAL;"),
        (Language::CSharp, Setting::NoPattern) => format!("{name}.EnableMemoryPattern = false;"),
        (Language::CSharp, Setting::NoArena) => format!("{name}.EnableCpuMemArena = false;"),
        (Language::CSharp, Setting::Entry(key, value)) => format!("{name}.AddSessionConfigEntry(\"{key}\", \"{value}\");"),
        (Language::CSharp, Setting::Library) => format!("{name}.RegisterCustomOpLibrary(\"{LIBRARY}\");"),
        (Language::Rust, Setting::Unoptimized) => {
            "    .with_optimization_level(ort::session::builder::GraphOptimizationLevel::Disable)?".to_owned()
        }
        (Language::Rust, Setting::Optimized) => {
            "    .with_optimization_level(ort::session::builder::GraphOptimizationLevel::All)?".to_owned()
        }
        (Language::Rust, Setting::Sequential) => "    .with_parallel_execution(false)?".to_owned(),
        (Language::Rust, Setting::NoPattern) => "    .with_memory_pattern(false)?".to_owned(),
        (Language::Rust, Setting::NoArena) => {
            "    .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?".to_owned()
        }
        (Language::Rust, Setting::Entry(key, value)) => format!("    .with_config_entry(\"{key}\", \"{value}\")?"),
        (Language::Rust, Setting::Library) => format!("    .with_operator_library(\"{LIBRARY}\")?"),
    };
    Some(line)
}

/// Returns the promises of a recipe, and the settings that the language cannot make.
fn remarks(language: Language, recipe: Recipe, needs: SessionNeeds) -> Vec<String> {
    let mut remarks = Vec::new();
    match recipe {
        Recipe::Fast => {
            remarks.push("Recipe fast: the session's own optimizations stay on. They fuse nodes and change the layout of images, so the peak".to_owned());
            remarks.push(format!("may differ from the planned {}; results may differ in last bits.", Bytes(needs.peak).exact()));
            if needs.recomputed {
                remarks
                    .push("The optimization that merges equal nodes is off: it would undo the plan's recomputation.".to_owned());
            }
        }
        Recipe::Smallest => remarks.push(format!(
            "Recipe smallest: the nodes run as written, in the planned {}; slower if the session would fuse nodes.",
            Bytes(needs.peak).exact()
        )),
    }
    if language != Language::Python {
        match recipe {
            Recipe::Fast => {
                remarks.push("The session chooses the order: recomputed nodes may run too early to save memory.".to_owned());
            }
            Recipe::Smallest if !needs.anchored => {
                remarks.push("The order cannot be set here: plan with --anchors, which pin it.".to_owned());
            }
            Recipe::Smallest => {}
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
        Language::Cpp => format!("{{ void* volatile block = std::malloc({FREED_BLOCK}); std::free(block); }}"),
        Language::CSharp => {
            let marshal = "System.Runtime.InteropServices.Marshal";
            format!("{marshal}.FreeHGlobal({marshal}.AllocHGlobal({FREED_BLOCK}));")
        }
        Language::Rust => format!("drop(std::hint::black_box(Vec::<u8>::with_capacity({FREED_BLOCK})));"),
    }
}

/// Returns the lines that create the session options `name` by a recipe.
fn block(language: Language, recipe: Recipe, needs: SessionNeeds, name: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        remarks(language, recipe, needs).into_iter().map(|remark| format!("{} {remark}", language.comment())).collect();
    lines.push(match language {
        Language::Python => format!("{name} = ort.SessionOptions()"),
        Language::Cpp => format!("Ort::SessionOptions {name};"),
        Language::CSharp => format!("var {name} = new SessionOptions();"),
        Language::Rust => format!("let mut {name} = ort::session::Session::builder()?"),
    });
    lines.extend(settings(recipe, needs).into_iter().filter_map(|setting| written(language, name, setting)));
    if language == Language::Rust
        && let Some(last) = lines.last_mut()
    {
        last.push(';');
    }
    lines
}

/// Prints session options named `options` by one recipe. Without a recipe, prints both, `fast` and
/// `smallest`, and sets `options` to `smallest`, under which the plan's peak holds.
pub(super) fn text(language: Language, recipe: Option<Recipe>, needs: SessionNeeds) -> String {
    let mut lines = match language {
        Language::Python => vec!["import onnxruntime as ort".to_owned(), String::new()],
        Language::Cpp | Language::CSharp | Language::Rust => Vec::new(),
    };
    let why =
        "Allocates and frees one block: after that, the C library of Linux keeps the bytes that a run frees for the next run.";
    lines.extend([format!("{} {why}", language.comment()), keep_freed(language), String::new()]);
    match recipe {
        Some(recipe) => lines.extend(block(language, recipe, needs, "options")),
        None => {
            for (name, recipe) in Recipe::ALL {
                lines.extend(block(language, recipe, needs, name));
                lines.push(String::new());
            }
            lines.push(match language {
                Language::Python => "options = smallest".to_owned(),
                Language::Cpp => "Ort::SessionOptions& options = smallest;".to_owned(),
                Language::CSharp => "var options = smallest;".to_owned(),
                Language::Rust => "let mut options = smallest;".to_owned(),
            });
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_NEEDS: SessionNeeds =
        SessionNeeds { anchored: false, quantized: true, transfers: true, recomputed: true, peak: 4096 };

    #[test]
    fn every_language_disables_the_options_that_raise_the_peak() {
        for (name, language) in Language::ALL {
            assert_eq!(Language::named(name), Some(language));
            for recipe in [None, Some(Recipe::Smallest)] {
                let text = text(language, recipe, ALL_NEEDS);
                let plain = text.to_lowercase().replace('_', "");
                for word in ["disable", "pattern", "arena", "disablequantqdq", "memcortops", "options", "4,096 b"] {
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
                again.contains("\"optimization.disable_specified_optimizers\", \"CommonSubexpressionElimination\""),
                "{again}"
            );
            assert!(again.contains("31 << 20"), "{name} gives pages back after each run:\n{again}");
            assert!(!again.contains("DISABLE_ALL") && !again.contains("Level::Disable"), "{name}:\n{again}");
            let once = text(language, Some(Recipe::Fast), SessionNeeds { recomputed: false, ..ALL_NEEDS });
            assert!(!once.contains("disable_specified_optimizers") && !once.contains("disable_quant_qdq"), "{once}");
        }
        assert_eq!(Recipe::named("fast"), Some(Recipe::Fast));
        assert_eq!(Recipe::named("slow"), None);
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
