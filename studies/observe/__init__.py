"""Observation of running programs: operands, results of layers, statistics, verification."""
