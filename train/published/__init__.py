"""Recipes of papers as classes: what a paper says is done, what it leaves open has a default of ours."""
