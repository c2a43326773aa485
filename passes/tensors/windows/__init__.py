"""Windows: reductions of few elements, and parts of an image."""
