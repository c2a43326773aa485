"""The price of each part of a narrow arithmetic: layers, roles, operands and accumulators, one at a time."""
