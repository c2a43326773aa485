"""Decompositions of operations, one file for each family; decompositions.py has the table of all."""
