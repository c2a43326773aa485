"""ONNX files: reading and checking them, within the memory that a model may ask for."""
