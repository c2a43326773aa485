"""Profiles: what the parts of a program take of its time (docs/profiling.md)."""
