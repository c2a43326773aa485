"""Weights that a checkpoint stores quantised: one file for each scheme, and the table of them in schemes.py."""
