"""Parsing of MLIR text: in the process that compiles, and before that in a worker, for text that makes it crash."""

from __future__ import annotations

import re
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from numc.frontends.lowering.torch_mlir_passes import load_tm_tensor
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.passes import dialect
from numc.support.errors import ParseError, escaped

_AROUND = 60  # characters


def parse_module(text: str, name: str) -> ir.Module:
    """Parse MLIR text in a fresh context. Raises ParseError with the place if it does not parse or verify."""
    ctx = dialect.context()
    torch_dialect.register_dialect(ctx)
    if "tm_tensor." in text:
        load_tm_tensor(ctx)
    with ctx:
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ParseError(_explained(text, escaped(name), error)) from None


def _explained(text: str, name: str, error: ir.MLIRError) -> str:
    """The fault of a text and its place: the line and a caret below the place, if the parser names one."""
    first = next(iter(error.error_diagnostics), None)
    what = "not valid MLIR of this version"
    if first is None:
        return f"{name}: {what}: {str(error).splitlines()[0]}"
    message, lines = str(first.message).splitlines()[0], text.splitlines()
    location = re.search(r'"-":(\d+):(\d+)', str(first.location))
    if location is None or not 1 <= (line := int(location[1])) <= len(lines):
        return f"{name}: {what}: {message}"
    column = max(1, int(location[2]))
    begin = max(0, column - _AROUND)  # a long line is shown around the place
    shown = lines[line - 1][begin : column + _AROUND].replace("\t", " ")
    return f"{name}:{line}:{column}: {what}: {message}\n{shown}\n{' ' * (column - 1 - begin)}^"


def parse_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Parse the text in `parts` in a worker, and answer nothing. Raises as `parse_module` does."""
    parse_module(bytes(parts[0]).decode(), request["name"])
    return {}, []
