"""PyTorch modules and exported programs to linalg."""
