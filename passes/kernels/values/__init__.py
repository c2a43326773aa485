"""Straight-line code on single values: roundings, scales of groups, random bits, math functions."""
