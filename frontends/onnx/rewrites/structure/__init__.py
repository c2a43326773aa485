"""Control flow, functions and sequences, written without them."""
