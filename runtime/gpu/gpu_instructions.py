"""Functions of Gluon that are one instruction on some GPUs, and a few with the same bits on others."""

from __future__ import annotations

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def at_least(x, least):  # type: ignore[no-untyped-def]
    """Whichever of `x`, which is no NaN, and `least`, a positive number, has the larger magnitude, signed as `x`."""
    if tl.target_info.cuda_capability_geq(8, 6):
        return gl.inline_asm_elementwise(
            asm="max.xorsign.abs.f32 $0, $1, $2;",
            constraints="=f,f,f",
            args=[x, least],
            dtype=gl.float32,
            is_pure=True,
            pack=1,
        )
    bits = x.to(gl.int32, bitcast=True)
    size = (bits & 0x7FFFFFFF).to(gl.float32, bitcast=True)
    larger = gl.where(size > least, size, least).to(gl.int32, bitcast=True)
    return (larger | (bits & -0x80000000)).to(gl.float32, bitcast=True)
