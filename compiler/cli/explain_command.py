"""``numc explain``: show which operation computes in which arithmetic, and which rule decided."""

from __future__ import annotations

import sys

import click

from numc.compiler.cli import output
from numc.compiler.cli.source import Arithmetic, arithmetic_options, check_model, parse_shapes, shape_option

_EPILOG = """\b
Examples:
  numc explain model.onnx --policy mixed.policy
  numc explain model.onnx --policy 'layer "conv*" fma = bf16_1_2'
  numc explain model.onnx --fma mp --json
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2")
@arithmetic_options
@shape_option
@click.option("--all", "want_all", is_flag=True, help="Also operations other than contractions.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def explain_command(
    model: str,
    arithmetic: Arithmetic,
    want_all: bool,
    want_json: bool,
) -> None:
    """Print the arithmetic of every layer and the rule that decided it; no code is generated.

    Operations other than contractions are listed if a rule of the policy selects them, or with --all.
    """
    check_model(model)
    fixed = parse_shapes(arithmetic.shapes)
    options = arithmetic.options()
    from numc.compiler.arithmetic.policy.table import decided
    from numc.compiler.policy_table import policy_table
    from numc.frontends.load import load_file

    with output.busy(f"reading {model}"):
        found = policy_table(load_file(model, fixed), options)
    if want_json:
        output.as_json({"policy": str(found.policy), "layers": found.layers})
        return
    shown = found.layers if want_all else decided(found.layers, found.policy)
    columns = ("layer", "kind", "shape", "fma", "ops", "rule")
    output.table(columns, [[row[c] or "-" for c in columns] for row in shown])
    hidden = len(found.layers) - len(shown)
    if hidden:
        click.echo(f"{hidden} other operations have the default (--all shows them)", err=not sys.stdout.isatty())
