"""Binary32 numbers as Python integers, and their exact rounding; `reference/` and `kinds/` are defined by them."""
