//! The passes, in one sorted list.

use crate::pass::PassInfo;

/// All passes, sorted by name.
pub const REGISTRY: &[&PassInfo] = &[
    &crate::budget::INFO,
    &crate::canonicalize::INFO,
    &crate::cse::INFO,
    &crate::dce::INFO,
    &crate::fold::INFO,
    &crate::in_place::INFO,
    &crate::micro_batch::INFO,
    &crate::nchwc::INFO,
    &crate::place::INFO,
    &crate::rewrite::INFO,
    &crate::schedule::INFO,
    &crate::split::INFO,
    &crate::tie::INFO,
    &crate::view::INFO,
    &crate::window::INFO,
];

/// The pass of this name.
pub fn find(name: &str) -> Option<&'static PassInfo> {
    REGISTRY.iter().find(|info| info.name == name).copied()
}
