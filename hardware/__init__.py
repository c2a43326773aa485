"""Operators as hardware: test vectors, models in C++ and SystemVerilog, and what synthesis makes of them."""
