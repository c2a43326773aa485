"""Types of ONNX in which a program does not compute, and those that carry their values."""
