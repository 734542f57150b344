//! The operators by family, one file each.

pub mod activation;
pub mod elementwise;
#[cfg(test)]
pub(crate) mod testing;

use crate::info::OpInfo;

/// All families, in alphabetical order of their files.
pub(crate) const FAMILIES: &[&[OpInfo]] = &[activation::OPERATORS, elementwise::OPERATORS];
