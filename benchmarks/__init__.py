"""Measure numc's arithmetic beside the tools that a user would use otherwise. ``python -m benchmarks --help``."""
