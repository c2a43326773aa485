"""Chains of operations that are computed some rows at a time."""
