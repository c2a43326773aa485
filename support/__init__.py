"""Helpers that the whole package may use: errors, files, switches, versions."""
