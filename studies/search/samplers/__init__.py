"""Samplers: what proposes the candidates of a search."""
