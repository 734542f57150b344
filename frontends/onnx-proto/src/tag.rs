//! Field numbers of the ONNX messages that the splice writer handles as bytes.

/// Field numbers of `ModelProto`.
pub mod model {
    /// `ir_version`.
    pub const IR_VERSION: u32 = 1;
    /// `graph`.
    pub const GRAPH: u32 = 7;
    /// `opset_import`.
    pub const OPSET_IMPORT: u32 = 8;
    /// `metadata_props`.
    pub const METADATA_PROPS: u32 = 14;
    /// `functions`.
    pub const FUNCTIONS: u32 = 25;
}

/// Field numbers of `GraphProto`.
pub mod graph {
    /// `node`.
    pub const NODE: u32 = 1;
    /// `name`.
    pub const NAME: u32 = 2;
    /// `initializer`.
    pub const INITIALIZER: u32 = 5;
    /// `input`.
    pub const INPUT: u32 = 11;
    /// `output`.
    pub const OUTPUT: u32 = 12;
    /// `value_info`.
    pub const VALUE_INFO: u32 = 13;
    /// `sparse_initializer`.
    pub const SPARSE_INITIALIZER: u32 = 15;
    /// `metadata_props`.
    pub const METADATA_PROPS: u32 = 16;
}

/// Field numbers of `NodeProto`.
pub mod node {
    /// `input`.
    pub const INPUT: u32 = 1;
    /// `output`.
    pub const OUTPUT: u32 = 2;
    /// `name`.
    pub const NAME: u32 = 3;
    /// `attribute`.
    pub const ATTRIBUTE: u32 = 5;
    /// `metadata_props`.
    pub const METADATA_PROPS: u32 = 9;
}

/// Field numbers of `AttributeProto`.
pub mod attribute {
    /// `name`.
    pub const NAME: u32 = 1;
    /// `t`, the tensor.
    pub const T: u32 = 5;
    /// `g`, the graph.
    pub const G: u32 = 6;
}

/// Field numbers of `TensorProto`.
pub mod tensor {
    /// `name`.
    pub const NAME: u32 = 8;
    /// `raw_data`.
    pub const RAW_DATA: u32 = 9;
}

/// Field numbers of `ValueInfoProto`.
pub mod value_info {
    /// `name`.
    pub const NAME: u32 = 1;
    /// `type`.
    pub const TYPE: u32 = 2;
    /// `metadata_props`.
    pub const METADATA_PROPS: u32 = 4;
}

/// Field numbers of `TypeProto`.
pub(crate) mod value_type {
    /// `tensor_type`.
    pub(crate) const TENSOR: u32 = 1;
}

/// Field numbers of `TypeProto.Tensor`.
pub(crate) mod tensor_type {
    /// `shape`.
    pub(crate) const SHAPE: u32 = 2;
}

/// Field numbers of `TensorShapeProto`.
pub(crate) mod shape {
    /// `dim`.
    pub(crate) const DIM: u32 = 1;
}

/// Field numbers of `TensorShapeProto.Dimension`.
pub(crate) mod dimension {
    /// `dim_value`.
    pub(crate) const VALUE: u32 = 1;
    /// `dim_param`.
    pub(crate) const PARAM: u32 = 2;
}

/// Field numbers of `StringStringEntryProto`, the element of every `metadata_props`.
pub(crate) mod entry {
    /// `key`.
    pub(crate) const KEY: u32 = 1;
}
