"""The front end for ONNX files."""
