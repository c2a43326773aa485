"""Contractions whose scales no kernel applies, written out in operations that kernels and loops compute."""
