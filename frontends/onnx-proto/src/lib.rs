//! ONNX protobuf messages and the wire-level splice writer; the only room that knows protobuf.
