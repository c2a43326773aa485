"""``numc model``: a step of an operator as a C++17 header, bit for bit."""

from __future__ import annotations

from pathlib import Path

import click

from numc.cli import output

_EPILOG = """\b
Functions on codes: `step` gives the new accumulator; with chunks, `start`, `total` and `finish` surround them. Numbers
of up to 64 bits are passed as such, wider ones as words of 32 bits, the lowest first, as DPI-C passes them.

\b
Examples:
  numc model bf16_1_1 -o fma.h
  numc model 'fmac(e4m3, chunk=8)' -o fma.h
"""


@click.command("model", epilog=_EPILOG)
@click.argument("operator", metavar="FMA")
@click.option("-o", "--output", "path", required=True, metavar="FILE.h", help="The header; - prints it.")
def model_command(operator: str, path: str) -> None:
    """Write a C++ model of an operator, without dependencies."""
    from numc.hardware.model import model
    from numc.numerics.grammar import parse_fma
    from numc.support.files import check_writable

    op = parse_fma(operator)
    if path != "-":
        check_writable(Path(path))
    with output.busy(f"model of {operator}"):
        text = model(op)
    output.write_text(path, text)
