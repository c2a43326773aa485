"""The models that are measured."""
