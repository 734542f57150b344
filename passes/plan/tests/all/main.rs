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
