//! How a stock ONNX Runtime session must be set up so that a plan's promise holds, as lines of program text.
//!
//! Each setting was measured with ONNX Runtime 1.31.1. The order of execution and the reuse of buffers have no function in the C interface, so
//! only Python reaches them.

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
    /// All of them, by the name that [`Self::named`] takes.
    pub const ALL: [(&'static str, Self); 4] =
        [("python", Self::Python), ("cpp", Self::Cpp), ("csharp", Self::CSharp), ("rust", Self::Rust)];

    /// The language of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, language)| language)
    }
}

/// What the settings depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionNeeds {
    /// Dead-end nodes pin the order.
    pub anchored: bool,
    /// The model quantizes or dequantizes.
    pub quantized: bool,
    /// The plan moves values to other spaces.
    pub transfers: bool,
}

/// File name of the library with memc's own operators, on the system that this runs on.
const LIBRARY: &str = if cfg!(windows) {
    "memc_ort_ops.dll"
} else if cfg!(target_vendor = "apple") {
    "libmemc_ort_ops.dylib"
} else {
    "libmemc_ort_ops.so"
};

/// Lines that make session options named `options`, with a comment on what the language cannot reach.
pub(super) fn text(language: Language, needs: SessionNeeds) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: &str| lines.push(line.to_owned());
    match language {
        Language::Python => {
            add("import onnxruntime as ort");
            add("");
            add("options = ort.SessionOptions()");
            add("options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL");
            add("options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL");
            if !needs.anchored {
                add("options.execution_order = ort.ExecutionOrder.PRIORITY_BASED");
            }
            add("options.enable_mem_reuse = False");
            add("options.enable_mem_pattern = False");
            add("options.enable_cpu_mem_arena = False");
            add("options.intra_op_num_threads = 1");
            if needs.quantized {
                add("options.add_session_config_entry(\"session.disable_quant_qdq\", \"1\")");
            }
            if needs.transfers {
                add(&format!("options.register_custom_ops_library(\"{LIBRARY}\")"));
            }
        }
        Language::Cpp => {
            add("Ort::SessionOptions options;");
            add("options.SetGraphOptimizationLevel(GraphOptimizationLevel::ORT_DISABLE_ALL);");
            add("options.SetExecutionMode(ExecutionMode::ORT_SEQUENTIAL);");
            add("options.DisableMemPattern();");
            add("options.DisableCpuMemArena();");
            add("options.SetIntraOpNumThreads(1);");
            if needs.quantized {
                add("options.AddConfigEntry(\"session.disable_quant_qdq\", \"1\");");
            }
            if needs.transfers {
                add(&format!("options.RegisterCustomOpsLibrary(ORT_TSTR(\"{LIBRARY}\"));"));
            }
        }
        Language::CSharp => {
            add("var options = new SessionOptions {");
            add("    GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,");
            add("    ExecutionMode = ExecutionMode.ORT_SEQUENTIAL,");
            add("    EnableMemoryPattern = false,");
            add("    EnableCpuMemArena = false,");
            add("    IntraOpNumThreads = 1,");
            add("};");
            if needs.quantized {
                add("options.AddSessionConfigEntry(\"session.disable_quant_qdq\", \"1\");");
            }
            if needs.transfers {
                add(&format!("options.RegisterCustomOpLibrary(\"{LIBRARY}\");"));
            }
        }
        Language::Rust => {
            add("let mut options = ort::session::Session::builder()?");
            add("    .with_optimization_level(ort::session::builder::GraphOptimizationLevel::Disable)?");
            add("    .with_parallel_execution(false)?");
            add("    .with_memory_pattern(false)?");
            add("    .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?");
            if needs.quantized {
                add("    .with_config_entry(\"session.disable_quant_qdq\", \"1\")?");
            }
            if needs.transfers {
                add(&format!("    .with_operator_library(\"{LIBRARY}\")?"));
            }
            add("    .with_intra_threads(1)?;");
        }
    }
    if language != Language::Python {
        if !needs.anchored {
            add("// The order cannot be set here: plan with --anchors, which pin it.");
        }
        add(
            "// Reuse of buffers cannot be turned off here: where the runtime keeps one for later, the peak is above the plan's.",
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_NEEDS: SessionNeeds = SessionNeeds { anchored: false, quantized: true, transfers: true };

    #[test]
    fn every_language_turns_off_what_takes_more() {
        for (name, language) in Language::ALL {
            assert_eq!(Language::named(name), Some(language));
            let text = text(language, ALL_NEEDS);
            let plain = text.to_lowercase().replace('_', "");
            for word in ["disable", "pattern", "arena", "disablequantqdq", "memcortops", "threads"] {
                assert!(plain.contains(word), "{name} lacks {word}:\n{text}");
            }
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
        }
        assert_eq!(Language::named("fortran"), None);
    }

    #[test]
    fn what_a_language_cannot_reach_is_said() {
        assert!(text(Language::Python, ALL_NEEDS).contains("PRIORITY_BASED"));
        assert!(text(Language::Cpp, ALL_NEEDS).contains("--anchors"));
        let anchored = SessionNeeds { anchored: true, ..SessionNeeds::default() };
        assert!(!text(Language::Cpp, anchored).contains("--anchors"));
        assert!(!text(Language::Rust, anchored).contains("qdq"));
    }
}
