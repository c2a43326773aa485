"""Packed panels: their layout, and the code that makes them."""
