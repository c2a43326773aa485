"""Kernels of the operators that users define: the graph of a definition, made vectors."""
