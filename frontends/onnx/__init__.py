"""ONNX files to linalg."""
