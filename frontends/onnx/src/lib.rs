//! ONNX model bytes to the intermediate representation.
