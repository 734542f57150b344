//! Passes, pipelines and analyses over the intermediate representation.
