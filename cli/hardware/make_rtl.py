"""``numc rtl``: an operator as synthesizable SystemVerilog."""

from __future__ import annotations

from pathlib import Path

import click

from numc.cli import output

_EPILOG = """\b
The file has the step as a module, and without --stages a unit with an accumulator register; with chunks the modules
around them, and with a stochastic accumulator the shift register that draws its bits.

\b
Examples:
  numc rtl bf16_1_1 -o fma.sv
  numc rtl hopper_e4m3 --stages 4 -o unit.sv
"""


@click.command("rtl", epilog=_EPILOG)
@click.argument("operator", metavar="FMA")
@click.option("--stages", type=int, default=0, show_default=True, help="Clock cycles of a step; 0: no registers.")
@click.option("-o", "--output", "path", required=True, metavar="FILE.sv", help="The file; - prints it.")
def rtl_command(operator: str, stages: int, path: str) -> None:
    """Write SystemVerilog of an operator."""
    from numc.hardware.rtl import rtl
    from numc.numerics.grammar import parse_fma
    from numc.support.files import check_writable

    op = parse_fma(operator)
    if path != "-":
        check_writable(Path(path))
    with output.busy(f"RTL of {operator}"):
        text = rtl(op, stages)
    output.write_text(path, text)
