"""Recipes in the trainers of other libraries."""
