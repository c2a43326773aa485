"""Conditions on sizes and elements of tensors: as text, as code of a run."""
