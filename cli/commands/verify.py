"""``numc verify``: recompute sampled outputs of every contraction by the exact reference."""

from __future__ import annotations

import click

from numc.cli import output
from numc.cli.inputs import Inputs, gather, input_options
from numc.cli.source import Arithmetic, arithmetic_options, fixed_options, program_from

_EPILOG = """\b
Exit status: 0 for no mismatch, 1 for a mismatch, 2 for bad input.

\b
Examples:
  numc verify model.numc
  numc verify model.numc --samples 20000 --input x.npy
  numc verify model.onnx --fma bf16_3_3
"""


@click.command("verify", epilog=_EPILOG)
@click.argument("path", metavar="PROGRAM|MODEL")
@click.option("--samples", type=click.IntRange(1), default=2000, show_default=True, help="Outputs to recompute.")
@input_options
@arithmetic_options
@fixed_options
@click.option("--json", "want_json", is_flag=True, help="Print the report as JSON.")
@click.pass_context
def verify_command(
    context: click.Context,
    path: str,
    samples: int,
    given: Inputs,
    arithmetic: Arithmetic,
    want_json: bool,
) -> None:
    """Run a program and recompute sampled outputs of every contraction exactly; every bit has to agree.

    Inputs that are not given are random, with the seed of --random-input or 0.
    """
    program = program_from(path, arithmetic)
    inputs = gather(program, given.files, seed := given.seed or 0, given.batch)

    from numc.studies.observe.verify import verify

    with output.progress("verifying") as progress:
        report = verify(program, inputs, samples=samples, seed=seed, threads=given.threads, progress=progress)
    columns = ("id", "name", "fma", "passes", "checked", "mismatches")
    rows = [(row.id, row.name, row.fma, row.passes, row.checked, row.mismatches) for row in report.rows]
    if want_json:
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        output.as_json(
            {"contractions": listed, "checked": report.checked, "mismatches": report.mismatches, "first": report.first}
        )
    else:
        output.table(columns, rows)
        nothing = "" if report.rows else ": the program has no contraction"
        asked = context.get_parameter_source("samples") is not click.core.ParameterSource.DEFAULT
        if report.rows and asked and report.checked < samples:
            nothing = f", not {samples}: contractions with fewer outputs than their share are checked whole"
        click.echo(f"{report.mismatches} mismatches in {report.checked} outputs checked{nothing}")
        if report.first:
            output.say(f"first mismatch: {report.first}")
    if report.mismatches:
        context.exit(1)
