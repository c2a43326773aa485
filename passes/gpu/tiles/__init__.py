"""Contractions on tiles of accumulators: packing, steps of k, and what kernels are made of."""
