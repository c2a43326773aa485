"""``numc diff``: find where two programs of one model begin to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numc.cli import output
from numc.cli.inputs import data_option, read_data

if TYPE_CHECKING:
    from numc.studies.difference import Difference

_EPILOG = """\b
differ: elements that are not the same bits. largest: of |b - a|. relative: sum (b - a)^2 / sum a^2.
ulp: so many steps from one float32 to the next, or less, for half of the elements.
Exit status: 0, whether they differ or not, 2 for bad input.

\b
Examples:
  numc diff fp32.numc bf16.numc --data x.npz
  numc diff fp32.numc bf16.numc --data x.npz --json
"""


@click.command("diff", epilog=_EPILOG)
@click.argument("a", metavar="A.numc")
@click.argument("b", metavar="B.numc")
@data_option
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of stochastic roundings; default: 0.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Number of threads; no bit depends on it.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def diff_command(a: str, b: str, data: tuple[str, ...], seed: int, threads: int | None, want_json: bool) -> None:
    """Run two programs of one model side by side and compare the results of every contraction, bit by bit."""
    from numc.runtime.program import seed_number
    from numc.studies.data import named
    from numc.studies.diff import diff, load_program

    seed_number(seed)
    programs = load_program(a), load_program(b)
    inputs = named(read_data(data), programs[0].inputs)
    with output.progress("comparing layers") as progress:
        found = diff(*programs, inputs, threads=threads, seed=seed, progress=progress)
    if want_json:
        output.as_json(found.to_json())
        return
    columns = ("#", "layer", "a", "b", "differ", "largest", "relative", "ulp")
    rows: list[list[object]] = []
    for layer in found.layers:
        d, runs = layer.difference, f" ({layer.executions} times)" if layer.executions > 1 else ""
        rows.append([_place(layer.positions), f"{layer.name}{runs}", layer.fma_a, layer.fma_b, *_cells(d)])
    for result in found.outputs:
        if result.difference is None:
            shapes = [output.dims(shape) for shape in (result.shape_a, result.shape_b)]
            rows.append(["-", f"output {result.name}", *shapes, "-", "-", "-", "-"])
        else:
            rows.append(["-", f"output {result.name}", "-", "-", *_cells(result.difference)])
    output.table(columns, rows)
    if found.apart:
        names = ", ".join(found.apart)
        output.say(f"not compared, because they are not computed alike or not by a kernel: {names}")
    if found.first is not None:
        layer = found.first
        output.say(f"first difference: layer {_place(layer.positions)} '{layer.name}', {layer.difference.first}")
    elif found.same:
        click.echo("no difference: every bit that was compared is the same")
    else:
        first = next(o for o in found.outputs if o.difference is None or o.difference.differ)
        where = "" if first.difference is None else f", {first.difference.first}"
        output.say(f"first difference: after the last layer, in output '{first.name}'{where}")


def _place(positions: tuple[int, ...]) -> str:
    """Return positions as a policy writes them: ``3``, or ``0..7`` for several."""
    if not positions:
        return "-"
    return str(positions[0]) if len(positions) == 1 else f"{positions[0]}..{positions[-1]}"


def _cells(d: Difference) -> list[object]:
    ulp = "-" if d.ulp_half is None else d.ulp_half if d.ulp_half < 1024 else f"2^{d.ulp_half.bit_length() - 1}"
    return [f"{d.differ} / {d.elements}", f"{d.largest:.3g}", f"{d.relative:.3g}", ulp]
