//! ONNX protobuf messages and the splice writer; the only crate that knows protobuf.
//!
//! Contents:
//!
//! * [`onnx`]: the messages, generated from the vendored `proto/onnx.proto`;
//! * [`ModelFile`]: a model mapped into memory and decoded without copying its weights, with the byte
//!   span of every field of the model and of its main graph ([`ModelSpans`], [`GraphSpans`]);
//! * [`ModelSplice`]: a new model file made from an old one and a [`ModelEdit`]. Every field that the
//!   edit does not name keeps its bytes, including fields unknown to this version of ONNX. Weights are
//!   not copied to the heap.
//!
//! ```
//! use memc_onnx_proto::{ModelEdit, ModelFile, ModelSplice, onnx};
//! use prost::Message as _;
//!
//! let model = onnx::ModelProto {
//!     ir_version: Some(10),
//!     graph: Some(onnx::GraphProto { name: Some("empty".into()), ..Default::default() }),
//!     ..Default::default()
//! };
//! let file = ModelFile::from_bytes(model.encode_to_vec())?;
//! let edit = ModelEdit { ir_version: Some(11), ..ModelEdit::default() };
//! let written = ModelSplice::new(&file, &edit)?.to_vec();
//! assert_eq!(onnx::ModelProto::decode(written.as_slice())?.ir_version, Some(11));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod edit;
mod error;
mod extents;
mod file;
#[path = "gen/onnx.rs"]
#[rustfmt::skip]
pub mod onnx;
mod rewrite;
mod rope;
pub mod schema;
mod spans;
mod splice;
mod splice_graph;
mod tag;
pub mod wire;

pub use edit::{GraphEdit, METADATA_PREFIX, Metadata, ModelEdit, NodeEdit, NodePiece, TensorSource};
pub use error::{FileKind, ReadError, SIZE_LIMIT, SpliceError};
pub use file::ModelFile;
pub use spans::{GraphSpans, ModelSpans, attribute_graph, attribute_tensor};
pub use splice::ModelSplice;
pub use tag::{attribute, graph, model, node, tensor, value_info};
pub use wire::{Field, WireError, WireType};
