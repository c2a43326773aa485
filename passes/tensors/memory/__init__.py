"""Which tensors share memory, decided before they get buffers."""
