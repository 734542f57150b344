//! Integration tests of this crate, from outside: one binary, so that the crate is linked once.

mod damage;
mod encodings;
mod fixture;
mod hostile;
mod ranges;
mod sharing;
mod sound;
