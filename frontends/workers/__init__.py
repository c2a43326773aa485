"""Processes apart, in which models are imported."""
