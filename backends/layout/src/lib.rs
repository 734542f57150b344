//! The layout file memc.layout/1: its types, schema, and the forms that other tools read.
