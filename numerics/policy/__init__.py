"""Policies: which operation of a model computes in which arithmetic."""
