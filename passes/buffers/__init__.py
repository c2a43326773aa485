"""Passes on buffers: lifetimes, elementwise loops, math functions."""
