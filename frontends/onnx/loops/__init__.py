"""Loops of ONNX graphs that run as often as a run says."""
