"""Transforms of short pieces of a signal, by Fourier transforms, which torch decomposes itself."""

from __future__ import annotations

import torch

aten = torch.ops.aten

#: The Fourier transforms of torch.fft, which become the operators prims.fft_r2c, fft_c2c and fft_c2r.
TRANSFORMS = tuple(
    getattr(aten, f"fft_{name}{size}")
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for size in ("", "2", "n")
)


def stft(
    signal: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> torch.Tensor:
    """aten.stft of a signal that is padded already: [..., bins, frames]."""
    if align_to_window:
        return NotImplemented
    step = n_fft // 4 if hop_length is None else hop_length
    frames = signal.unfold(-1, n_fft, step)
    if window is not None or win_length not in (None, n_fft):
        frames = frames * _window(signal, n_fft, win_length, window)
    half = (
        onesided if onesided is not None else not (signal.is_complex() or (window is not None and window.is_complex()))
    )
    norm = "ortho" if normalized else "backward"
    spectrum = torch.fft.rfft(frames, norm=norm) if half else torch.fft.fft(frames, norm=norm)
    spectrum = spectrum.transpose(-1, -2)
    return spectrum if return_complex else torch.view_as_real(spectrum)


def istft(
    spectrum: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """aten.istft: the frames are added where they overlap, and divided by the sum of the squares of their windows."""
    step = n_fft // 4 if hop_length is None else hop_length
    norm = "ortho" if normalized else "backward"
    half = onesided if onesided is not None else spectrum.shape[-2] != n_fft
    turned = spectrum.transpose(-1, -2)
    if return_complex or not half:
        frames = torch.fft.ifft(turned, norm=norm)
        frames = frames if return_complex else frames.real
    else:
        frames = torch.fft.irfft(turned, n=n_fft, norm=norm)
    weights = _window(frames, n_fft, win_length, window)
    count = frames.shape[-2]
    size = n_fft + step * (count - 1)
    places = (torch.arange(count)[:, None] * step + torch.arange(n_fft)[None, :]).reshape(-1)

    def summed(pieces: torch.Tensor) -> torch.Tensor:
        flat = pieces.flatten(-2)
        return flat.new_zeros([*flat.shape[:-1], size]).index_add(-1, places, flat)

    signal = summed(frames * weights)
    norms = summed((weights * weights).expand(count, n_fft))
    begin = n_fft // 2 if center else 0
    end = begin + length if length is not None else size - n_fft // 2 if center else size
    kept = slice(begin, min(end, size))
    restored = signal[..., kept] / norms[kept]
    return restored if length is None or end <= size else torch.nn.functional.pad(restored, (0, end - size))


def _window(like: torch.Tensor, n_fft: int, win_length: int | None, window: torch.Tensor | None) -> torch.Tensor:
    """The window in the middle of `n_fft` numbers, the others of which are 0."""
    size = n_fft if win_length is None else win_length
    if window is None:
        window = torch.ones(size, dtype=like.real.dtype if like.is_complex() else like.dtype)
    before = (n_fft - size) // 2
    return window if size == n_fft else torch.nn.functional.pad(window, (before, n_fft - size - before))
