"""Frontends: from a model file to a module of linalg on tensors."""
