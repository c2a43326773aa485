"""The conditions of operators of ONNX on the sizes and the elements of their inputs."""
