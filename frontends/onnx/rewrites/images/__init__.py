"""Rewrites of operators on images: sampling, windows and convolutions."""
