"""``numc diff``: find where two programs of one model, or two folders of weights, begin to differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from numc.cli import output
from numc.cli.commands.compare import split_list
from numc.cli.grouped import grouped
from numc.cli.samples import DATA, LENGTH, STRIDE, TOKENS, Samples
from numc.cli.source import Arithmetic, arithmetic_options, fixed_options, is_model, program_from
from numc.support.errors import NumcError, shortened

if TYPE_CHECKING:
    from numc.runtime.abi import Input
    from numc.runtime.program import Program
    from numc.studies.difference import Difference

_EPILOG = """\b
differ: elements that are not the same bits. largest: of |b - a|. relative: sum (b - a)^2 / sum a^2.
ulp: so many steps from one float32 to the next, or less, for half of the elements.
A model is compiled first. --fma A,B gives each of two models its operator; B alone is left out
for the same model twice. Windows of --tokens run one after the other.
Exit status: 0, whether they differ or not, 2 for bad input.

\b
Examples:
  numc diff fp32.numc bf16.numc --data x.npz
  numc diff fp32.numc bf16.numc --data x.npz --json
  numc diff model.onnx --fma hopper_bf16,cdna3_bf16 --data x.npz
  numc diff gpt2/ --fma hopper_bf16,cdna3_bf16 --tokens val.bin --length 512
  numc diff gpt2/ tuned/ --fma mp --tokens val.bin --length 512
"""


@click.command("diff", epilog=_EPILOG)
@click.argument("a", metavar="PROGRAM|MODEL")
@click.argument("b", metavar="[PROGRAM|MODEL]", required=False)
@grouped("samples", Samples, DATA, TOKENS, LENGTH, STRIDE)
@arithmetic_options
@fixed_options
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of stochastic roundings; default: 0.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Number of threads; no bit depends on it.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def diff_command(
    a: str,
    b: str | None,
    samples: Samples,
    arithmetic: Arithmetic,
    seed: int,
    threads: int | None,
    want_json: bool,
) -> None:
    """Run two programs of one model side by side and compare the results of every contraction, bit by bit."""
    from numc.runtime.program import seed_number
    from numc.studies.diff import diff

    seed_number(seed)
    sides = _sides(a, b, arithmetic)
    data, _ = samples.read(a)
    programs = _programs(sides)
    inputs = _inputs(samples, data, programs[0].inputs)
    with output.progress("comparing layers") as progress:
        comparison = diff(programs[0], programs[1], inputs, threads=threads, seed=seed, progress=progress)
    if want_json:
        output.as_json(comparison.to_json())
        return
    columns = ("#", "layer", "a", "b", "differ", "largest", "relative", "ulp")
    rows: list[list[object]] = []
    for layer in comparison.layers:
        d, runs = layer.difference, f" ({layer.executions} times)" if layer.executions > 1 else ""
        rows.append([_place(layer.positions), f"{layer.name}{runs}", layer.fma_a, layer.fma_b, *_cells(d)])
    for result in comparison.outputs:
        if result.difference is None:
            shapes = [output.dims(shape) for shape in (result.shape_a, result.shape_b)]
            rows.append(["-", f"output {result.name}", *shapes, "-", "-", "-", "-"])
        else:
            rows.append(["-", f"output {result.name}", "-", "-", *_cells(result.difference)])
    output.table(columns, rows)
    if comparison.apart:
        names = ", ".join(comparison.apart)
        output.say(f"not compared, because they are not computed alike or not by a kernel: {names}")
    if comparison.first is not None:
        layer = comparison.first
        output.say(f"first difference: layer {_place(layer.positions)} '{layer.name}', {layer.difference.first}")
    elif comparison.same:
        click.echo("no difference: every bit that was compared is the same")
    else:
        first = next(o for o in comparison.outputs if o.difference is None or o.difference.differ)
        where = "" if first.difference is None else f", {first.difference.first}"
        output.say(f"first difference: after the last layer, in output '{first.name}'{where}")


def _sides(a: str, b: str | None, arithmetic: Arithmetic) -> list[tuple[str, Arithmetic]]:
    """Return both files, each with the arithmetic that it is compiled in. Raises NumcError if these do not fit."""
    fmas = [] if arithmetic.fma is None else split_list("--fma", arithmetic.fma)
    if b is None:
        if not is_model(a):
            raise NumcError(f"{shortened(a, 300)}: is one program: want two, or a model and --fma A,B")
        if len(fmas) != 2:
            raise NumcError(f"--fma: got {_count('operator', fmas)} for one model: want two with a comma between them")
    files = [a, a if b is None else b]
    models = [file for file in files if is_model(file)]
    if len(fmas) > 1 and len(fmas) != len(models):
        raise NumcError(
            f"--fma: got {_count('operator', fmas)} for {_count('model', models)}: want one for all, or one for each"
        )
    if not models:  # of two programs, neither takes an arithmetic
        return [(file, arithmetic) for file in files]
    own = iter(fmas if len(fmas) > 1 else [arithmetic.fma] * len(models))
    return [(file, replace(arithmetic, fma=next(own)) if is_model(file) else Arithmetic()) for file in files]


def _programs(sides: Sequence[tuple[str, Arithmetic]]) -> list[Program]:
    """Load or compile both. Raises NumcError for what is neither a program nor a model."""
    for _, arithmetic in sides:
        arithmetic.options()  # a wrong name of the second is said before the first is compiled
    return [program_from(file, arithmetic) for file, arithmetic in sides]


def _inputs(samples: Samples, data: Any, inputs: Sequence[Input]) -> Any:
    """Return the inputs by name: of one run, or of one for each window of tokens. Raises NumcError."""
    from numc.studies.data import named

    if samples.tokens is None:
        return named(data, inputs)
    return [named(data[n : n + 1], inputs) for n in range(len(data))]


def _count(noun: str, these: Sequence[str]) -> str:
    return f"{len(these)} {noun}{'' if len(these) == 1 else 's'}"


def _place(positions: tuple[int, ...]) -> str:
    """Return positions as a policy writes them: ``3``, or ``0..7`` for several."""
    if not positions:
        return "-"
    return str(positions[0]) if len(positions) == 1 else f"{positions[0]}..{positions[-1]}"


def _cells(d: Difference) -> list[object]:
    ulp = "-" if d.ulp_half is None else d.ulp_half if d.ulp_half < 1024 else f"2^{d.ulp_half.bit_length() - 1}"
    return [f"{d.differ} / {d.elements}", f"{d.largest:.3g}", f"{d.relative:.3g}", ulp]
