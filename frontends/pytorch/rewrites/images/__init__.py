"""Decompositions of operations on images."""
