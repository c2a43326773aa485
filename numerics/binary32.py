"""The encoding of binary32, in which numc holds every value that it computes with."""

from __future__ import annotations

INFINITY = 0x7F800000
"""The bits of infinity, which are those of the exponent. Magnitudes below it are finite, those above it NaN."""
NAN = 0x7FC00000
"""The bits of the NaN that results have."""
