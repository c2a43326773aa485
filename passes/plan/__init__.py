"""Contractions: what their kernels look like, decided and then emitted."""
