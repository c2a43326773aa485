"""The code of contractions for processors with vector instructions, as MLIR text: what a backend of them generates."""

from __future__ import annotations

from numc.passes.kernels.environment import DECLARATIONS
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.micro_kernel import kernel_text
from numc.passes.kernels.packing.convert_groups import extremes_text, quantize_text
from numc.passes.kernels.packing.expand_codes import expand_text
from numc.passes.kernels.packing.pack_code import (
    pack_dense_text,
    pack_text,
    pack_transposed_text,
    pack_turned_text,
)
from numc.passes.kernels.tasks.probe import probe_text


def kernel_functions(kernel: Kernel) -> list[str]:
    """The micro-kernel and what packs its operands: functions that all contractions with this kernel share."""
    texts = [kernel_text(kernel), pack_text(kernel, "rows"), pack_text(kernel, "lanes"), pack_dense_text(kernel)]
    if kernel.lanes.turned:
        texts.append(pack_transposed_text(kernel))
    if kernel.rows.turned:
        texts.append(pack_turned_text(kernel))
    if kernel.expands:
        texts.append(expand_text(kernel))
    sides = [side for side in ("rows", "lanes") if kernel.grouped(side) is not None]
    texts += [quantize_text(kernel, side) for side in sides]
    texts += [extremes_text(kernel, side) for side in sides if kernel.is_open(side)]
    return texts


def shared_functions() -> list[str]:
    """The common part of all kernels of a module, and the functions of the runtime that they call."""
    return [DECLARATIONS, probe_text()]
