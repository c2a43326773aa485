"""Floating-point numbers by their parts."""
