"""The RTL of named operators in Verilator beside compiled kernels: a million steps each, and whole dot products."""
