"""The report of a comparison: one HTML page, and its plots as files."""
