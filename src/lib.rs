//! A memory compiler for ONNX.
