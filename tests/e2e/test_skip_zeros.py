"""Transposed convolutions without the products with zeros: the same bits, and with them where they matter."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

import numc
from numc.compiler import lower as compiler
from numc.compiler import pipeline
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.passes import linalg as walk
from numc.passes.tensors.products import zero_phases
from numc.runtime.program import Program
from tiers import by_default

F32Array = npt.NDArray[np.float32]
Feeds = dict[str, F32Array]


@dataclass(frozen=True)
class Case:
    """A transposed convolution of images (batch, [groups,] channels, *size): zeros `low` before, `high` behind them."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]
    batch: int = 1
    groups: int = 0
    channels: int = 2
    filters: int = 3
    bias: bool = False
    dynamic: bool = False
    constant: bool = False  # start from -1.5 everywhere


CASES = (
    Case((5, 6), (4, 4), (2, 2), (2, 2), (2, 2), (1, 1), batch=2, bias=True),
    Case((3, 4), (3, 3), (3, 2), (2, 1), (4, 2), (1, 1), channels=3),  # kernel as large as the stride; output padding
    Case((7,), (1,), (3,), (0,), (1,), (1,), batch=2, bias=True),  # outputs without any tap
    Case((2, 3, 2), (2, 3, 3), (2, 2, 2), (1, 2, 0), (1, 1, 2), (1, 1, 1)),
    Case(
        (4, 5), (3, 2), (2, 2), (2, 3), (3, 3), (2, 3), constant=True
    ),  # dilation: all taps of a phase, or every other one
    Case((3, 4), (3, 3), (1, 2), (1, 2), (1, 2), (1, 1), batch=2, groups=2),
    Case((3, 3), (2, 3), (2, 3), (0, 0), (1, 2), (1, 1), bias=True, dynamic=True),
)
_NAMES = {1: "conv_1d_ncw_fcw", 2: "conv_2d_nchw_fchw", 3: "conv_3d_ncdhw_fcdhw"}


def kind(*sizes: int | str) -> str:
    """A tensor type."""
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def source(cases: tuple[Case, ...]) -> Imported:
    """One program of all cases: x0, w0, b0, x1, ...; without a bias, b is what sums start from all the same."""
    arguments, results, lines = [], [], []
    for n, c in enumerate(cases):
        rank, batch = len(c.size), "?" if c.dynamic else c.batch
        channels = (c.groups, c.channels) if c.groups else (c.channels,)
        filters = (c.groups, c.filters) if c.groups else (c.filters,)
        spread_size = [
            low + (size - 1) * stride + 1 + high
            for size, stride, low, high in zip(c.size, c.stride, c.low, c.high, strict=True)
        ]
        outputs = [s - (k - 1) * d for s, k, d in zip(spread_size, c.kernel, c.dilation, strict=True)]
        x, z = kind(batch, *channels, *c.size), kind(batch, *channels, *spread_size)
        w, y = kind(*filters, c.channels, *c.kernel), kind(batch, *filters, *outputs)
        b, dims = kind(c.filters), 1 + len(channels)
        arguments += [f"%x{n}: {x}", f"%w{n}: {w}", f"%b{n}: {b}"]
        results.append((f"%y{n}", y))
        some = f"%n{n}" if c.dynamic else ""
        loops = [f"d{d}" for d in range(dims + rank)]
        maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(r)})>" for r in ([loops[dims - 1]], loops)]
        iterators = ", ".join(['"parallel"'] * len(loops))
        name = "conv_2d_ngchw_gfchw" if c.groups else _NAMES[rank]
        start = f"%f{n}"
        lines += [
            f"%n{n} = tensor.dim %x{n}, %c0 : {x}",
            f"%e{n} = tensor.empty({some}) : {z}",
            f"%z{n} = linalg.fill ins(%zero : f32) outs(%e{n} : {z}) -> {z}",
            f"%i{n} = tensor.insert_slice %x{n} into %z{n}[{', '.join(map(str, (*[0] * dims, *c.low)))}]"
            f" [{', '.join(map(str, (some or batch, *channels, *c.size)))}]"
            f" [{', '.join(map(str, (*[1] * dims, *c.stride)))}] : {x} into {z}",
            f"%o{n} = tensor.empty({some}) : {y}",
            f"%f{n} = linalg.fill ins(%zero : f32) outs(%o{n} : {y}) -> {y}",
        ]
        if c.constant:
            start = f"%g{n}"
            lines.append(f"%g{n} = arith.constant dense<-1.5> : {y}")
        if c.bias:
            start = f"%g{n}"
            lines.append(
                f"%g{n} = linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{iterators}]}}"
                f" ins(%b{n} : {b}) outs(%o{n} : {y}) {{\n^bb0(%u: f32, %v: f32):\n  linalg.yield %u : f32\n}} -> {y}"
            )
        steps = f"dilations = dense<{list(c.dilation)}> : tensor<{rank}xi64>, strides = dense<1> : tensor<{rank}xi64>"
        lines.append(f"%y{n} = linalg.{name} {{{steps}}} ins(%i{n}, %w{n} : {z}, {w}) outs({start} : {y}) -> {y}")
    body = "\n".join(lines)
    values, types = ", ".join(v for v, _ in results), ", ".join(t for _, t in results)
    return Imported(
        f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n%c0 = arith.constant 0 : index\n"
        f"%zero = arith.constant 0.0 : f32\n{body}\nreturn {values} : {types}\n}}"
    )


@functools.cache
def program(fma: str, cases: tuple[Case, ...] = CASES) -> Program:
    """The cases under an operator."""
    return numc.compile(source(cases), fma=fma)


def bits(results: dict[str, F32Array] | F32Array) -> list[bytes]:
    """The results, all NaNs made one."""
    arrays = results.values() if isinstance(results, dict) else [results]
    return [np.where(np.isnan(x), np.float32(np.nan), x).tobytes() for x in arrays]


def watched(of: Program, given: Feeds) -> list[bytes]:
    """The results when somebody watches: no product is skipped."""
    with of.observe(lambda *_: None):
        return bits(of(given, threads=2))


def kinds(of: Program) -> dict[str, Feeds]:
    """Inputs of every class of numbers."""
    rng = np.random.default_rng(1)
    sides = {i.name: "xwb"[n % 3] for n, i in enumerate(of.inputs)}
    normal = {
        i.name: rng.standard_normal([3 if d is None else d for d in i.shape]).astype(np.float32) for i in of.inputs
    }

    def put(side: str, *values: float) -> Feeds:
        changed = {name: x.copy() for name, x in normal.items()}
        for name, x in changed.items():
            for value in values if sides[name] == side else ():
                x.flat[rng.integers(x.size)] = value
        return changed

    tiny = {n: (x * np.exp2(rng.integers(-82, -60, x.shape))).astype(np.float32) for n, x in normal.items()}
    signed = {n: np.where(rng.random(x.shape) < 0.7, np.copysign(np.float32(0), x), x) for n, x in normal.items()}
    minus_zero = {n: np.full_like(x, -0.0) if sides[n] == "b" else np.copysign(0, x) for n, x in normal.items()}
    return {
        "normal": normal,
        "products that underflow": tiny,
        "small": {n: x * np.float32(1e-3) for n, x in normal.items()},
        "zeros of both signs": signed,
        "sums from -0": minus_zero,
        "infinite inputs": put("x", np.inf, -np.inf, np.nan),
        "infinite weights": put("w", np.inf),
        "NaN weights": put("w", np.nan),
        "weights beyond the format": put("w", 3.4e38, -1e30),
        "bias": put("b", np.inf, -0.0, 1e-40),
    }


EXACT = ("fma(a=fp16,b=e4m3fn,acc=bf16x2,datapath=exact)", CASES[2:3])


@pytest.mark.parametrize(
    ("fma", "cases"),
    by_default(
        [
            ("bf16_1_1", CASES),
            ("fmac(e6m9)", CASES[:1]),
            *(
                pytest.param(fma, CASES[:1], marks=pytest.mark.slow)
                for fma in ("fp32", "bf16_2_2{4}", "fmac(e4m3)", "mac(e5m4n:rtz)")
            ),
            EXACT,
        ],
        [("bf16_1_1", CASES), ("fmac(e6m9)", CASES[:1]), EXACT],
    ),
)
def test_no_bit_changes(fma: str, cases: tuple[Case, ...]) -> None:
    p = program(fma, cases)
    assert all(c["phases"] for c in p.manifest["contractions"])
    for name, given in kinds(p).items():
        expected = watched(p, given)
        for threads in (1, 3):
            assert bits(p(given, threads=threads)) == expected, name
    for name in ("normal", "products that underflow"):
        report = numc.verify(p, kinds(p)[name], samples=30)
        assert report.checked > 20
        assert report.mismatches == 0, (name, report.first)


def test_the_switch_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    p = program("bf16_1_1")
    monkeypatch.setenv("NUMC_DISABLE", "skip-zeros")
    old = numc.compile(source(CASES), fma="bf16_1_1")
    assert not any(c["phases"] for c in old.manifest["contractions"])
    for name, given in kinds(p).items():
        assert bits(old(given)) == bits(p(given)), name


FUSED = "fmac(bf16, datapath=fused(l=4,bits=9))"


@pytest.mark.parametrize(
    ("fma", "case"),
    [
        *(  # steps that know their place
            (fma, CASES[0])
            for fma in (
                "avx512_bf16",
                "bfp(4,3,4)",
                "int8",
                "fmac(e6m9, chunk=8)",
                "fmac(e6m9:sr8)",
                "mac(e6m9:sr8)",
                FUSED,
            )
        ),
        ("fma(a=bf16:sr8,acc=fp32)", CASES[0]),
        ("mp", replace(CASES[0], stride=(6, 6))),  # 36 phases
        ("mp", replace(CASES[5], filters=1)),  # every element has one product
    ],
)
def test_what_stays_whole(fma: str, case: Case) -> None:
    options = Options(fma=fma)
    module = compiler.lowered(source((case,)), options, "numc")
    before = str(module)
    pipeline.STAGES["tensors"]["skip-zeros"](module, pipeline.State.of(options))
    assert str(module) == before


@pytest.fixture(scope="module")
def marked() -> Program:
    """A program that gives 7 where it computes a contraction as a whole."""
    skip = pipeline.STAGES["tensors"]["skip-zeros"]

    def skip_and_mark(module: ir.Module, state: pipeline.State) -> None:
        skip(module, state)
        for choice in walk.operations(module.operation, "scf.if"):
            *_, end = (op.operation for op in choice.regions[1].blocks[0].operations)
            with ir.InsertionPoint(end), ir.Location.unknown(module.context):
                seven = arith.constant(ir.F32Type.get(), 7.0)
                end.operands[0] = linalg.fill(seven, outs=[end.operands[0].owner.operands[2]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pipeline.STAGES["tensors"], "skip-zeros", skip_and_mark)
        return numc.compile(source(CASES[:2]), fma="bf16_1_1", cache=False)


@pytest.mark.parametrize(
    ("name", "whole"),  # the first case has a bias, the second one begins at +0
    [
        *((name, [False, False]) for name in ("normal", "small", "zeros of both signs", "infinite inputs", "bias")),
        *((name, [True, True]) for name in ("infinite weights", "NaN weights", "weights beyond the format")),
        ("products that underflow", [False, True]),
        ("sums from -0", [True, False]),
    ],
)
def test_the_whole_is_computed_where_a_bit_could_change(marked: Program, name: str, whole: list[bool]) -> None:
    assert [bool((y == 7).all()) for y in marked(kinds(marked)[name]).values()] == whole


def test_the_whole_is_what_is_watched(marked: Program) -> None:
    with marked.observe(lambda *_: None):
        assert all((y == 7).all() for y in marked(kinds(marked)["normal"]).values())


def test_verify_finds_a_wrong_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    right = zero_phases.Axis.taps_of

    def wrong(self: zero_phases.Axis, phase: int) -> zero_phases.Taps | None:
        return right(self, phase if phase else self.stride - 1)

    monkeypatch.setattr(zero_phases.Axis, "taps_of", wrong)
    p = numc.compile(source(CASES[:1]), fma="mp", cache=False)
    report = numc.verify(p, kinds(p)["normal"], samples=50)
    assert all(row.mismatches == 0 for row in report.rows)
    assert report.mismatches == report.unwatched > 0
    assert report.first is not None
    assert "when nobody watches" in report.first
