//! The intermediate representation of memc.
//!
//! A [`Module`] holds graphs, nodes, values and constants. It is in SSA form: each [`Value`] is defined once, by a graph
//! input, an initializer or a node. Nodes apply operators; what an operator means is not known here but in the operator table.
//!
//! # Order and time
//! Each graph lists its nodes in a topological order. At stage [`Stage::Imported`] and [`Stage::Typed`] that is the order of the file; from
//! [`Stage::Scheduled`] on it *is* the schedule: the node at position `s` runs at [`Step`] `s`, and nothing else says when it runs.
//! A [`LiveRange`] is half-open, `[start, end)`, and always derived from the order, never stored.
//!
//! # Bodies
//! If, Loop and Scan hold graphs as attributes. A body may read values of the graphs around it (captures). A body is planned alone and
//! charged to its node as scratch.
//!
//! # Memory
//! The [`Plan`] says which values share bytes ([`Alias`]) and where owners lie ([`Storage`]). A value without an alias owns its bytes.
//! Constants are references: [`Payload`] is a slice of the mapped file or the place of bytes in another file.
//!
//! # Editing
//! Frontends build with [`ModuleBuilder`], passes edit through [`Rewriter`]. Fields that carry invariants are private.

pub mod attribute;
pub mod codes;
pub mod diagnostic;
pub mod dim;
pub mod element;
pub mod entity;
pub mod module;
pub mod plan;
pub mod rewriter;
pub mod text;
pub mod types;
pub mod units;
pub mod verify;

pub use attribute::Attribute;
pub use diagnostic::{Diagnostic, Severity};
pub use dim::{Dim, DimExpr};
pub use element::ElementType;
pub use entity::{ConstId, EntityId, GraphId, Node, PrimaryMap, SecondaryMap, Space, Value};
pub use module::{ConstData, ConstOrigin, Definition, GraphData, Module, NodeData, Operator, Origin, Payload, Stage, ValueData};
pub use plan::{Alias, AliasKind, ArenaSize, Plan, Scratch, SpaceData, Storage};
pub use rewriter::{ModuleBuilder, Names, NewNode, Rewriter, Use, uses};
pub use types::{Shape, TensorType, ValueType};
pub use units::{Bytes, BytesError, LiveRange, Nanos, Step};
pub use verify::{Verified, verify};
