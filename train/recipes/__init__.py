"""Recipes: the arithmetic of the next step, decided after each step."""
