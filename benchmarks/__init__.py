"""What the arithmetic costs, next to what a user would otherwise take. ``python -m benchmarks --help``."""
