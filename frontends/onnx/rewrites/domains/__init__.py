"""Rewrites of operators that are in domains beside that of ONNX itself."""
