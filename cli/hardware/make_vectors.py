"""``numc vectors``: stimulus and expected results of an operator, for the test bench of a hardware unit."""

from __future__ import annotations

from pathlib import Path

import click

from numc.cli import output

_EPILOG = """\b
One line a step, in hexadecimal: steps.csv, and a file for $readmemh of each port; whole dot products in dots.csv and
dot_*.hex; mulAdd.txt has TestFloat's layout where the operator is an IEEE-754 FMA; vectors.json says what is covered.

\b
Examples:
  numc vectors bf16_1_1 -o vectors
  numc vectors 'fmac(e4m3)' --kind corner -o vectors
  numc vectors hopper_e4m3 --count 100000 --kind random,dot --seed 7 -o vectors
"""


@click.command("vectors", epilog=_EPILOG)
@click.argument("operator", metavar="FMA")
@click.option(
    "--count", type=click.IntRange(1), default=1000, show_default=True, help="Random steps, and steps of dots."
)
@click.option("--kind", default="corner,random,dot", show_default=True, metavar="KIND,...", help="What is made.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is random.")
@click.option("-o", "--output", "folder", required=True, metavar="DIR", help="The folder to make.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def vectors_command(operator: str, count: int, kind: str, seed: int, folder: str, want_json: bool) -> None:
    """Write test vectors of an operator: directed corner cases, random steps and whole dot products."""
    from numc.hardware.vector_files import checked_kinds, vectors
    from numc.numerics.grammar import parse_fma
    from numc.support.files import check_new_folder, write_folder

    op, kinds, path = parse_fma(operator), checked_kinds(kind), Path(folder)
    check_new_folder(path)
    with output.busy(f"vectors of {operator}"):
        made = vectors(op, kinds, count, seed)
        write_folder(path, made.files)
    if want_json:
        output.as_json(made.as_json())
        return
    rows: list[tuple[str, int]] = [
        *made.coverage.rows(),
        ("steps", made.coverage.steps),
        ("dot products", made.dots),
    ]
    if made.unencoded:
        rows.append(("left out: a NaN that the accumulator has no code for", made.unencoded))
    output.table(["what", "count"], rows)
