"""Models with tensors of bfloat16, float16, float8 and float64: what is rounded, and what enters and leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

import numc
from numc.support.errors import NumcError
from torch_modules import Calls

Array = npt.NDArray[Any]
# In MLIR, in numpy.
DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


def refused(model: Any, *inputs: Any, **options: Any) -> str:
    with pytest.raises(NumcError) as caught:
        numc.compile(model, *([inputs] if inputs else []), **options)
    return str(caught.value)


# What enters and leaves.


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that returns a tensor of each narrow dtype as it is, and widened."""
    taken, body, results = [], [], []
    for n, element in enumerate(DTYPES):
        taken.append(f"%a{n}: tensor<?x{element}>")
        body.append(f"""
  %d{n} = tensor.dim %a{n}, %c : tensor<?x{element}>
  %e{n} = tensor.empty(%d{n}) : tensor<?xf32>
  %w{n} = linalg.generic {{indexing_maps = [#m, #m], iterator_types = ["parallel"]}}
      ins(%a{n} : tensor<?x{element}>) outs(%e{n} : tensor<?xf32>) {{
  ^bb0(%x: {element}, %o: f32):
    %y = arith.extf %x : {element} to f32
    linalg.yield %y : f32
  }} -> tensor<?xf32>""")
        results += [(f"%a{n}", f"tensor<?x{element}>"), (f"%w{n}", "tensor<?xf32>")]
    values, kinds = (", ".join(each) for each in zip(*results, strict=True))
    text = f"#m = affine_map<(i) -> (i)>\nfunc.func @main({', '.join(taken)}) -> ({kinds}) {{"
    text += f"\n  %c = arith.constant 0 : index{''.join(body)}\n  return {values} : {kinds}\n}}\n"
    file = tmp_path_factory.mktemp("narrow") / "codes.mlir"
    file.write_text(text)
    return file


@pytest.mark.parametrize("target", ["host", pytest.param("x86-64-v2", marks=pytest.mark.all)])
def test_every_code_enters_and_leaves_as_it_is(codes: Path, target: str) -> None:
    program = numc.compile(codes, target=target)
    bits = [
        np.arange(256 ** np.dtype(dtype).itemsize).astype(f"u{np.dtype(dtype).itemsize}") for dtype in DTYPES.values()
    ]
    given = [code.view(dtype) for code, dtype in zip(bits, DTYPES.values(), strict=True)]
    assert [spec.dtype for spec in program.inputs] == [np.dtype(dtype).name for dtype in DTYPES.values()]
    found = list(program(*given).values())
    for n, (x, code) in enumerate(zip(given, bits, strict=True)):
        same, wide, want = found[2 * n], found[2 * n + 1], x.astype(np.float32)
        number = ~np.isnan(want)
        assert same.dtype == x.dtype
        assert np.array_equal(same.view(code.dtype)[number], code[number])
        assert np.array_equal(wide.view(np.uint32)[number], want.view(np.uint32)[number])
        assert np.isnan(same.astype(np.float32)[~number]).all()
        assert np.isnan(wide[~number]).all()


def test_arrays_of_narrow_dtypes(codes: Path, tmp_path: Path) -> None:
    """Bits as integers, the bytes of a file of numpy, tensors and numbers are taken; other dtypes are not."""
    program = numc.compile(codes)
    x = {spec.name: np.ones(3, dtype) for spec, dtype in zip(program.inputs, DTYPES.values(), strict=True)}
    want = [value.tobytes() for value in program(x).values()]
    # Files of numpy have no float8.
    np.savez(tmp_path / "x.npz", **{name: value for name, value in x.items() if value.itemsize == 2})
    files = x | dict(np.load(tmp_path / "x.npz"))
    assert files["arg0"].dtype.name == "void16"
    tensors = {name: torch.ones(3, dtype=getattr(torch, value.dtype.name)) for name, value in x.items()}
    integers = {
        name: value.view(f"u{value.itemsize}") if value.dtype.kind != "f" else value for name, value in x.items()
    }
    for given in (files, integers, {name: [1.0, 1.0, 1.0] for name in x}):
        assert [value.tobytes() for value in program(given).values()] == want
    found = program(tensors)
    assert [value.dtype for value in found.values()][::2] == [value.dtype for value in tensors.values()]
    assert all(torch.equal(value.float(), torch.ones(3)) for value in found.values())
    with pytest.raises(
        NumcError, match=r"^input 'arg0': got float32\[3\], want bfloat16\[\?\]: .*\.astype\('bfloat16'\)$"
    ):
        program(x | {"arg0": np.ones(3, np.float32)})
    with pytest.raises(
        NumcError, match=r"got float16\[3\], want bfloat16\[\?\]: convert it with .to\(torch.bfloat16\)$"
    ):
        program(tensors | {"arg0": torch.ones(3).half()})


# What is rounded.


def rounds(a: Any, b: Any, c: Any) -> dict[str, Any]:
    return {
        "add": a + b,
        "factor": torch.add(a, b, alpha=0.3),
        "div": a / b,
        "number": a * 0.1,
        "chain": (a * b + a) * b,
        "mixed": a * c,
        "e4m3": (a * 300).to(torch.float8_e4m3fn).to(a.dtype),
        "e5m2": (a * 60000.0).to(torch.float8_e5m2).to(a.dtype),
        "mm": a @ b.T,
        "double": a.double().sum(-1),
    }


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_each_operation_is_rounded_once(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-2, 2, (8, 16)).astype(dtype) for _ in range(2))
    c = rng.standard_normal((8, 16)).astype(np.float32)
    x, y = a.astype(np.float32), b.astype(np.float32)

    def stored(value: Array, to: Any = dtype) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return value.astype(to).astype(np.float32)

    total = np.zeros((8, 8), np.float32)
    for k in range(16):  # these products and sums are exact in binary64
        total = (total + np.multiply.outer(x[:, k].astype(float), y[:, k])).astype(np.float32)
    alpha, tenth = stored(np.float32(0.3)), np.float32(0.1)
    want = {
        "add": stored(x + y),
        # The sum of a product is a multiply-add, which rounds to binary32 once.
        "factor": stored((x + np.float64(alpha) * y).astype(np.float32)),
        "div": stored(x / y),
        "number": stored(x * tenth),
        "chain": stored(stored(stored(x * y) + x) * y),
        "mixed": x * c,
        "e4m3": stored(stored(np.clip(stored(x * 300), -448, 448), ml_dtypes.float8_e4m3fn)),
        "e5m2": stored(stored(stored(x * 60000), ml_dtypes.float8_e5m2)),
        "mm": stored(total),
        "double": x.astype(float).sum(-1),
    }
    given = [torch.from_numpy(v.view(np.int16)).view(getattr(torch, name)) for v in (a, b)] + [torch.from_numpy(c)]
    found = numc.compile(Calls(rounds), tuple(given))(*given)
    eager = rounds(*given)
    assert list(found) == list(want)
    for key, value in want.items():
        got = found[key]
        assert got.dtype == eager[key].dtype, key
        np.testing.assert_array_equal(got.to(torch.float64).numpy(), value.astype(float), err_msg=key)
        if key != "mm":  # which torch adds in another order
            np.testing.assert_array_equal(eager[key].to(torch.float64).numpy(), value.astype(float), err_msg=key)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_beside_narrow_tensors(dtype: Any) -> None:
    """Eager torch rounds some of them to the dtype, and reads others as float32."""
    tenth = torch.tensor(0.1)
    functions = [
        *(lambda x: x + 0.7, lambda x: x - 0.7, lambda x: 0.7 - x, lambda x: x % 0.7, lambda x: x + tenth),
        *(lambda x: 1.7**x, lambda x: x.abs() ** 0.7, lambda x: x % tenth, lambda x: torch.atan2(x, tenth)),
        *(lambda x: x * 0 + 0.7 == 0.7, lambda x: x * 0 + tenth >= tenth, lambda x: x.abs() ** tenth),
        *(lambda x: x * 0.7, lambda x: x / 0.7, lambda x: x * tenth, lambda x: x.clamp(-0.7, 0.1)),
    ]
    x = (torch.randn(4000, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    module = Calls(lambda x: [function(x) for function in functions])
    for n, (found, want) in enumerate(zip(numc.compile(module, (x,))(x).values(), module(x), strict=True)):
        assert torch.equal(found, want), n


class Block(nn.Module):
    """An embedding, attention and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def cnn() -> nn.Module:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=8, bias=False)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        pytest.param(make, dtype, marks=mark)
        for make in (Block, cnn)
        for dtype, mark in (
            (torch.bfloat16, pytest.mark.all if make is cnn else pytest.mark.slow),
            (torch.float16, pytest.mark.slow),
        )
    ],
)
def test_models_are_as_exact_as_in_eager_torch(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, free = make().eval(), torch.export.Dim("batch")
    x = torch.randint(0, 50, (2, 7)) if make is Block else torch.randn(2, 3, 12, 12).to(dtype)
    exact = model.to(dtype).double()(x if make is Block else x.double()).detach()
    eager = model.to(dtype)(x).detach()
    error = (eager - exact).norm()
    program = numc.compile(model, (x,), dynamic_shapes=({0: free},))
    got = program(x)
    assert got.dtype == dtype
    assert (got - exact).norm() < 1.5 * error
    assert torch.equal(program(x[:1]), got[:1])
    coarse = numc.compile(model, (x,), fma="bf16_1_1")
    assert error < (coarse(x) - exact).norm() < 40 * error
    assert numc.verify(coarse, {coarse.inputs[0].name: x}, samples=20).mismatches == 0
    ignored = numc.compile(model, (x,), dynamic_shapes=({0: free},), respect_dtypes=False)
    plain = numc.compile(model.float(), (x if make is Block else x.float(),), dynamic_shapes=({0: free},))
    assert torch.equal(ignored(x), plain(x if make is Block else x.float()).to(dtype))
    assert (program.manifest["respect_dtypes"], ignored.manifest["respect_dtypes"]) == (True, False)


# What is refused.


def test_contractions_of_float64_take_no_operator() -> None:
    x = torch.arange(12.0, dtype=torch.float64).reshape(3, 4) / 7
    model = nn.Linear(4, 2).double()
    with torch.no_grad():
        assert float((numc.compile(model, (x,))(x) - model(x)).abs().max()) < 1e-15
    assert refused(model, x, fma="bf16_1_1", ops="bf16") == (
        "contraction 'mm' multiplies float64, and 'bf16_1_1' is an operator of float32: convert its operands to "
        "float32, or let a policy give it fp32, which computes it in float64"
    )


def test_the_bits_of_narrow_numbers_are_not_available(tmp_path: Path) -> None:
    text = refused(Calls(lambda x: x.view(torch.int16) + 1), torch.ones(3).bfloat16())
    assert "aten.view.dtype" in text
    file = tmp_path / "bits.mlir"
    file.write_text(
        "func.func @main(%a: tensor<3xbf16>) -> tensor<3xi16> {\n"
        "  %r = tensor.bitcast %a : tensor<3xbf16> to tensor<3xi16>\n  return %r : tensor<3xi16>\n}\n"
    )
    assert refused(file) == (
        "'tensor.bitcast' takes the bits of bfloat16 for another type, or makes bfloat16 of bits, which is not "
        "available: convert the values instead"
    )


# ONNX.


def save(
    path: Path, nodes: list[Any], given: dict[str, tuple[int, Any]], made: dict[str, int], weights: Any = ()
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *of) for name, of in given.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in made.items()],
        [numpy_helper.from_array(value, name) for name, value in dict(weights).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return path


def test_onnx_models_of_float16(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.standard_normal((4, 2, 3, 3)).astype(np.float16),
        "w": (rng.standard_normal((64, 5)) / 8).astype(np.float16),
        "b": rng.standard_normal(5).astype(np.float16),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["g"], name="dense"),
        helper.make_node("Softmax", ["g"], ["y"]),
        helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT),
    ]
    half = TensorProto.FLOAT16
    made = {"y": half, "z": TensorProto.FLOAT, "g": half}
    file = save(tmp_path / "half.onnx", nodes, {"x": (half, ["n", 2, 6, 6])}, made, weights)
    x = rng.standard_normal((3, 2, 6, 6)).astype(np.float16)
    found = numc.compile(file)(x)
    assert {name: value.dtype.name for name, value in found.items()} == {"y": "float16", "z": "float32", "g": "float16"}
    assert np.array_equal(found["y"].astype(np.float32), found["z"])
    want = onnxruntime.InferenceSession(file).run(["y", "g"], {"x": x})
    assert np.abs(found["y"].astype(float) - want[0]).max() < 2**-10
    assert np.abs(found["g"].astype(float) - want[1]).max() < 2**-6


def test_onnx_casts_to_float8_and_double(tmp_path: Path) -> None:
    kinds = [(TensorProto.FLOAT8E4M3FN, DTYPES["f8E4M3FN"], 448), (TensorProto.FLOAT8E5M2, DTYPES["f8E5M2"], 57344)]
    nodes, made = [], {}
    for n, (kind, _, _) in enumerate(kinds):
        for saturate in (0, 1):
            nodes.append(helper.make_node("Cast", ["x"], [f"y{n}{saturate}"], to=kind, saturate=saturate))
            made[f"y{n}{saturate}"] = kind
    nodes += [helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), helper.make_node("Exp", ["d"], ["e"])]
    made["e"] = TensorProto.DOUBLE
    file = save(tmp_path / "casts.onnx", nodes, {"x": (TensorProto.FLOAT, ["n"])}, made)
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 480, 57344, 61440, 61441, 1e9]
    x = np.concatenate([bits.view(np.float32), np.array(special, np.float32)])
    found = numc.compile(file)(x)
    with np.errstate(all="ignore"):
        for n, (_, dtype, most) in enumerate(kinds):
            for saturate, given in enumerate((x, np.clip(x, -most, most))):
                want, got = given.astype(dtype), found[f"y{n}{saturate}"]
                nan = np.isnan(want.astype(np.float32))
                assert np.array_equal(np.isnan(got.astype(np.float32)), nan)
                assert np.array_equal(got.view(np.uint8)[~nan], want.view(np.uint8)[~nan])
        want = np.exp(x.astype(np.float64))
    assert np.allclose(found["e"], want, rtol=1e-14, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_functions_are_computed_in_lanes(dtype: torch.dtype, tmp_path: Path) -> None:
    """Of elements that are narrow in memory, too: LLVM does not get through some roundings before an exponential."""

    class Tail(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.to(dtype).to(torch.float32 if dtype.itemsize == 1 else dtype)
            t = 1 / (1 + 0.5 * y.abs())
            total = t
            for n in range(9):
                total = total * t + 0.1 * n
            return torch.where(y < 0, 2 - t * (total - y * y).exp(), t).to(dtype)

    x = torch.randn(999, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = numc.compile(Tail(), (x,), dump_dir=tmp_path)
    assert "vector<" in (tmp_path / "vector.mlir").read_text()
    # An argument of the exponential that is rounded to the other side changes some digits of the result.
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(program(x).float(), Tail()(x).float(), rtol=tolerance, atol=tolerance)
