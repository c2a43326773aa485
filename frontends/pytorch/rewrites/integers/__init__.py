"""Decompositions of operations on integers, and of sequences of them."""
