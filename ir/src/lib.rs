//! Intermediate representation of memc: modules in SSA form, their memory plans, the text form and the
//! verifier.
//!
//! A [`Module`] holds graphs, nodes, values and constants. It is in SSA form: each [`Value`] is defined
//! once, by a graph input, an initializer or a node. A node applies an operator. The meaning of
//! operators is not part of this crate; the operator table defines it.
//!
//! # Order and time
//! Each graph lists its nodes in a topological order. At the stages [`Stage::Imported`] and
//! [`Stage::Typed`] this is the order of the file. From [`Stage::Scheduled`] on it is the schedule: the
//! node at position `s` runs at [`Step`] `s`, and no other data states a time. A [`LiveRange`] is
//! half-open, `[start, end)`. It is always derived from the order and never stored.
//!
//! # Bodies
//! If, Loop and Scan hold graphs as attributes (bodies). A body may read values of the enclosing graphs
//! (captures). Each body is planned separately, and its arena is charged to its node as scratch.
//!
//! # Memory
//! The [`Plan`] states which values share bytes ([`Alias`]) and at which offset each owner is placed
//! ([`Storage`]). A value without an alias owns its bytes. Constants are references: a [`Payload`] is a
//! slice of the mapped file or a position in another file.
//!
//! # Editing
//! Frontends build modules with [`ModuleBuilder`]; passes edit them through [`Rewriter`]. Fields with
//! invariants are private.

pub mod attribute;
pub mod codes;
pub mod diagnostic;
pub mod dim;
pub mod element;
pub mod entity;
mod largest;
pub mod module;
pub mod nearest;
mod pattern;
pub mod plan;
pub mod rewriter;
pub mod text;
pub mod types;
pub mod units;
pub mod verify;

pub use attribute::Attribute;
pub use diagnostic::{Diagnostic, Severity};
pub use dim::{
    Atom, Comparison, Dim, DimExpr, Domain, Envelope, Factor, Interval, Limit, LimitError, Polynomial, Range,
    RangeError, Ranges,
};
pub use element::ElementType;
pub use entity::{ConstId, EntityId, GraphId, Node, PrimaryMap, SecondaryMap, Space, Value};
pub use module::{
    ConstData, ConstOrigin, Definition, GraphData, Module, NodeData, Operator, Origin, Payload, Stage,
    ValueData,
};
pub use nearest::nearest;
pub use pattern::matches;
pub use plan::{Alias, AliasKind, ArenaSize, Plan, Scratch, SpaceData, Storage};
pub use rewriter::{ModuleBuilder, Names, NewNode, Rewriter, Use, uses};
pub use types::{Shape, TensorType, ValueType};
pub use units::{Bytes, BytesError, LiveRange, Nanos, Step};
pub use verify::{Verified, verify};
