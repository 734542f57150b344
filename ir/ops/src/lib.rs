//! What memc knows of each operator: one table, one file a family.
