"""Free sizes of ONNX graphs: what follows from them, and where they stretch."""
