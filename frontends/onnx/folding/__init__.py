"""Constant folding of ONNX graphs."""
