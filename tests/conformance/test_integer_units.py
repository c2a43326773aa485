"""Units that add integers in accumulators of few bits, against sums in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

import arithmetic_vectorised as vectorised
import numc
from numc.numerics import reference
from numc.numerics.grammar import parse_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.numpy_groups import convert_operand, largest_magnitude
from numc.numerics.units import UNITS
from numc.support.errors import NumcError
from targets_here import HERE
from tiers import one_in

F32 = npt.NDArray[np.float32]
INTEGERS = [name for name, fma in UNITS.items() if fma.datapath.name == "int"]


def in_integers(rows: F32, to: GroupConversion) -> tuple[npt.NDArray[np.int64], np.float32]:
    """The integers of rows, and their scale."""
    largest = largest_magnitude(rows, to.format)
    return convert_operand(rows, to, largest).values.astype(np.int64), np.float32(to.format.shared_by(float(largest)))


def added(products: list[int], bits: int, saturate: int, length: int) -> int:
    """The sum of products in two's complement, some of them at a time."""
    least, most, total = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0
    for k in range(0, len(products), length):
        total += sum(products[k : k + length])
        if saturate:
            total = min(max(total, least), most)
        while total > most:
            total -= 2**bits
        while total < least:
            total += 2**bits
    return total


def by_python(a: F32, b: F32, c: F32, text: str) -> F32:
    """A product of matrices by exact integers."""
    fma = parse_fma(text)
    to_a, to_b = fma.groups or ()
    (x, of_x), (y, of_y) = in_integers(a, to_a), in_integers(np.ascontiguousarray(b.T), to_b)
    path = fma.datapath
    sums = [
        [added([int(p) for p in row * column], path["bits"], path["saturate"], path["l"]) for column in y] for row in x
    ]
    return numc.fma(np.array(sums, np.float64).astype(np.float32), of_x * of_y, c, fma="fp32")


CASES = [
    "fma(a=int16,acc=fp32,datapath=int)",
    "fma(a=int16,acc=fp32,datapath=int(saturate=1))",
    "fma(a=int8,acc=fp32,datapath=int(bits=16,saturate=1,l=2))",
    "fma(a=int8,b=int5,acc=fp32,datapath=int(bits=16))",
    "fma(a=int8,acc=fp32,datapath=int(bits=16,saturate=1,l=12))",
    "fma(a=int4,acc=fp32,datapath=int(bits=8,saturate=1))",
    "fma(a=int8,acc=fp32,datapath=int(bits=20))",
]


def operands(shape: tuple[int, int, int], seed: int) -> tuple[F32, F32, F32]:
    """Operands most of whose products have one sign, so that their sums are large."""
    rng, (m, k, n) = np.random.default_rng(seed), shape
    a, b = rng.random((m, k), np.float32) + np.float32(0.2), rng.random((k, n), np.float32) + np.float32(0.2)
    a[rng.random(a.shape) < 0.2] *= -1
    b[k // 2 :, n // 2 :] *= -1
    return a, b, rng.standard_normal((m, n), np.float32)


@pytest.mark.parametrize("text", one_in(99, ["turing_int8", *CASES, *INTEGERS[1:]], CASES[2]))
def test_sums_by_hand(text: str) -> None:
    """Sums that overflow, the reference and kernels; also blocks of k that hold no whole number of blocks."""
    for seed, shape in enumerate([(3, 70, 5), (1, 1, 3), (2, 700, 35)]):
        a, b, c = operands(shape, seed)
        want = by_python(a, b, c, text)
        assert (found := vectorised.first_mismatch(numc.matmul(a, b, c, fma=text), want)) is None, found
        if shape[1] < 100:
            assert (found := vectorised.first_mismatch(reference.matmul(a, b, c, fma=text), want)) is None, found


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("text", [*CASES, "hopper_int8"])
def test_every_target(text: str, target: str) -> None:
    for seed, shape in enumerate([(5, 600, 70), (40, 130, 9), (1, 50, 300), (2, 0, 3)]):
        a, b, c = operands(shape, seed)
        if seed == 1:
            a[3, 5] = np.inf
            want = numc.matmul(a, b, c, fma=text, target="portable")
        else:
            want = by_python(a, b, c, text) if shape[1] else c
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=text, target=target, threads=2), want)
        assert found is None, f"{text}, {shape}, {target}: {found}"


def test_what_overflows() -> None:
    """131072 products of 127 and 127 are below 2^31, and eight in 16 bits are not."""
    a = np.ones((1, 20), np.float32)
    for text, want in {
        "ampere_int8": 20 * 127 * 127,
        "fma(a=int8,acc=fp32,datapath=int(bits=16))": 20 * 127 * 127 - 5 * 65536,
        "fma(a=int8,acc=fp32,datapath=int(bits=16,saturate=1))": 32767,
    }.items():
        assert np.isclose(numc.matmul(a, a.T, fma=text).item() * 127 * 127, want, atol=0.1)
    assert numc.matmul(a, a.T, fma="ampere_int8") == numc.matmul(a, a.T, fma="int8")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["cdna3_int8", CASES[2], "fma(a=int8,b=int8:channel,acc=fp32,datapath=int(bits=16))"])
def test_models(text: str) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 25, 10)]
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(2, 3, 5, 5)
    program = numc.compile(model, (x,), fma=text, pack_weights=True)
    report = numc.verify(program, {program.inputs[0].name: x.numpy()}, samples=40)
    assert report.mismatches == 0, report.first


@pytest.mark.parametrize(
    ("fma", "message"),
    [
        ("fma(a=bf16,acc=fp32,datapath=int)", "datapath 'int' multiplies integers, want a=intN"),
        ("fma(a=mxfp8,acc=fp32,datapath=int)", "datapath 'int', 'mxfp8_e4m3' takes fp32 or fused"),
        ("fma(a=int8,acc=fp32,datapath=int(bits=64))", "bits=64, want a whole number from 8 to 32"),
        ("fma(a=int8,acc=bf16,datapath=int)", "summed in fp32, want acc=fp32"),
        ("fma(a=int8,b=bf16,acc=fp32,datapath=int)", "datapath 'int' multiplies integers"),
    ],
)
def test_what_does_not_fit(fma: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(fma)
    assert message in str(error.value)


def test_names() -> None:
    assert len(INTEGERS) == 11
    for name in INTEGERS:
        fma = parse_fma(name)
        assert str(fma) == name
        assert parse_fma(f"fma(a={fma.a},acc={fma.acc},datapath={fma.datapath})") == fma
