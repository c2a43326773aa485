"""Multiply-adds one after the other: exact ones, and cheap sequences that are exact under a condition."""
