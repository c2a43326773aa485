"""Intervals of differences between arms of a study, and of shares of few images: the uncertainty of a number."""
