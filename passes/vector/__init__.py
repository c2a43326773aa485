"""buffers -> vector: everything but contractions becomes loops over memory, in functions of their own."""
