"""``numc cost``: the hardware that an arithmetic takes, layer by layer."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from numc.cli import output
from numc.cli.source import Arithmetic, arithmetic_options, check_model, fixed_options

if TYPE_CHECKING:
    from numc.studies.cost import Report

_EPILOG = """\b
Area units are significand bits of A times those of B for every multiplier; an fp32 FMA has 576.

\b
Examples:
  numc cost model.onnx --fma 'bf16_2_2{3}'
  numc cost model.onnx --policy mixed.policy --batch 32 --machine thesis
  numc cost model.onnx --policy mixed.policy --machine mine.toml --json
  numc cost model.onnx --policy highbfp --batch 256 --machine fast --training
  numc cost model.onnx --fma 'bf16_2_2{4}' --fma-share 0.395
  numc cost model.onnx --fma 'fmac(e4m3)' --synthesize
"""


@click.command("cost", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2")
@arithmetic_options
@fixed_options
@click.option("--batch", type=click.IntRange(1), default=1, help="Size of free dimensions.", show_default=True)
@click.option("--machine", metavar="FILE|fast|thesis|vpgpu", help="Estimate times for it: `numc list machines`.")
@click.option("--training", is_flag=True, help="A training step: the gradients of every contraction, too.")
@click.option("--align", type=int, metavar="BITS", help="Store values in words of 8, 16, 32 or 64 bits.")
@click.option("--fma-share", type=float, metavar="F", help="Share of FMAs in a step, 0 to 1: speed-up of the step.")
@click.option("--synthesize", is_flag=True, help="Areas from synthesis: the table of numc, otherwise Yosys runs.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def cost_command(
    model: str,
    arithmetic: Arithmetic,
    batch: int,
    machine: str | None,
    training: bool,
    align: int | None,
    fma_share: float | None,
    synthesize: bool,
    want_json: bool,
) -> None:
    """Count multiply-adds, area, bytes and passes of every contraction, and estimate times for a machine."""
    check_model(model)
    options = arithmetic.options()
    from numc.compiler.arrays.words import checked_align
    from numc.frontends.load import load_file
    from numc.studies.cost import checked_share, decisions_of, report
    from numc.studies.hardware.machine import load_machine

    known = load_machine(machine) if machine is not None else None
    share, align = checked_share(fma_share, known), checked_align(align)
    with output.busy(f"reading {model}"):
        decisions = decisions_of(load_file(model, arithmetic.fixed), None, options, training=training)
        costs = report(decisions, known, free=batch, fma_share=share, align=align)
        gates = _Gates(costs) if synthesize else None
    if want_json:
        output.as_json({**costs.as_json(), **({} if gates is None else gates.as_json())})
        return
    columns = ["layer", "shape", "fma", "FMAs", "bf16 products", "area", "iso-area", "bytes", "passes"]
    rows: list[list[object]] = [
        [c.layer or "-", c.shape, c.fma, c.fmas, c.bf16_multiplications, c.area, f"{c.iso_area:.4g}", c.bytes,
         c.passes or "-"]
        for c in costs.costs
    ]  # fmt: skip
    total = costs.total()
    rows.append(["total", "", "", total["fmas"], total["bf16_multiplications"], "", f"{costs.iso_area:.4g}",
                 total["bytes"], "" if costs.passes is None else f"{costs.passes:.4g}"])  # fmt: skip
    if known is not None:
        columns += ["moved", "cycles", "us", "bound", "utilisation", "uJ"]
        for row, cost in zip(rows, [*costs.costs, None], strict=True):
            each = total if cost is None else asdict(cost)
            micro = ["" if each[key] is None else f"{each[key] * 1e6:.4g}" for key in ("seconds", "joules")]
            limits = ["", ""] if cost is None else [cost.bound, f"{cost.utilisation:.4g}"]
            row += [each["moved"], each["cycles"], micro[0], *limits, micro[1]]
    if gates is not None:
        columns += gates.columns
        for row, cells in zip(rows, gates.cells(), strict=True):
            row += cells
    output.table(columns, [[cell if cell != "" else "-" for cell in row] for row in rows])
    if known is not None:
        faster = "" if costs.speed_up is None else f", {costs.speed_up:.3g} times as fast as fp32"
        guessed = f"; assumed, not from a source: {', '.join(known.assumed)}" if known.assumed else ""
        output.say(f"{known.name}: {known.about}{faster}{guessed}", err=not sys.stdout.isatty())
    if gates is not None:
        output.say(f"gates: {gates.source}", err=not sys.stdout.isatty())
    if share is not None:
        whole = f"a step of which FMAs take {share:.4g}: {costs.step_speed_up:.4g} times as fast as in fp32"
        output.say(whole, err=not sys.stdout.isatty())


class _Gates:
    """Areas from synthesis, for each contraction and for an FMA of the model on average."""

    columns = ("products", "adder", "accumulator", "conversion", "gates", "iso-gates", "levels", "ns", "register bits")

    def __init__(self, costs: Report) -> None:
        from numc.hardware.areas import NAME, synthesized_area, table
        from numc.numerics.operators import FMAS

        self.rows, self.mean = costs.synthesized, costs.gates
        self.fp32 = synthesized_area(FMAS["fp32"]).gates
        other = sorted({row.operator for row in self.rows} - set(table()))
        self.source = NAME + (f"; by yosys now: {', '.join(other)}" if other else "")

    def cells(self) -> list[list[object]]:
        """A row for each contraction, and the mean."""
        each: list[list[object]] = [
            [r.products, r.adder, r.accumulator, r.conversion, r.gates, f"{self.fp32 / r.gates:.4g}", r.levels,
             f"{r.picoseconds / 1000:.3g}", r.registers]
            for r in self.rows
        ]  # fmt: skip
        mean = [f"{self.mean:.4g}", f"{self.fp32 / self.mean:.4g}" if self.mean else ""]
        return [*each, ["", "", "", "", *mean, "", "", ""]]

    def as_json(self) -> dict[str, object]:
        """The rows of the operators, and where they are from."""
        operators = {row.operator: {**row.as_json(), "gates": row.gates} for row in self.rows}
        return {"synthesis": {"source": self.source, "gates": self.mean, "operators": operators}}
