"""Repairs of torch-mlir: what it lacks, or lowers to something else, for both front ends."""
