"""``numc list``: tables of formats, operators and the like, made from the data that defines them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import click

from numc.cli import output
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.versions import check_torch_mlir

_EPILOG = """\b
Besides the named ones there are formats and operators by their text:
  e6m9       6 exponent and 9 significand bits, as IEEE-754; e6m9n has no subnormals, e4m3fn no infinities
  e6m9:rtz   another rounding: rne rtz rna rup rdn odd
  bfp(16,3,4)   groups of 16 values, 3 exponent bits, 4 magnitude bits; int4 to int16
  1/6/9/d    the papers' text for e6m9; 1/6/9/n for e6m9n
  fma(a=bf16,b=e4m3fn,acc=fp32), mac(fp16), macs(fp16)
  fmac(e6m9,chunk=8)   FMAC-8: sums of 8 steps are added up in fp32
  fma(a=fp16,acc=fp32:rtz,datapath=fused(l=16,bits=25))   blocks of 16 products, as matrix units add them
  hopper_bf16, cdna3_fp8   the matrix units of accelerators: numc list units
  nvfp4, mx(e4m3fn,128,scale=fp32), mx(nf4,64,scale=fp32)   elements, groups and scales of any kind
  fma(a=bf16,b=mxfp4,acc=fp32)   only the weights have groups
  bfp(16,3,4), mxfp8, int8   as an operator: dot products of groups, added up in fp32

\b
Examples:
  numc list formats
  numc list passes --json
"""

Rows = list[dict[str, Any]]


class _Average(Fraction):
    """A number that a table shows with one decimal, and JSON in full."""


def _formats() -> Rows:
    from numc.numerics.formats import FORMATS
    from numc.numerics.formats.kinds.table import DEFINED
    from numc.numerics.kinds import GROUP_FORMATS
    from numc.numerics.notes import note_of

    values: Rows = [
        {
            "name": name,
            "bits per value": f.bits,
            "significand bits": f.precision if f.parts == 1 else f"{f.parts}x{f.precision}",
            "emin": f.emin,
            "emax": f.emax,
            "max": f.max_finite,
            "min normal": f.min_normal,
            "min subnormal": f.min_subnormal if f.is_gradual else None,
            "note": note_of(f) or None,
        }
        for name, f in {**FORMATS, **DEFINED}.items()
    ]
    # Formats with groups have no range of their own, because every group has a scale.
    ranges = dict.fromkeys(("emin", "emax", "max", "min normal", "min subnormal"))
    groups: Rows = [
        {
            "name": name,
            "bits per value": _Average(g.bits_per_value),
            "significand bits": g.precision,
            **ranges,
            "note": note_of(g) or None,
        }
        for name, g in GROUP_FORMATS.items()
    ]
    return values + groups


def _fmas() -> Rows:
    from numc.numerics.grammar import parse_fma
    from numc.numerics.kinds import GROUP_FORMATS
    from numc.numerics.operators import DEFINED, FMAS
    from numc.studies.hardware.area import area, iso_area

    serial = [f"fma(a={name},acc=fp32,datapath=fmac2)" for name, f in GROUP_FORMATS.items() if "fmac2" in f.datapaths]
    texts = [*GROUP_FORMATS, *serial]
    return [
        {
            "name": name,
            "a": str(f.a),
            "b": str(f.b),
            "acc": str(f.acc),
            "products": f.products,
            "passes": f.passes,
            "datapath": str(f.datapath),
            "area": area(f),
            "iso-area": iso_area(f),
            "chain": "sum of groups" if f.groups else " + ".join([*(f"a{i}*b{j}" for i, j in f.terms), "c"]),
        }
        for name, f in {**FMAS, **{text: parse_fma(text) for text in texts}, **DEFINED}.items()
    ]


def _units() -> Rows:
    from numc.numerics.units import UNITS

    return [
        {"unit": name, "a": str(f.a), "b": str(f.b), "acc": str(f.acc), "datapath": str(f.datapath)}
        for name, f in UNITS.items()
    ]


def _areas() -> Rows:
    from numc.hardware.areas import table

    return [
        {
            "operator": name,
            "products taken": row.taken,
            "products": row.products,
            "adder": row.adder,
            "accumulator": row.accumulator,
            "conversion": row.conversion,
            "gates of a product": row.gates,
            "levels": row.levels,
            "ns": round(row.picoseconds / 1000, 1),
            "register bits": row.registers,
        }
        for name, row in table().items()
    ]


def _datapaths() -> Rows:
    from numc.numerics.datapaths import DATAPATHS, DEFINED, Blocks, Own, Steps

    orders = {Steps: "one after the other", Blocks: "in blocks of l", Own: "in an order of its own"}
    return [
        {
            "datapath": admits.syntax(name),
            "takes products": "in groups"
            if admits.groups
            else orders[admits.order if "l" in admits.parameters or admits.order is Own else Steps],
            "additions": admits.sums,
            "only": None if admits.only is None else "a={}, b={}, acc={}".format(*admits.only),
            "parameters": "; ".join(
                f"{key}: {each.least} to {each.most}, {each.about}" for key, each in admits.parameters.items()
            )
            or None,
        }
        for name, admits in {**DATAPATHS, **DEFINED}.items()
    ]


def _stages() -> Rows:
    from numc.compiler.pipeline import STAGES

    return [{"stage": stage, "passes": ", ".join(passes)} for stage, passes in STAGES.items()]


def _passes() -> Rows:
    from numc.compiler.opt import outside
    from numc.compiler.pipeline import STAGES

    return [
        *(
            {"pass": name, "stage": stage, "what": f"{each.about} Upstream: {each.text}" if each.text else each.about}
            for stage, passes in STAGES.items()
            for name, each in passes.items()
        ),
        *({"pass": name, "stage": "", "what": f"From outside: {entry.value}"} for name, entry in outside().items()),
    ]


def _targets() -> Rows:
    from numc.compiler.targets import TARGETS, resolve
    from numc.runtime.library import usable_features

    host = resolve("host", usable_features()).name
    return [
        {
            "target": name,
            "float32 lanes": t.isa.width,
            "host": name == host,
            "features": " ".join(t.features) or t.backend.least,
        }
        for name, t in TARGETS.items()
    ]


def _machines() -> Rows:
    from numc.studies.hardware.machine import load_machine, shipped

    return [
        {
            "machine": name,
            "about": m.about,
            "units": ", ".join(f"{u.count} {unit}" for unit, u in m.units.items()),
            "clock GHz": m.clock / 1e9,
            "bandwidth GB per s": None if m.bandwidth is None else m.bandwidth / 1e9,
            "assumed": ", ".join(m.assumed) or None,
        }
        for name, m in ((name, load_machine(name)) for name in shipped())
    ]


def _presets() -> Rows:
    from numc.numerics.policy.load import arithmetic
    from numc.numerics.policy.presets import PRESETS

    return [{"preset": name, "policy": "; ".join(str(arithmetic(name).policy()).splitlines())} for name in PRESETS]


_LISTS: dict[str, Callable[[], Rows]] = {
    "formats": _formats,
    "fmas": _fmas,
    "units": _units,
    "datapaths": _datapaths,
    "areas": _areas,
    "machines": _machines,
    "presets": _presets,
    "passes": _passes,
    "stages": _stages,
    "targets": _targets,
}


class _Table(click.Choice[str]):
    """The name of a table."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        if value not in _LISTS:
            raise NumcError(f"table {quoted(value)}: unknown{did_you_mean(value, _LISTS)}: want {', '.join(_LISTS)}")
        return str(value)


@click.command("list", epilog=_EPILOG)
@click.argument("what", metavar="TABLE", type=_Table(list(_LISTS)))
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def list_command(what: str, want_json: bool) -> None:
    """List formats, FMA operators, units, datapaths, areas, machines, presets, passes in order, stages or targets."""
    if what in ("passes", "stages"):
        check_torch_mlir()
    rows = _LISTS[what]()
    if want_json:
        output.as_json([{key.replace(" ", "_"): _number(value) for key, value in row.items()} for row in rows])
        return
    output.table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])


def _number(value: Any) -> Any:
    # Exact in a double: no format has more than 25 significant bits or a larger exponent range.
    return float(value) if isinstance(value, Fraction) else value


def _cell(value: Any) -> str:
    if isinstance(value, _Average):
        return f"{float(value):.{2 if value % Fraction(1, 4) == 0 else 1}f}".removesuffix(".00")
    if isinstance(value, Fraction):
        if value.numerator == 1 < value.denominator and value.denominator & (value.denominator - 1) == 0:
            return f"2^-{value.denominator.bit_length() - 1}"
        return f"{float(value):.6g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
