//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod budgets;
mod case;
mod chaos;
mod filetests;
mod laws;
mod made;
mod oracle;
mod random_plans;
mod random_ranges;
mod random_windows;

/// Takes so many cases of a fixed seed, so that every run tests equal models; a soak sets the number of cases
/// and draws the seed.
fn few(cases: u32) -> proptest::prelude::ProptestConfig {
    let given = proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        given
    } else {
        proptest::prelude::ProptestConfig { cases, ..given }
    }
}
