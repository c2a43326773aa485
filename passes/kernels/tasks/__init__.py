"""Tasks: blocked loops around the micro-kernels, and the ways through a tile."""
