"""Parsing of MLIR text: in the process that compiles, and before that in a worker, for text that makes it crash."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from numc.frontends.lowering.torch_mlir_passes import load_tm_tensor
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.passes import dialect
from numc.support.errors import NumcError


def parse_module(text: str, name: str) -> ir.Module:
    """Parse MLIR text in a fresh context. Raises NumcError with the location if it does not parse or verify."""
    ctx = dialect.context()
    torch_dialect.register_dialect(ctx)
    if "tm_tensor." in text:
        load_tm_tensor(ctx)
    with ctx:
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            first = next((str(d) for d in error.error_diagnostics), str(error)).splitlines()[0]
            raise NumcError(f"{name}: not valid MLIR of this version: {first}") from None


def parse_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Parse the text in `parts` in a worker, and answer nothing. Raises as `parse_module` does."""
    parse_module(bytes(parts[0]).decode(), request["name"])
    return {}, []
