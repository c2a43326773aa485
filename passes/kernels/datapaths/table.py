"""Which datapath serves an operator. A datapath that a text can name (``datapath=...``) is one line of `DATAPATHS`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from numc.numerics.defined import definition_of, is_defined
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks import dot_of_two
from numc.passes.kernels.datapaths.blocks.amd import DOT, PAIRWISE, STAGED
from numc.passes.kernels.datapaths.blocks.block_scales import SCALED
from numc.passes.kernels.datapaths.blocks.fused import FUSED
from numc.passes.kernels.datapaths.chunked import chunked
from numc.passes.kernels.datapaths.counting import counting
from numc.passes.kernels.datapaths.datapath import NOTHING, Datapath, Drawn
from numc.passes.kernels.datapaths.defined.registers import REGISTERS
from numc.passes.kernels.datapaths.defined.traced_blocks import DEFINED
from numc.passes.kernels.datapaths.group_sums import GROUPS
from numc.passes.kernels.datapaths.hardware import AMX_BF16, AVX512_BF16
from numc.passes.kernels.datapaths.integers import INTEGERS
from numc.passes.kernels.datapaths.saturated import SATURATED
from numc.passes.kernels.datapaths.steps import flushing, guarded, overflowing
from numc.passes.kernels.datapaths.stochastic import stochastic
from numc.passes.kernels.setting import Parts
from numc.passes.kernels.ssa import Value

DATAPATHS: Mapping[str, Datapath] = MappingProxyType({
    "fp32": guarded.FP32,
    "exact": guarded.EXACT,
    "fused": FUSED,
    "dot": DOT,
    "pairwise": PAIRWISE,
    "staged": STAGED,
    "amx_bf16": AMX_BF16,
    "avx512_bf16": AVX512_BF16,
    "fmac2": GROUPS,
    "int": GROUPS,
    "integers": INTEGERS,
    "bytes": INTEGERS,
})  # fmt: skip


@cache
def datapath_of(fma: Fma, *, statistics: bool = False, rows: int = 1, flushes: bool = True) -> Datapath:
    """The datapath of an operator; with `statistics`, one that counts its additions if it has any to count.

    rows: of a tile. The steps of one row are also taken where lanes are (unpacked_row.py), without a scale. flushes:
    whether the processor's mode serves steps that flush (`InstructionSet.flushes_rounded`).
    """
    if fma.groups:
        datapath = SCALED if fma.multiplies == "elements" else GROUPS
        if dict(fma.datapath.parameters).get("saturate"):
            datapath = SATURATED
        if fma.steps_draw:
            datapath = stochastic(datapath)
    else:
        if is_defined(fma):
            datapath = REGISTERS if definition_of(fma).register else DEFINED
        else:
            datapath = DATAPATHS[fma.datapath.name]
            if dot_of_two.applies(fma):
                datapath = dot_of_two.in_binary32(datapath)
        if rows > 1 and not statistics:
            if flushes and flushing.applies(fma):
                datapath = flushing.FLUSHING
            elif overflowing.applies(fma):
                datapath = overflowing.overflowing(datapath)
        if fma.datapath.in_runs:
            datapath = chunked(datapath, fma)
        if fma.steps_draw:
            datapath = stochastic(datapath)
    return counting(datapath) if statistics and datapath.additions(fma) else datapath


def emit_fma(code: Code, a: Parts, b: Parts, c: Value, fma: Fma, drawn: Drawn = NOTHING) -> Value:
    """Append one step ``D = round_acc(sum of products + C)`` on the parts of `a` and `b`, exact for every input."""
    step = datapath_of(fma).step
    assert step is not None, f"'{fma}' is computed in reductions alone"
    return step(code, fma, a, b, c, drawn)
