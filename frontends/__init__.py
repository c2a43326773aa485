"""The front ends: from a model to linalg on tensors."""
