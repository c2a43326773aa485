"""The commands that make hardware of an operator, one file each."""
