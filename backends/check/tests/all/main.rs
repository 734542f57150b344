//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod damage;
mod encodings;
mod engines;
mod fields;
mod fixture;
mod hostile;
mod inverses;
mod mutants;
mod plans;
mod ranges;
mod sharing;
mod sound;
