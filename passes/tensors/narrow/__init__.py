"""Tensors that are held in fewer bytes."""
