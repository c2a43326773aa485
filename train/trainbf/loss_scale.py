"""Range-aware loss scaling: gradients are scaled to the range of the activations (Xie et al., TrainBF)."""

from __future__ import annotations

import math

from numc.support.errors import NumcError, shown

START = 2.0**24
_LARGEST = 2.0**120


class RangeLossScale:
    """The scale S of the loss, a power of two, that brings the spread of the scaled gradient near to R.

    If spread S / R is within (1 / band, band), S stays; above it is halved, below it is doubled.
    """

    def __init__(self, band: float = 2.0, start: float = START) -> None:
        """Take the band; 1.1 is the literal rule of the text, which never comes to rest, because S moves by 2.

        Raises NumcError for a band that is not above 1, and a start that is no power of two from 2^-120 to 2^120.
        """
        if isinstance(band, bool) or not isinstance(band, int | float) or not 1 < band < math.inf:
            raise NumcError(f"band: got {shown(band)}, want a number above 1, such as 2")
        fits = isinstance(start, int | float) and 1 / _LARGEST <= start <= _LARGEST and math.frexp(start)[0] == 0.5
        if isinstance(start, bool) or not fits:
            raise NumcError(f"loss scale: got {shown(start)}, want a power of two from 2^-120 to 2^120")
        self.band, self.start, self.scale = float(band), float(start), float(start)

    def update(self, spread: float, R: float = 1.0) -> str:  # noqa: N803
        """Take the spread of a step's gradient, unscaled, and return what was done and why, or "".

        spread: the standard deviation over all weight gradients together. It is infinite or NaN if the scaled gradient
        overflowed; then S is halved. A spread of zero changes nothing.
        """
        before = self.scale
        if not math.isfinite(spread):
            self.scale = max(before / 2, 1 / _LARGEST)
            return f"loss scale 2^{_log2(before)} -> 2^{_log2(self.scale)}: a gradient is not finite, no update"
        ratio = spread * before / R if R else math.inf
        if ratio == 0 or 1 / self.band < ratio < self.band:
            return ""
        self.scale = min(max(before / 2 if ratio >= self.band else before * 2, 1 / _LARGEST), _LARGEST)
        if self.scale == before:
            return ""
        moved = f"loss scale 2^{_log2(before)} -> 2^{_log2(self.scale)}"
        return f"{moved}: spread / R is {ratio:.4g}, {'>=' if ratio >= self.band else '<='} {self._bound(ratio)}"

    def _bound(self, ratio: float) -> str:
        return f"{self.band:.4g}" if ratio >= self.band else f"1 / {self.band:.4g}"


def _log2(scale: float) -> int:
    return math.frexp(scale)[1] - 1
