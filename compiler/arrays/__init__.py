"""The arithmetic on arrays: rounding, operators, packed storage, statistics of tensors."""
