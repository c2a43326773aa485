"""Observation of a training: what its numbers are in chosen steps."""
