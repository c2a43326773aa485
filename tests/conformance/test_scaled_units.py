"""Units whose operands are blocks with scales, against the model of their instructions (PyPI: mmasim), bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import arithmetic_vectorised as vectorised
import numc
from numc.numerics import reference
from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from targets_here import HERE
from tiers import one_in
from unit_models import DATA, SCALED, operands
from unit_steps import ONE_LEVEL, UNITS_OF_BLOCKS, compared, many


@pytest.mark.parametrize("unit", one_in(99, [*UNITS_OF_BLOCKS, ONE_LEVEL], "blackwell_nvfp4"))
def test_the_model_of_the_units(unit: str) -> None:
    for seed, data in enumerate(DATA):
        part = compared(unit, data, seed, 16)
        assert part.steps
        assert part.first is None, f"{unit}, {data}, seed {seed}: {part.first}"


@pytest.mark.slow
@pytest.mark.parametrize("unit", [*UNITS_OF_BLOCKS, ONE_LEVEL])
def test_a_million_steps(unit: str) -> None:
    for part in many(unit, 1_000_000):
        assert part.first is None, f"{unit}: {part.first}"


OTHERS = [
    "fma(a=mxfp8,b=mxfp6_e3m2,acc=bf16,datapath=fused(l=8,bits=12))",
    "fma(a=mxfp4,acc=fp16,datapath=fused(l=64,bits=20))",
    "fma(a=mx(e4m3fn,12),b=mx(e3m2fn,12),acc=fp32:rtz,datapath=fused(l=24,bits=20,run=4))",
    "fma(a=mx(e4m3fn,32,scale=bf16),b=mx(e5m2,32,scale=fp16),acc=fp16,datapath=fused(l=8,bits=22,least=-5))",
    "fma(a=mxfp8,acc=e6m9:sr8,datapath=fused(l=16,bits=20))",
    "fma(a=mxfp8:sr4,b=mxfp8:sr4,acc=e6m9:rtz,datapath=fused(l=16,bits=20))",
    "fma(a=nvfp4,b=mx(e2m1fn,16,scale=e4m3fn),acc=fp32,datapath=fused(l=8,bits=30,run=8))",
    "fma(a=mx(e4m3fn,32,scale=e8m0fnu,rule=amax),b=mx(e4m3fn,32,scale=fp16),acc=fp32:rtz,datapath=fused(l=32,bits=25))",
    "fma(a=mx(e4m3fn,32,scale=e8m0fnu,rule=amax),acc=fp32:rtz,datapath=fused(l=32,bits=25))",
    "fma(a=mx(e2m1fn,1),acc=e4m3fn,datapath=fused(l=3,bits=9))",
]
SHAPES = [(3, 70, 5), (5, 1, 33), (2, 0, 3)]


@pytest.mark.parametrize("fma", one_in(99, ["blackwell_mxfp4", *OTHERS, "blackwell_nvfp4"], OTHERS[2], OTHERS[6]))
def test_kernels_are_the_definition(fma: str) -> None:
    """Shapes that are no whole blocks, groups or vectors, with one step and with none."""
    for seed, data in enumerate(DATA):
        shape = SHAPES[seed % 3]
        a, b, c = operands(shape, data, seed)
        want = reference.matmul(a, b, c, fma, seed=seed)
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=fma, seed=seed), want)
        assert found is None, f"{fma}, {data}, {shape}: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("fma", [*UNITS_OF_BLOCKS[::5], *UNITS_OF_BLOCKS[-3:], *OTHERS])
def test_every_target(fma: str, target: str) -> None:
    """Several blocks of k and threads, against kernels without cheap sequences."""
    for seed, data in enumerate(DATA):
        a, b, c = operands([(3, 70, 5), (70, 1100, 40), (1, 300, 70)][seed % 3], data, seed)
        want = reference.matmul(a, b, c, fma) if a.size < 300 else numc.matmul(a, b, c, fma=fma, target="portable")
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=fma, target=target, threads=2), want)
        assert found is None, f"{fma}, {data}, {target}: {found}"


@pytest.mark.parametrize("unit", one_in(9, ["blackwell_nvfp4", "blackwell_mxfp8_mxfp4", "blackwell_mxfp6"]))
def test_models(unit: str) -> None:
    """A model of PyTorch, with packed weights."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv1d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 9, 10)]
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(2, 3, 9)
    program = numc.compile(model, (x,), fma=unit, pack_weights=True)
    report = numc.verify(program, {program.inputs[0].name: x.numpy()}, samples=20)
    assert report.mismatches == 0, report.first
    with numc.collect_stats(("rounding", "exponents")) as collected:
        program(x.numpy())
    assert [row.fma for row in collected.statistics.rows] == [unit] * 2
    assert "fixed-point additions" in collected.statistics.rows[0].instructions


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS_OF_BLOCKS[::9])
def test_a_network_of_onnx(unit: str) -> None:
    program = numc.compile("examples/digits/cnn.onnx", fma=unit)
    images = np.load("examples/digits/heldout.npz")["images"][:8]
    report = numc.verify(program, {"x": images})
    assert report.mismatches == 0, report.first


@pytest.mark.slow
def test_training() -> None:
    """The gradients of a layer are products of the operators of their roles, which bytes of the numbers say."""
    torch.manual_seed(0)
    roles = {"dgrad": "blackwell_mxfp8_e5m2_mxfp8", "wgrad": "blackwell_mxfp8_e5m2"}
    layer, x = torch.nn.Linear(40, 12, bias=False), torch.randn(50, 40, requires_grad=True)
    compiled = torch.compile(layer, backend=numc.backend("blackwell_nvfp4", **roles))
    out = compiled(x)
    seed = torch.randn_like(out)
    out.backward(seed)
    w, of_x, g = layer.weight.detach().numpy(), x.detach().numpy(), seed.numpy()
    assert layer.weight.grad is not None
    assert x.grad is not None
    pairs = [
        (out.detach(), numc.matmul(of_x, w.T, fma="blackwell_nvfp4")),
        (x.grad, numc.matmul(g, w, fma=roles["dgrad"])),
        (layer.weight.grad, numc.matmul(np.ascontiguousarray(g.T), of_x, fma=roles["wgrad"])),
    ]
    for found, want in pairs:
        assert (difference := vectorised.first_mismatch(found.numpy(), want)) is None, difference


@pytest.mark.parametrize(
    ("fma", "a", "b", "c", "want"),
    [
        # 2 * 2^-3 and 1.5 * 2^-4 have the exponents -2 and -4, however large the scales are.
        ("fma(a=mx(e2m1fn,2),acc=fp32:rtz,datapath=fused(l=2,bits=1))", [4, 0.5], [4, 3], 0, 16),
        # A run of products that cancels has the exponent of its scales, and cuts the accumulator off.
        ("fma(a=mx(e2m1fn,2),acc=fp32:rtz,datapath=fused(l=2,bits=1,run=2))", [16, -16], [4, 4], 1.5, 0),
        # One whose products are all zeros has none, though its scales are 16 and 1.
        ("fma(a=mx(e2m1fn,2),acc=fp32:rtz,datapath=fused(l=2,bits=1,run=2))", [64, 0], [0, 4], 1.25, 1),
        # A scale of a tensor multiplies the whole sum, which is added in float32, to nearest.
        ("fma(a=nvfp4,acc=fp32:rtz,datapath=fused(l=16,bits=25))", [3, 6], [1, 1], 2.0**25, 2.0**25 + 8),
    ],
)
def test_by_hand(fma: str, a: list[float], b: list[float], c: float, want: float) -> None:
    x, y, start = np.float32([a]), np.float32(b)[:, None], np.float32([[c]])
    for found in (reference.matmul(x, y, start, fma), numc.matmul(x, y, start, fma=fma)):
        assert found.item() == want


def test_names() -> None:
    assert len(UNITS_OF_BLOCKS) == 28
    assert len({*SCALED} & {name.removeprefix("blackwell_") for name in UNITS_OF_BLOCKS}) == 5
    for name in UNITS_OF_BLOCKS:
        fma = parse_fma(name)
        assert str(fma) == name
        assert parse_fma(f"fma(a={fma.a},b={fma.b},acc={fma.acc},datapath={fma.datapath})") == fma


@pytest.mark.parametrize(
    ("fma", "message"),
    [
        (
            "fma(a=bf16,acc=fp32,datapath=fused(l=4,bits=20,run=2))",
            "a run shares scales, and a and b are not both of groups",
        ),
        ("fma(a=bf16,b=mxfp8,acc=fp32,datapath=fused(l=4,bits=20,run=2))", "a run shares scales"),
        (
            "fma(a=mxfp8,acc=fp32,datapath=fused(l=24,bits=20))",
            "l=24 with groups of 32, want a multiple of 32 or a part of it",
        ),
        ("fma(a=mxfp8,acc=fp32,datapath=fused(l=32,bits=20,run=5))", "run=5, want a part of l=32 and of groups of 32"),
        (
            "fma(a=mxint8,acc=fp32,datapath=fused(l=32,bits=20))",
            "a=mxint8, datapath 'fused' takes groups of floating-point elements",
        ),
        (
            "fma(a=mx(nf4,32,scale=fp16),acc=fp32,datapath=fused(l=32,bits=20))",
            "floating-point elements, such as mxfp8 or nvfp4",
        ),
        (
            "fma(a=bfp(16,8,3),acc=fp32,datapath=fused(l=16,bits=20))",
            "datapath 'fused', 'bfp(16,8,3)' takes fp32 or fmac2",
        ),
        (
            "fma(a=nvfp4,acc=fp16,datapath=fused(l=16,bits=20))",
            "acc=fp16, the scales of tensors multiply a sum in fp32",
        ),
        (
            "fma(a=mxfp8,acc=bf16x2,datapath=fused(l=32,bits=20))",
            "acc=bf16x2, datapath 'fused' takes formats of one part",
        ),
        ("fma(a=mxfp8:sr4,acc=e5m9:sr4,datapath=fused(l=32,bits=20))", "would draw the same bits"),
        (
            "fma(a=mx(e4m3fn,32,scale=fp32),acc=fp32,datapath=fused(l=32,bits=20))",
            "the sum of a block takes more than 53 bits",
        ),
        (
            "fma(a=mxfp8_e5m2,acc=fp32,datapath=fused(l=32,bits=20,run=32))",
            "the sum of a block takes more than 53 bits",
        ),
        ("fma(a=mxfp8,acc=fp32,chunk=64,datapath=fused(l=32,bits=20))", "chunk=64, formats with groups"),
        ("fma(a=mxfp8,acc=fp32,datapath=dot(l=4))", "datapath 'dot', 'mxfp8_e4m3' takes fp32 or fused"),
    ],
)
def test_what_does_not_fit(fma: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(fma)
    assert message in str(error.value)
