"""Graphs of aten operations, rewritten as wholes."""
