"""--pack-weights changes where a program's weights are, not one bit of them or of what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import arithmetic_vectorised as reference
import numc
from numc.compiler.lower import lowered
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Argument, Imported
from numc.numerics.grammar import parse_fma
from numc.runtime import Contents, Program, read_program, write_program
from numc.studies.observe.verify import verify
from targets_here import runnable
from tiers import by_default, one_in, pairs

ROOT = Path(__file__).resolve().parents[2]
MODELS = [ROOT / "examples" / "digits" / "cnn.onnx"] + [
    ROOT / "examples" / "models" / f"{name}.onnx" for name in ("transformer", "lstm", "gru")
]
OPERATORS = ["mp", "fmac(e4m5)", "bf16_2_2", "bf16_3_3{6}", "fma(a=bf16,b=e4m3fn,acc=fp32)", "highbfp", "mxfp6", "int8"]


def expanded(contents: Contents) -> list[np.ndarray]:
    """The weights as the code reads them."""
    pairs = zip(contents.abi.weights, contents.weights, strict=True)
    return [array if spec.storage is None else spec.storage.expand(array).reshape(spec.shape) for spec, array in pairs]


def same_memory(short: Contents, plain: Contents) -> None:
    """All that is not held in codes is what the unpacked program holds; codes take less, and the file has no more."""
    rows = zip(short.manifest["weights"], expanded(short), short.weights, plain.weights, strict=True)
    for row, got, stored, want in rows:
        if row["held"].startswith("codes"):
            assert stored.nbytes == row["bytes"] < want.nbytes
        else:
            same_bits([got], [want])


def same_bits(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        assert g.tobytes() == w.tobytes()


@pytest.mark.parametrize(
    ("fma", "model"),
    by_default(one_in(20, pairs(OPERATORS, MODELS), ("mp", MODELS[0])), [("mp", MODELS[0])]),
    ids=lambda value: getattr(value, "stem", value),
)
@pytest.mark.all
def test_same_weights_same_results(fma: str, model: Path, tmp_path: Path) -> None:
    plain, short = numc.compile(model, fma=fma), numc.compile(model, fma=fma, pack_weights=True)
    same_memory(short.contents, plain.contents)
    rng = np.random.default_rng(0)
    for batch in (1, 9, 2):
        shapes = [[batch if d is None else d for d in i.shape] for i in plain.inputs]
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        want = plain(*inputs)
        same_bits([short(*inputs, threads=threads) for threads in (1, 2)], [want, want])
    plain.save(tmp_path / "plain.numc")
    short.save(tmp_path / "short.numc")
    stored = [sum(array.nbytes for array in program.contents.weights) for program in (short, plain)]
    assert stored[0] < stored[1] or fma == "int8"  # whose words are as short
    loaded = numc.load(tmp_path / "short.numc")
    same_bits([short(*inputs), loaded(*inputs)], [want, want])
    loaded.save(tmp_path / "again.numc")
    assert (tmp_path / "again.numc").read_bytes() == (tmp_path / "short.numc").read_bytes()


SPECIAL = """
func.func @main(%x: tensor<?x70xf32>, %w: tensor<70x33xf32>, %t: tensor<33x70xf32>) -> tensor<?x70xf32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x70xf32>
  %e = tensor.empty(%n) : tensor<?x33xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x33xf32>) -> tensor<?x33xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x70xf32>, tensor<70x33xf32>) outs(%f : tensor<?x33xf32>) -> tensor<?x33xf32>
  %e2 = tensor.empty(%n) : tensor<?x70xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<?x70xf32>) -> tensor<?x70xf32>
  %r = linalg.matmul ins(%y, %t : tensor<?x33xf32>, tensor<33x70xf32>) outs(%f2 : tensor<?x70xf32>) -> tensor<?x70xf32>
  return %r : tensor<?x70xf32>
}
"""


@pytest.mark.parametrize(
    ("fma", "target"),
    pairs(
        ["bf16_1_1", "bf16_2_2", "bf16_3_3", "fmac(e6m9)", "fmac(e4m2n)", "fma(a=e4m3fn,acc=fp32)"],
        ["x86-64-v2", "x86-64-v3", "x86-64-v4"],
    ),
)
def test_every_kind_of_value_for_every_target(fma: str, target: str, tmp_path: Path) -> None:
    """Zeros of both signs, infinities, NaN, subnormals of float32 and of the format; panels of all vector lengths."""
    rng = np.random.default_rng(1)
    w = (rng.uniform(-1, 1, (70, 33)) * 2.0 ** rng.integers(-150, 60, (70, 33))).astype(np.float32)
    w[::3, ::2] *= np.float32(0)
    w[5, :8] = [np.inf, -np.inf, 1e-39, -1e-45, -0.0, 2.0**-9, 3e38, np.nan]
    t = rng.standard_normal((33, 70)).astype(np.float32)
    arguments = (Argument("x", "float32", (-1, 70)),), (Argument("y", "float32", (-1, 70)),)
    source = Imported(SPECIAL, *arguments, {1: ("w", w), 2: ("t", t)})
    plain = build(source, Options(fma=fma, target=runnable(target)))
    short = build(source, Options(fma=fma, target=target, pack_weights=True))
    fmt = parse_fma(fma).singles[1].format.name
    rows = [(row["values"], row["held"]) for row in short.manifest["weights"]]
    assert rows == [(0, "packed only")] * 2 + [(70 * 33, f"codes of {fmt}")] * 2
    same_memory(short, plain)
    write_program(tmp_path / "p.numc", short)
    back = read_program(tmp_path / "p.numc")
    assert back.abi == short.abi
    same_bits(list(back.weights), list(short.weights))
    x = rng.standard_normal((19, 70)).astype(np.float32)
    for some in (x, x[:1]):
        both = [Program(contents)(some) for contents in (plain, short)]
        same_bits(*[[np.where(np.isnan(y), np.float32(np.nan), y)] for y in both])
        assert np.isnan(both[0]).any()


@pytest.mark.parametrize(
    ("fma", "rows"), pairs(["bf16_1_1", "fmac(e4m5)", "fma(a=bf16,b=e4m3fn,acc=fp32)"], [1, 3, 40])
)
def test_micro_kernels_of_few_rows_read_codes(fma: str, rows: int) -> None:
    """Of a known number of rows; with more, tasks expand the codes. Either way, products come in the same order."""
    rng = np.random.default_rng(3)
    w, t = (rng.standard_normal(shape).astype(np.float32) for shape in ((70, 33), (33, 70)))
    arguments = (Argument("x", "float32", (rows, 70)),), (Argument("y", "float32", (rows, 70)),)
    text = "\n".join(line for line in SPECIAL.splitlines() if "tensor.dim" not in line and "index" not in line)
    text = text.replace("tensor<?x", f"tensor<{rows}x").replace("(%n)", "()")
    source = Imported(text, *arguments, {1: ("w", w), 2: ("t", t)})
    plans = str(lowered(source, Options(fma=fma, pack_weights=True), "plan"))
    assert ('lanes = "codes"' in plans, 'lanes = "expanded codes"' in plans) == (rows < 4, rows > 4)
    x = rng.standard_normal((rows, 70)).astype(np.float32)
    same_bits(*[[Program(build(source, Options(fma=fma, pack_weights=short)))(x)] for short in (False, True)])


class Tied(torch.nn.Module):
    """One weight that a gather reads, a contraction, and another one along its other direction."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embedding(x)
        for _ in range(2):
            y = y @ self.embedding.weight.T @ self.embedding.weight
        return y


def test_a_weight_that_contractions_and_a_gather_read() -> None:
    """Contractions that read it alike share its codes; the gather reads all of its bits."""
    torch.manual_seed(4)
    x = torch.randint(0, 64, (5,))
    model = Tied().eval()
    plain, short = (numc.compile(model, (x,), fma="bf16_1_1", pack_weights=packs) for packs in (False, True))
    held = [row["held"] for row in short.contents.manifest["weights"] if row["values"] == 64 * 32]
    assert sorted(held) == ["codes of bf16", "codes of bf16", "float32"]
    same_bits([short(x.numpy())], [plain(x.numpy())])


def test_statistics_see_the_weights(tmp_path: Path) -> None:
    x = np.load(ROOT / "examples" / "digits" / "heldout.npz")["images"][:3]
    told = []
    for packs in (False, True):
        program = numc.compile(MODELS[0], fma="fmac(e4m5)", statistics=True, pack_weights=packs)
        with numc.collect_stats() as collected:
            program(x)
        told.append(str(collected.statistics))
        assert verify(program, {program.inputs[0].name: x}, samples=20).mismatches == 0
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("fma", "target"),
    pairs(
        ["highbfp", "fma(a=highbfp,acc=fp32,datapath=fmac2)", "mxfp4", "mxint8", "int8", "int12"],
        ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni"],
        lambda fma, target: target == "x86-64-v4-vnni" and "int8" in fma,
    ),
)
def test_groups_for_every_target(fma: str, target: str) -> None:
    """Float32 numbers, chunks of magnitudes, and pairs of integers with their units: the same bytes for all of them."""
    rng = np.random.default_rng(2)
    w = (rng.standard_normal((70, 33)) * 2.0 ** rng.integers(-12, 3, (70, 33))).astype(np.float32)
    w[16:32, 3] = 0
    t = rng.standard_normal((33, 70)).astype(np.float32)
    arguments = (Argument("x", "float32", (-1, 70)),), (Argument("y", "float32", (-1, 70)),)
    source = Imported(SPECIAL, *arguments, {1: ("w", w), 2: ("t", t)})
    plain = build(source, Options(fma=fma, target=target))
    short = build(source, Options(fma=fma, target=target, pack_weights=True))
    packed = [w.storage is not None for w in short.abi.weights]
    in_codes = fma != "highbfp" and plain.manifest["weights"][2]["held"] == "float32" and "fmac2" not in fma
    assert packed == [False, False, not in_codes, not in_codes]
    same_memory(short, plain)


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(2, ["fmac(e4m5:sr8)", "fma(a=bf16,b=e4m3:sr8,acc=fp32)"]))
@pytest.mark.all
def test_weights_that_are_drawn_at_each_execution_stay_as_they_are(fma: str) -> None:
    model = ROOT / "examples" / "digits" / "mlp.onnx"
    plain, short = numc.compile(model, fma=fma), numc.compile(model, fma=fma, pack_weights=True)
    assert [w.storage for w in short.contents.abi.weights] == [None] * len(plain.contents.weights)
    same_bits(list(short.contents.weights), list(plain.contents.weights))
    x = np.load(ROOT / "examples" / "digits" / "heldout.npz")["images"][:3]
    same_bits([short(x, seed=seed) for seed in (1, 2)], [plain(x, seed=seed) for seed in (1, 2)])
    assert short(x, seed=1).tobytes() != short(x, seed=2).tobytes()


def test_weights_that_no_kernel_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without panels, the values are in the bytes of the format in their own order; float32 ones stay mapped."""
    monkeypatch.setenv("NUMC_DISABLE", "pack-weights")
    model = ROOT / "examples" / "digits" / "cnn.onnx"
    plain, short = numc.compile(model, fma="fmac(e4m5)"), numc.compile(model, fma="fmac(e4m5)", pack_weights=True)
    specs = {w.name: w for w in short.contents.abi.weights}
    storage = specs["conv2.weight"].storage
    assert storage is not None
    assert (storage.panels, storage.shape, storage.stored_bytes) == (None, (1, 32 * 16 * 3, 3), 32 * 16 * 9 * 10 // 8)
    assert specs["fc1.bias"].storage is None
    same_bits(expanded(short.contents), list(plain.contents.weights))
    x = np.load(ROOT / "examples" / "digits" / "heldout.npz")["images"][:3]
    same_bits([short(x)], [plain(x)])


def test_nothing_to_gain() -> None:
    model = ROOT / "examples" / "digits" / "mlp.onnx"
    contents = numc.compile(model, fma="fp32", pack_weights=True).contents
    assert [w.storage for w in contents.abi.weights] == [None] * len(contents.weights)


@pytest.mark.parametrize("fma", ["fma(a=tf32x2,acc=fp32,products=3)", "fma(a=fp16,b=e5m2x3,acc=fp32)"])
def test_weights_of_several_parts(fma: str, tmp_path: Path) -> None:
    """Panels are packed before a run, from values or from what a file holds: the definition, to the bit."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 300), np.float32)
    layer = torch.nn.Linear(300, 33, bias=False)
    program = numc.compile(layer, (torch.from_numpy(x),), fma=fma, pack_weights=True)
    program.save(tmp_path / "p.numc")
    want = reference.matmul(x, layer.weight.detach().numpy().T, fma=fma)
    for each in (program, numc.load(tmp_path / "p.numc")):
        assert reference.first_mismatch(np.asarray(each(x)), want) is None
