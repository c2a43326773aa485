"""Contractions that become fewer, smaller or larger ones, before kernels are planned for them."""
