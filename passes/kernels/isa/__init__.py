"""Instruction sets, one file each: vector width, registers, micro-tile, and instructions that others lack."""
