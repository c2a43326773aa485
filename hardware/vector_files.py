"""Test vectors of an operator as files: CSV, `$readmemh` and TestFloat's layout, with what they cover."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from numc.hardware.coverage import Coverage
from numc.hardware.encodings import Encoding
from numc.hardware.port import Codes, Interface, Port
from numc.hardware.ports import interface
from numc.hardware.stimulus import KINDS, cases, steps_of_dot
from numc.hardware.testfloat import has_layout, mul_add_line
from numc.numerics.exact.value import ONE, POINT, Value
from numc.numerics.formats.rounding import rounder
from numc.numerics.operators import Fma
from numc.numerics.reference.datapaths import f32_fma
from numc.numerics.reference.defined import defined_run
from numc.support.arguments import checked_integer
from numc.support.errors import NumcError, quoted

DEPTH = 64
"""The products of a whole dot product, or two chunks where that is more."""
_MOST = 10**8


@dataclass(frozen=True)
class Vectors:
    """Files by name, and what they cover. unencoded: steps that were left out, as their NaN has no code."""

    files: Mapping[str, bytes]
    coverage: Coverage
    dots: int
    unencoded: int

    def as_json(self) -> dict[str, object]:
        """Counts of what is covered, and the dot products."""
        return {**self.coverage.as_json(), "dots": self.dots, "without a code": self.unencoded}


def checked_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds that a text with commas names. Raises NumcError for others."""
    kinds = tuple(text.split(","))
    for each in kinds:
        if each not in KINDS:
            raise NumcError(f"kind of vectors {quoted(each)}, want {', '.join(KINDS)}, with commas between them")
    return tuple(each for each in KINDS if each in kinds)


def vectors(op: Fma, kinds: Sequence[str], count: int, seed: int = 0) -> Vectors:
    """Return stimulus and expected results of an operator.

    count: of random steps, and of the steps of dot products. Raises NumcError for an operator with open widths, and for
    numbers out of range.
    """
    checked_integer(count, "count", 1, _MOST)
    checked_integer(seed, "seed", 0, 2**64 - 1)
    of = interface(op)
    files: dict[str, bytes] = {}
    coverage, unencoded = Coverage(of), 0
    rows: list[tuple[str, Codes, int]] = []
    for each in (each for each in kinds if each != "dot"):
        for about, codes in cases(of, each, count, seed):
            value = of.evaluate(codes)
            code = of.code(value)
            if code is None:
                unencoded += 1
                continue
            coverage.add(about, codes, value)
            rows.append((about, codes, code))
    if rows:
        files |= _step_files(of, rows)
    dots = list(dots_of(of, count, seed)) if "dot" in kinds else []
    if dots:
        files |= _dot_files(of, dots)
    written = Vectors(files, coverage, len(dots), unencoded)
    head = {
        "operator": str(op),
        "seed": seed,
        "products": of.products,
        "ports": {port.name: {"bits": port.bits, "count": port.count, "holds": port.holds} for port in of.inputs},
        **({"ends": {port.name: {"bits": port.bits, "holds": port.holds} for port in of.ending}} if of.ending else {}),
        "result": {"bits": of.output.bits, "holds": of.output.holds},
        **({"steps_of_a_dot": len(dots[0].steps)} if dots else {}),
    }
    files["vectors.json"] = (json.dumps({**head, "covers": written.as_json()}, indent=2) + "\n").encode()
    return written


@dataclass(frozen=True)
class Dot:
    """A whole dot product: the codes of its steps, the start in the first one, and the code of its result.

    last: the random bits for the total of chunks, where that is rounded stochastically.
    """

    steps: Sequence[Codes]
    result: int
    last: int = 0


def dots_of(of: Interface, count: int, seed: int) -> Iterator[Dot]:
    """Yield whole dot products, `count` steps in all."""
    source = random.Random(f"{seed} dot {of.op}")
    depth = min(max(DEPTH, 2 * (of.op.datapath.chunk or 0)), 4096)
    # A sum of integers is rounded at the end of the whole reduction, which is one step.
    length = 1 if of.op.groups and not of.op.group_length and not of.register else max(depth // of.products, 2)
    for _ in range(max(count // length, 1)):
        steps = steps_of_dot(of, length, source)
        noise = of.op.acc.noise
        last = source.getrandbits(noise.bits) if noise is not None and of.op.datapath.chunk is not None else 0
        code = Encoding(of.op.total.format).encode(dot_of_steps(of, steps, last))
        if code is not None:
            yield Dot(steps, code, last)


def dot_of_steps(of: Interface, steps: Sequence[Codes], last: int = 0) -> Value:
    """Return the reduction over steps, from the accumulator of the first one."""
    acc, chunk = Encoding(of.op.acc.format), of.op.datapath.chunk
    start = steps[0]["c"]
    if of.finish is not None:
        total: Value = 0
        for step in steps:
            total = of.evaluate({**step, "c": (of.code(total) or 0,)})
        return of.finish(acc.decode(start[0]), total, steps[0])
    if of.register:
        a, b = (Encoding(to.format) for to in of.op.singles)
        x, y = ([(each.decode(n),) for step in steps for n in step[name]] for name, each in (("a", a), ("b", b)))
        return defined_run(of.op)(x, y, acc.decode(start[0]), [])
    if chunk is None:
        return _chain(of, steps, start[0])
    total, size = acc.decode(start[0]), chunk // of.products
    for begin in range(0, len(steps), size):
        part = _chain(of, steps[begin : begin + size], _code(acc, 0))
        total = f32_fma(total, ONE, part)
    return rounder(of.op.total, POINT)(total, last)


def _chain(of: Interface, steps: Iterable[Codes], start: int) -> Value:
    acc = Encoding(of.op.acc.format)
    value = acc.decode(start)
    for step in steps:
        value = of.evaluate({**step, "c": (_code(acc, value),)})
    return value


def _code(acc: Encoding, value: Value) -> int:
    code = acc.encode(value)
    return 0 if code is None else code


# Files.


def _column(port: Port, steps: Iterable[Codes]) -> list[str]:
    return [_hex(port.joined(codes[port.name]), port.width) for codes in steps]


def _hex(number: int, width: int) -> str:
    return f"{number:0{-(-width // 4)}x}"


def _step_files(of: Interface, rows: Sequence[tuple[str, Codes, int]]) -> dict[str, bytes]:
    columns = {port.name: _column(port, (codes for _, codes, _ in rows)) for port in of.inputs}
    columns["d"] = [_hex(code, of.output.width) for _, _, code in rows]
    written = {f"{name}.hex": _lines(column) for name, column in columns.items()}
    lines = [
        ",".join([*columns, "made for"]),
        *map(",".join, zip(*columns.values(), (about for about, _, _ in rows), strict=True)),
    ]
    written["steps.csv"] = _lines(lines)
    if has_layout(of.op):
        written["mulAdd.txt"] = _lines(mul_add_line(of, codes, code) for _, codes, code in rows)
    return written


def _dot_files(of: Interface, dots: Sequence[Dot]) -> dict[str, bytes]:
    inputs = [port for port in of.inputs if port.name != "c"]
    width = Encoding(of.op.total.format).bits
    start, ends = of.start, of.ending
    columns = {port.name: _column(port, (step for dot in dots for step in dot.steps)) for port in inputs}
    written = {f"dot_{name}.hex": _lines(column) for name, column in columns.items()}
    starts = [_hex(start.joined(dot.steps[0]["c"]), start.width) for dot in dots]
    results = [_hex(dot.result, width) for dot in dots]
    written |= {"dot_c.hex": _lines(starts), "dot_d.hex": _lines(results)}
    scales = {port.name: _column(port, (dot.steps[0] for dot in dots)) for port in ends}
    written |= {f"dot_{name}.hex": _lines(column) for name, column in scales.items()}
    noise = of.op.acc.noise
    if noise is not None and of.op.datapath.chunk is not None:
        written["dot_last_u.hex"] = _lines(_hex(dot.last, noise.bits) for dot in dots)
    lines, line = [",".join(["dot", *columns, *scales, "c", "d"])], 0
    for n, dot in enumerate(dots):
        for k in range(len(dot.steps)):
            is_last = k == len(dot.steps) - 1
            at_end = [column[n] if is_last else "" for column in (*scales.values(), starts, results)]
            at_end[-2] = starts[n] if k == 0 else ""
            lines.append(",".join([str(n), *(column[line] for column in columns.values()), *at_end]))
            line += 1
    written["dots.csv"] = _lines(lines)
    return written


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
