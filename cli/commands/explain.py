"""``numc explain``: show which operation computes in which arithmetic, and which rule decided."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from numc.cli import output
from numc.cli.graph_options import Drawn, graph_options, write_graph
from numc.cli.sensitivity_options import Asked, print_sensitivity, sensitivity_options
from numc.cli.source import (
    Arithmetic,
    arithmetic_options,
    check_model,
    fixed_options,
    program_from,
)
from numc.support.errors import NumcError
from numc.support.files import check_writable

_EPILOG = """\b
Examples:
  numc explain model.onnx --policy mixed.policy
  numc explain model.onnx --policy 'layer "conv*" fma = bf16_1_2'
  numc explain model.onnx --fma mp --json
  numc explain model.onnx --schedule schedule.svg --threads 16 --batch 8
  numc explain model.onnx --policy mixed.policy --graph model.html
  numc explain model.onnx --fma 'fmac(e4m3)' --sensitivity --data x.npy --report sensitivity.html
  numc explain model.pt2 --fma 'fmac(e4m3)' --sensitivity --training --data x.npy --labels y.npy
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2")
@arithmetic_options
@fixed_options
@click.option("--all", "want_all", is_flag=True, help="Also operations other than contractions.")
@click.option(
    "--schedule",
    metavar="[FILE.svg|FILE.png]",
    is_flag=False,
    flag_value="",
    help="Print, and draw, which operations could run side by side; the model is compiled and run.",
)
@graph_options
@sensitivity_options
@click.option(
    "--threads", type=click.IntRange(1, 1024), help="Of --graph and --sensitivity, or the machine of --schedule."
)
@click.option("--memory", type=click.FloatRange(1e-3), metavar="MIB", help="Of all buffers, a limit of --schedule.")
@click.option(
    "--batch", type=click.IntRange(1), help="Size of free dimensions in a run; default: 1, 64 for --sensitivity."
)
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def explain_command(
    model: str,
    arithmetic: Arithmetic,
    want_all: bool,
    schedule: str | None,
    drawn: Drawn,
    asked: Asked,
    threads: int | None,
    memory: float | None,
    batch: int | None,
    want_json: bool,
) -> None:
    """Print the arithmetic of every layer and the rule that decided it; no code is generated.

    Operations other than contractions are listed if a rule of the policy selects them, or with --all. With --graph, the
    layers are drawn on a page, too, and the model is run for their errors and times. With --schedule,
    the program runs on random inputs, and what its operations could take side by side is printed instead. With
    --sensitivity, it is what each layer, role and operand in the operator of --fma does to the outputs, and each width
    of its accumulator, with the rest of the model in fp32; with --training, what the forward pass, gradients of inputs
    and of weights in it do to the gradients of a step.
    """
    if asked.sensitivity:
        others = (("--schedule", schedule), ("--all", want_all or None), ("--memory", memory), ("--graph", drawn.graph))
        for option, value in others:
            if value is not None:
                raise NumcError(f"--sensitivity prints a table of its own: leave {option} out")
        print_sensitivity(model, arithmetic, asked, threads=threads, batch=batch, want_json=want_json)
        return
    drawn.check()
    asked.check_unused(drawn.graph is not None)
    if schedule is not None:
        if drawn.graph is not None:
            raise NumcError("--schedule prints a table of its own: leave --graph out, or --schedule")
        if want_all:
            raise NumcError("--all is about the table of the arithmetic: leave it out, or --schedule")
        _print_schedule(
            model, arithmetic, schedule, threads=threads, memory=memory, batch=batch or 1, want_json=want_json
        )
        return
    for option, number in (("--threads", threads), ("--memory", memory), ("--batch", batch)):
        if number is not None and (drawn.graph is None or option == "--memory"):
            raise NumcError(f"{option} is about a schedule: ask for one with --schedule")
    if drawn.graph is not None:
        write_graph(model, arithmetic, drawn, data=asked.data, threads=threads, batch=batch)
    _print_table(model, arithmetic, want_all, want_json)
    if drawn.graph is not None:
        output.say(f"wrote {drawn.graph}", err=not sys.stdout.isatty())


def _print_table(model: str, arithmetic: Arithmetic, want_all: bool, want_json: bool) -> None:
    """Print the arithmetic of every layer. Raises NumcError."""
    check_model(model)
    options = arithmetic.options()
    from numc.compiler.policy_table import policy_table
    from numc.frontends.load import load_file
    from numc.numerics.policy.table import decided

    with output.busy(f"reading {model}"):
        table = policy_table(load_file(model, arithmetic.fixed), options)
    if want_json:
        stored = {"quantised": table.quantised} if table.quantised else {}
        output.as_json({"policy": str(table.policy), "layers": table.layers, **stored})
        return
    shown = table.layers if want_all else decided(table.layers, table.policy)
    columns = ("layer", "kind", "shape", "fma", "ops", "rule")
    output.table(columns, [[row[c] or "-" for c in columns] for row in shown])
    from numc.numerics.notes import notes_in

    for note in notes_in(dict.fromkeys(row["fma"] for row in shown if row["fma"])):
        output.say(note, err=not sys.stdout.isatty())
    if table.quantised:
        output.say(f"the weights are those of {table.quantised}", err=not sys.stdout.isatty())
    hidden = len(table.layers) - len(shown)
    if hidden:
        click.echo(f"{hidden} other operations have the default (--all shows them)", err=not sys.stdout.isatty())


def _print_schedule(
    model: str,
    arithmetic: Arithmetic,
    file: str,
    *,
    threads: int | None,
    memory: float | None,
    batch: int,
    want_json: bool,
) -> None:
    """Compile and profile a model, and print and draw the schedule of its parts."""
    from numc.cli.inputs import gather
    from numc.runtime.library import default_threads
    from numc.studies.schedule.timeline import check_drawing

    if file:
        check_drawing(Path(file))
        check_writable(Path(file))
    program = program_from(model, arithmetic)
    inputs = gather(program, (), 0, batch)
    own = default_threads()
    with output.busy(f"running {model}"):
        # What fills several threads is seen on two at least. No one reads a roofline here: its peaks are not measured.
        profile = program.profile(inputs, threads=max(own, 2), peak=1.0, bandwidth=1.0)
    schedule = profile.schedule(threads=threads or own, memory=None if memory is None else round(memory * 2**20))
    if file:
        schedule.write(file)
    if want_json:
        output.as_json(schedule.as_json())
        return
    columns = ("stream", "begin (ms)", "end (ms)", "alone (ms)", "layer", "role", "kind")
    times = ("begin", "end", "alone")
    texts = ("layer", "role", "kind")
    cells = [
        (r["stream"], *(f"{1e3 * r[key]:.4f}" for key in times), *(r[key] or "-" for key in texts))
        for r in schedule.rows()
    ]
    output.table(columns, cells)
    output.say(str(schedule), err=not sys.stdout.isatty())
