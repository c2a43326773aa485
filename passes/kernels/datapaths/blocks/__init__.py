"""Reductions that take products in blocks, as the matrix units of accelerators do."""
