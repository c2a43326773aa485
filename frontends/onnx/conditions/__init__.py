"""What operators of ONNX ask of the sizes and the elements of their inputs."""
