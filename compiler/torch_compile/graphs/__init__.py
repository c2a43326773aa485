"""Graphs that torch.compile traced: their roles, sizes, orders and parts, what they keep, and compute again."""
