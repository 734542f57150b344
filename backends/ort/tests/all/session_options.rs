//! Checks that the session options printed by `optimize --session rust` compile against the crate that
//! they are for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ops::Profile;
use memc_ops::profile::{Language, Recipe, SessionNeeds};

/// Compiles the code and returns its text.
macro_rules! compiled {
    ($library:literal, $($code:tt)*) => {{
        #[allow(dead_code, unused_mut, unused_variables)]
        fn compiles() -> Result<(), Box<dyn std::error::Error>> {
            $($code)*
            Ok(())
        }
        stringify!($($code)*).replace($library, &format!("{}memc_ort_ops{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
    }};
}

fn without_blanks(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace())
        .collect()
}

#[test]
fn rust_session_options_compile() {
    let code = compiled! { "LIBRARY",
        drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
        let mut options = ort::session::Session::builder()?
            .with_optimization_level(ort::session::builder::GraphOptimizationLevel::Disable)?
            .with_parallel_execution(false)?
            .with_memory_pattern(false)?
            .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?
            .with_config_entry("session.disable_quant_qdq", "1")?
            .with_operator_library("LIBRARY")?;
    };
    let needs = SessionNeeds {
        anchored: false,
        quantized: true,
        transfers: true,
        recomputed: true,
        sliced: false,
        convolves: false,
        peak: 4096,
        limit: None,
    };
    let printed = |recipe| {
        Profile::ORT.session_options(Language::Rust, recipe, needs).expect("the profile has sessions")
    };
    assert_eq!(without_blanks(&printed(Some(Recipe::Smallest))), without_blanks(&code));
    let fast = compiled! { "LIBRARY",
        drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
        let mut fast = ort::session::Session::builder()?
            .with_optimization_level(ort::session::builder::GraphOptimizationLevel::All)?
            .with_parallel_execution(false)?
            .with_memory_pattern(false)?
            .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?
            .with_config_entry("optimization.disable_specified_optimizers", "CommonSubexpressionElimination")?
            .with_operator_library("LIBRARY")?;
    };
    let (block, made) = code.split_once(';').expect("two statements");
    let smallest = made.replacen("options", "smallest", 1);
    assert!(fast.starts_with(block), "the block is freed once");
    let both = format!("{fast}{smallest}let mut options = smallest;");
    assert_eq!(without_blanks(&printed(None)), without_blanks(&both));
    assert_eq!(Profile::PLAYER.session_options(Language::Rust, None, needs), None);
}
