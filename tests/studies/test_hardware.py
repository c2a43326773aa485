"""The machines of FAST and of the variable-precision GPU: cycles, power, and the contractions of a training step."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import numc
from numc.numerics.grammar import parse_fma
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.policy import Decision, parse_operand
from numc.studies.cost import report
from numc.studies.hardware.area import step_passes
from numc.studies.hardware.machine import load_machine
from numc.studies.hardware.units import Array, Units, Work

CNN = Path(__file__).parents[2] / "examples" / "digits" / "cnn.onnx"
FAST, GPU = load_machine("fast"), load_machine("vpgpu")
ARRAY = FAST.units["fmac"]


def decision(fma: str, m: int, n: int, k: int, b: int = 1, role: str = "forward", kind: str = "matmul") -> Decision:
    loops = (("b", b), ("m", m), ("n", n), ("k", k))
    layer = Layer("x", (kind,), role, False, 0, loops, ((b, m, k), (b, k, n), (b, m, n)))
    return Decision(layer, parse_fma(fma), parse_operand("fp32"), None, None)


@pytest.mark.parametrize(
    ("work", "cycles"),
    [
        # Weights stay in the cells: one tile, then 2 x 2 of them.
        *((Work(1, 1024, 256, 1024, p), n) for p, n in ((1, 1342), (2, 2366), (4, 4414))),
        (Work(1, 1000, 300, 1100, 2), 9272),
        # Sums stay in the cells.
        (Work(1, 512, 128, 1000, 2, wgrad=True), 1776),
        # Depthwise, 128 channels of 3 x 3: the sparse product of 1152 by 128, a column of tiles more than 1024 take.
        (Work(128, 1000, 1, 9, 1, conv=True), 2 * (1000 + 318)),
        (Work(128, 1, 9, 1000, 1, wgrad=True, conv=True), 18 * (63 + 318)),
        # Products of activations are computed one by one.
        (Work(3, 1024, 256, 1024, 1), 3 * 1342),
    ],
)
def test_cycles_of_the_array_of_fast(work: Work, cycles: int) -> None:
    assert ARRAY.cycles(work) == {"compute": cycles}


def test_peak_rates_and_square_arrays() -> None:
    msfp12 = FAST.units["msfp12"]
    assert isinstance(ARRAY, Array)
    assert msfp12.count == 52900
    # Multiply-adds in a cycle at p = 1, 2 and 4 against those of MSFP-12; ">2x" needs a mean p of at most 2.48.
    rates = [ARRAY.count * ARRAY.values / p / msfp12.count for p in (1, 2, 4)]
    assert [f"{rate:.2f}" for rate in rates] == ["4.96", "2.48", "1.24"]
    sides = {name: unit.rows for name, unit in FAST.units.items() if isinstance(unit, Array) and name != "fmac"}
    assert sides == {
        "hfp8": 245, "msfp12": 230, "int12": 210, "bf16": 180, "fp16": 150, "int8": 262, "fp32": 118
    }  # fmt: skip
    # The areas of the arrays in fMACs: bf16 is not consistent with its side; what is ours is the largest that fits.
    areas = {name: unit.count * unit.area / 16 for name, unit in FAST.units.items() if unit.area}  # type: ignore[union-attr]
    assert {name: round(areas[name]) for name in ("hfp8", "int12", "fp16", "bf16")} == {
        "hfp8": 15381, "int12": 15435, "fp16": 14906, "bf16": 19440
    }  # fmt: skip
    for name in ("int8", "fp32"):
        assert areas[name] <= 16384 < areas[name] * ((sides[name] + 1) / sides[name]) ** 2
    assert (FAST.clock, FAST.caches, FAST.bandwidth) == (500e6, (3 * 128 * (16 << 10),), None)
    assert FAST.assumed == ("units.msfp12.milliwatts", "units.int8.rows", "units.int8.columns", "units.fp32")


def test_power_and_energy() -> None:
    parts = FAST.components
    assert sum(part.watts for part in parts.values()) == pytest.approx(23.63)
    assert sum(part.area or 0 for part in parts.values()) == pytest.approx(100)
    assert FAST.watts("fmac") == pytest.approx(23.63)
    # 60,025 multipliers at 2.406 mW for 16 of them, against 16,384 fMACs at 0.885 mW: 14.5 W, of which III has 15.61.
    assert FAST.watts("hfp8") == pytest.approx(8.02 + 15.61 * (60025 / 16 * 2.406) / (16384 * 0.885))
    assert pytest.approx(14.5, abs=0.01) == 16384 * 0.885e-3
    (cost,) = report([decision("fma(a=bfp(16,3,2),b=bfp(16,3,4),acc=fp32)", 1024, 256, 1024)], FAST).costs
    assert (cost.cycles, cost.seconds, cost.bound, cost.passes) == (2366, 2366 / 500e6, "compute", 2)
    assert cost.joules == pytest.approx(2366 / 500e6 * 23.63)
    assert cost.utilisation == pytest.approx(2048 / 2366)
    bare = replace(FAST, components={})
    found = report([decision("mp", 4, 4, 4)], bare)
    assert (found.costs[0].joules, found.energy, found.total()["joules"]) == (None, None, None)
    assert FAST.watts("fp32") is not None
    assert GPU.watts("fp32") is None


@pytest.mark.parametrize(
    ("fma", "unit", "steps"),
    [
        ("lowbfp", "fmac", 1),
        ("fma(a=bfp(8,3,4),b=bfp(8,3,2),acc=fp32)", "fmac", 2),
        ("msfp12", "msfp12", 1),
        ("fma(a=msfp12,acc=fp32,datapath=fmac2)", "fmac", 4),
        ("int8", "int8", 1),
        ("fma(a=int8,b=int9,acc=fp32)", "int12", 1),
        ("hfp8_bwd", "hfp8", 1),
        ("bf16_2_2{3}", "bf16", 3),
        ("fmac(e5m4)", "fp16", 1),
        ("fmac(e6m9)", "fp32", 1),
        ("fp32", "fp32", 1),
    ],
)
def test_the_unit_of_an_operator(fma: str, unit: str, steps: int) -> None:
    assert FAST.unit_for(parse_fma(fma)) == (unit, steps)


def test_passes_of_a_step() -> None:
    widths = list(itertools.product((2, 4), repeat=3))
    found = {one: step_passes(*one) for one in widths}
    assert {one: step.total for one, step in found.items()} == {
        (2, 2, 2): 3, (2, 2, 4): 5, (2, 4, 2): 5, (4, 2, 2): 5, (2, 4, 4): 8, (4, 2, 4): 8, (4, 4, 2): 8, (4, 4, 4): 12
    }  # fmt: skip
    order = sorted(widths, key=lambda one: (found[one].total, found[one].backward))
    assert order.index((4, 2, 2)) < order.index((2, 2, 4))
    assert (found[4, 2, 2].backward, found[2, 2, 4].backward) == (3, 4)
    with pytest.raises(numc.NumcError, match="^gradient bits: got 0, want a whole number from 1 to 23$"):
        step_passes(2, 2, 0)


def test_the_variable_precision_gpu() -> None:
    """Table 6.9: the latencies of a multiply-add are hidden where there are enough results to compute."""
    fp32, vf32 = GPU.units["fp32"], GPU.units["vf32"]
    # 80 cores, 4 units of 32 threads, initiation intervals of 2 and 1 cycles; 24 channels of 16 bytes at 2 x 850 MHz.
    assert (fp32.count, vf32.count) == (80 * 4 * 32 // 2, 80 * 4 * 32)
    assert (GPU.clock, GPU.bandwidth) == (1.2e9, pytest.approx(24 * 16 * 2 * 850e6))
    cycles = {}
    for latency in (5, 4, 3):
        changed = replace(GPU, units={"vf32": Units(vf32.count, latency)})
        for batch in (1, 10_000):
            layers = [decision("fmacs(e8m7)", batch, n, k) for k, n in ((784, 128), (128, 64), (64, 10))]
            cycles[batch, latency] = sum(cost.cycles or 0 for cost in report(layers, changed).costs)
    assert cycles[10_000, 5] == cycles[10_000, 4] == cycles[10_000, 3]
    assert [cycles[1, latency] for latency in (5, 4, 3)] == [latency * (784 + 128 + 64) for latency in (5, 4, 3)]
    # Bound by memory, half the bits take nearly half the time, dense or in words.
    thin = [report([decision(f"fmacs(e5m{m})", 1, 4096, 4096)], GPU, align=32).costs[0] for m in (10, 2)]
    assert [cost.bound for cost in thin] == ["memory", "memory"]
    assert (thin[0].seconds or 0) / (thin[1].seconds or 1) == pytest.approx(2, rel=0.01)


def test_the_tables_of_the_documentation() -> None:
    page = (CNN.parents[2] / "docs" / "cost.md").read_text()
    rows = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| ")]
    table = {row[0].strip("`"): row[1:] for row in rows if len(row) == 7 and row[0].strip("`") in FAST.units}
    assert set(table) == set(FAST.units)
    for name, row in table.items():
        array = FAST.units[name]
        assert isinstance(array, Array)
        assert array.milliwatts is not None
        in_16 = array.count * array.values / 16
        area = "-" if array.area is None else f"{array.area:g}"
        sides = f"{array.rows} x {array.columns}"
        whole = "-" if array.area is None else f"{in_16 * array.area:.0f}"
        numbers = [whole, f"{in_16 * array.milliwatts / 1000:.2f}", f"{FAST.watts(name):.2f}"]
        assert [cell.removesuffix(", *ours*") for cell in row] == [area, f"{array.milliwatts:.3f}", sides, *numbers]
    for number, key in ((1, "area"), (2, "watts")):
        cells = [row[1:6] for row in rows if len(row) == 7 and row[0] == ("area, %", "power, W")[number - 1]]
        assert cells == [[f"{getattr(part, key):.2f}" for part in FAST.components.values()]]


def test_a_training_step_of_a_file() -> None:
    found = numc.cost(CNN, fma="lowbfp", machine="fast", training=True, batch=8)
    forward = numc.cost(CNN, fma="lowbfp", machine="fast", batch=8)
    assert found.costs[: len(forward.costs)] == forward.costs
    names = [cost.layer for cost in found.costs]
    assert names[5:8] == ["node_linear_1/dgrad", "node_linear_1/wgrad", "node_linear/dgrad"]
    assert names[-2:] == ["node_conv2d_1/wgrad", "node_conv2d/wgrad"]  # inputs need no gradient
    assert {c.layer: c.shape for c in found.costs}["node_conv2d_2/wgrad"] == "32 x 288 x 128"
    assert (found.passes, found.area, found.bytes) == (1, 4, sum(cost.bytes for cost in found.costs))
    assert found.latency == pytest.approx(sum(cost.cycles or 0 for cost in found.costs) / 500e6)
    assert found.energy == pytest.approx((found.latency or 0) * 23.63)
    chosen = numc.cost(CNN, policy="default lowbfp\nrole wgrad highbfp", machine="fast", training=True)
    assert {cost.role: cost.passes for cost in chosen.costs} == {"forward": 1, "dgrad": 1, "wgrad": 4}
    assert chosen.passes is not None
    assert 1 < chosen.passes < 4
    assert numc.cost(CNN, policy="default lowbfp\nlayer 0 fp32").passes is None
    with pytest.raises(numc.NumcError, match="^training: got int, want True or False$"):
        numc.cost(CNN, training=1)  # type: ignore[arg-type]


def test_a_model_without_weights(tmp_path: Path) -> None:
    (tmp_path / "product.mlir").write_text("""
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}""")
    with pytest.raises(numc.NumcError, match="product.mlir: no contraction has weights, so there is nothing to "):
        numc.cost(tmp_path / "product.mlir", training=True)


@pytest.mark.all
def test_multiply_adds_of_a_training_step_are_those_that_torch_counts() -> None:
    """Strides, products of activations, and weights that a batch shares, against torch's own counter."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    class Net(torch.nn.Module):  # type: ignore[name-defined, misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.query, self.value = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 12)
            self.out = torch.nn.Linear(12, 5)

        def forward(self, x: object) -> object:
            x = torch.relu(self.conv(x)).flatten(2).transpose(1, 2)
            weights = torch.softmax(self.query(x) @ x.transpose(1, 2), -1)
            return self.out((weights @ self.value(x)).mean(1))

    net, x = Net(), torch.zeros(4, 3, 8, 8)
    with FlopCounterMode(display=False) as counter:
        y = net(x)
        forward = counter.get_total_flops() // 2
        y.sum().backward()
    found = numc.cost(torch.export.export(net, (x,)), training=True)
    fmas: Counter[str] = Counter()
    for cost in found.costs:
        fmas[cost.role] += cost.fmas
    assert fmas["forward"] == forward
    assert sum(fmas.values()) == counter.get_total_flops() // 2
    assert {c.layer: c.shape for c in found.costs}["value/wgrad"] == "12 x 8 x 64"  # one weight for the whole batch
