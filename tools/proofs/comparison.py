"""A unit beside the compiled kernel of its operator: steps, each from an accumulator of its own, and whole sums."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import numc
from numc.hardware.emission import identifier
from numc.hardware.port import Interface, Port
from numc.hardware.ports import interface
from numc.hardware.rtl import rtl
from numc.numerics.float_arrays import F32Array
from numc.numerics.formats import Format
from numc.numerics.operators import Fma
from tools.proofs import stimulus
from tools.proofs.bench import Bench, compiled
from tools.proofs.codes import Words, of_operand, of_values, steps, words

_DEPTH = 8  # steps of a whole sum of blocks; of single products 64
_IDENTIFIERS = re.compile(r"(?<!')\b[A-Za-z_]\w*")


@dataclass(frozen=True)
class Compared:
    """How many steps and whole sums of an operator were compared, and how many of these differ."""

    operator: str
    rtl: str
    steps: int
    wrong_steps: int
    sums: int
    steps_of_a_sum: int
    wrong_sums: int


def fingerprint(op: Fma) -> str:
    """A hash of the operator's RTL, without its comments and whatever the wires of its modules are called."""
    text = "\n".join(line.partition("//")[0].rstrip() for line in rtl(op).splitlines())
    plain = "endmodule".join(map(_without_names, text.split("endmodule")))
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _without_names(module: str) -> str:
    names: dict[str, str] = {}
    return _IDENTIFIERS.sub(lambda match: names.setdefault(match[0], f"n{len(names)}"), module)


def compared(op: Fma, count: int, folder: Path, seed: int = 0) -> Compared:
    """Compare `count` steps, and as many steps in whole sums."""
    of, source, name = interface(op), np.random.default_rng(seed), identifier(str(op))
    sides = [[port for port in (*of.operands, *of.ending) if port.name[0] == side] for side in "ab"]
    bench = compiled(rtl(op), f"{name}_accumulator", sides, of.start, folder)
    depth = 64 if of.products == 1 else _DEPTH
    if op.groups and op.group_length is None and not of.register:
        depth = 1  # a sum of integers is rounded at the end of the whole reduction, which is one step
    wrong = [_wrong(of, bench, sides, shape, source) for shape in (_steps(of, count), _sums(count, depth))]
    (steps_made, wrong_steps), (sums_made, wrong_sums) = wrong
    return Compared(str(op), fingerprint(op), steps_made, wrong_steps, sums_made, depth, wrong_sums)


def compared_pairs(op: Fma, count: int, folder: Path, seed: int = 0) -> Compared:
    """Compare all pairs of codes of A and B, with so many steps in all: each pair with some accumulators.

    A NaN for which the accumulator has no code is not compared.
    """
    of, source, name = interface(op), np.random.default_rng(seed), identifier(str(op))
    sides = [[of.port(side)] for side in "ab"]
    bench = compiled(rtl(op), f"{name}_accumulator", sides, of.start, folder)
    codes = [np.arange(1 << port.bits) for (port,) in sides]
    pairs = codes[0].size * codes[1].size
    first, second = (np.tile(each.ravel(), -(-count // pairs)) for each in np.indices([each.size for each in codes]))
    a, b = (_decoded(to.format, each)[n] for to, each, n in zip(op.singles, codes, (first, second), strict=True))
    with np.errstate(all="ignore"):
        c = stimulus.accumulators(op, a * b, source)
        want = numc.fma(a, b, c, fma=str(op))
    rows = [words(port, each[:, None]) for (port,), each in zip(sides, codes, strict=True)]
    found = bench.outputs(*rows, _lines(of, 1, first, second, of_values(op.acc.format, c)))
    known = ~np.isnan(want) | op.acc.format.has_nan
    wrong = found[known] != of_values(op.acc.format, want[known]).astype(np.uint64)
    return Compared(str(op), fingerprint(op), int(known.sum()), int(np.count_nonzero(wrong)), 0, 0, 0)


def _decoded(fmt: Format, codes: npt.NDArray[np.int64]) -> F32Array:
    return np.array([fmt.decode(int(code)) for code in codes], np.float32)


@dataclass(frozen=True)
class _Shape:
    """Rows of A and of B, of which all pairs are taken, or those of one number; how many steps a sum has."""

    rows: int
    steps: int
    in_pairs: bool


def _steps(of: Interface, count: int) -> _Shape:
    alone = of.products == 1
    return _Shape(count if alone else math.ceil(count**0.5), 1, not alone)


def _sums(count: int, depth: int) -> _Shape:
    return _Shape(math.ceil((count / depth) ** 0.5), depth, True)


def _wrong(
    of: Interface, bench: Bench, sides: list[list[Port]], shape: _Shape, source: stimulus.Source
) -> tuple[int, int]:
    """How many sums there are, and how many of them differ."""
    op, depth = of.op, shape.steps * of.products
    a, b = (stimulus.operand(to, (shape.rows, depth), source) for to in (op.a, op.b))
    with np.errstate(all="ignore"):
        if shape.in_pairs:
            c = stimulus.accumulators(op, numc.matmul(a, b.T, fma=_of_scale(op)), source)
            want = numc.matmul(a, b.T, c, fma=str(op))
            first, second = (each.ravel() for each in np.indices(c.shape))
        else:
            c = stimulus.accumulators(op, (a * b)[:, 0], source)
            want = numc.fma(a[:, 0], b[:, 0], c, fma=str(op))
            first = second = np.arange(shape.rows)
    rows = [_rows(of, ports, to, x, shape.steps) for ports, to, x in zip(sides, (op.a, op.b), (a, b), strict=True)]
    lines = _lines(of, shape.steps, first, second, of_values(op.acc.format, c.ravel()))
    found = bench.outputs(*rows, lines)
    return c.size, int(np.count_nonzero(found != _result_codes(of, want).astype(np.uint64)))


def _of_scale(op: Fma) -> str:
    """What is nearly the sum: the sum itself where operands have scales of their own."""
    return "fp32" if op.groups is None else str(op)


def _result_codes(of: Interface, want: F32Array) -> npt.NDArray[np.int64]:
    return of_values(of.op.total.format, want.ravel())


def _rows(of: Interface, ports: list[Port], to: object, x: F32Array, count: int) -> Words:
    codes = of_operand(ports[0].name, to, x)  # type: ignore[arg-type]
    columns = [words(port, steps(port, codes[port.name], count)) for port in ports]
    most = max(map(len, columns))
    return np.concatenate([np.broadcast_to(each, (most, each.shape[1])) for each in columns], axis=1)


def _lines(
    of: Interface, count: int, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], c: npt.NDArray[np.int64]
) -> Words:
    start = words(of.start, c[:, None])
    lines = np.zeros((len(c), count, 4 + start.shape[1]), np.uint32)
    for k in range(count):
        lines[:, k, 0], lines[:, k, 1] = first * count + k, second * count + k
        lines[:, k, 2], lines[:, k, 3] = k == 0, k == count - 1
        lines[:, k, 4:] = start
    return lines.reshape(-1, lines.shape[2])
