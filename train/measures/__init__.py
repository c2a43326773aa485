"""Measures of a training: metrics, and the time to a target."""
