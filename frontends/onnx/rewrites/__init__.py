"""Nodes that torch-mlir does not lower, or lowers to something else than ONNX defines, in terms of other nodes."""
