//! The intermediate representation of memc: graph, types, plan, text form, verifier, diagnostics.
