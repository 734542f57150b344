//! The intermediate representation to an ONNX model file.
