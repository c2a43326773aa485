"""PyTorch modules: what comes out, that it computes the same, and what happens to modules that are wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.frontends.imported import Argument  # noqa: E402
from numc.frontends.pytorch import load as frontend  # noqa: E402
from numc.runtime.tensors import to_array  # noqa: E402
from numc.support.errors import NumcError  # noqa: E402
from torch_modules import Calls  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
X = torch.arange(16.0).reshape(4, 4)


class Small(nn.Module):
    """A convolution, a batch norm, an embedding and dense layers, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.body = nn.Sequential(nn.Dropout(0.5), nn.Linear(72, 16))
        self.twice = nn.Linear(16, 16)
        self.table = nn.Embedding(7, 16)
        self.register_buffer("offset", torch.tensor([2]), persistent=False)

    def forward(self, x: Any, ids: Any) -> Any:
        y = self.body(torch.relu(self.bn(self.conv(x))).flatten(1))
        y = self.twice(torch.tanh(self.twice(y)))
        return {"logits": y + self.table(ids + self.offset), "shape": (x, None)}


@pytest.fixture(scope="module")
def small() -> nn.Module:
    torch.manual_seed(0)
    module = Small()
    module(torch.randn(8, 1, 5, 5), torch.arange(4).repeat(2))  # running statistics
    return module.eval()


def feeds(batch: int) -> tuple[Any, Any]:
    torch.manual_seed(batch)
    return torch.randn(batch, 1, 5, 5), torch.arange(batch) % 5


BATCH = {0: torch.export.Dim("batch")}


@pytest.fixture(scope="module")
def program(small: nn.Module) -> numc.Program:
    return numc.compile(small, feeds(2), dynamic_shapes=(BATCH, BATCH))


def refused(module: nn.Module, *inputs: Any, **options: Any) -> str:
    with pytest.raises(NumcError) as caught:
        numc.compile(module, inputs, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What comes out.


def test_inputs_outputs_and_weights(small: nn.Module) -> None:
    found = frontend.load(small, feeds(2), dynamic_shapes=(BATCH, BATCH))
    assert found.inputs == (
        Argument("x", "float32", (-1, 1, 5, 5), ("batch", "", "", "")),
        Argument("ids", "int64", (-1,), ("batch",)),
    )
    assert [str(a) for a in found.outputs] == ["logits: float32[?, 16]", "shape_0: float32[?, 1, 5, 5]"]
    assert sorted(name for name, _ in found.weights.values()) == sorted(
        {*small.state_dict(), "offset"} - {"bn.num_batches_tracked"}
    )
    assert sorted(found.weights) == list(range(2, 2 + len(found.weights)))
    for name, value in found.weights.values():
        np.testing.assert_array_equal(value, small.get_buffer(name) if name == "offset" else small.state_dict()[name])


def test_contractions_are_called_by_their_modules(program: numc.Program) -> None:
    assert [c["name"] for c in program.manifest["contractions"]] == ["conv", "body.1", "twice/mm", "twice/mm_2"]


def test_it_computes_the_same_for_every_batch_size(small: nn.Module, program: numc.Program) -> None:
    for batch in (1, 2, 7):
        got, want = program(*feeds(batch)), small(*feeds(batch))
        torch.testing.assert_close(got["logits"], want["logits"])
        torch.testing.assert_close(got["shape_0"], want["shape"][0])


def test_every_contraction_verifies(small: nn.Module) -> None:
    program = numc.compile(small, feeds(3), fma="bf16_1_2")
    x, ids = feeds(3)
    report = numc.verify(program, {"x": x.numpy(), "ids": ids.numpy()}, samples=50)
    assert (report.mismatches, [row.fma for row in report.rows]) == (0, ["bf16_1_2"] * 4), report.first


def test_arrays_give_arrays_and_tensors_give_tensors(program: numc.Program) -> None:
    x, ids = feeds(2)
    tensors, arrays = program(x, ids=ids), program(x.numpy(), ids.numpy())
    assert type(tensors["logits"]) is torch.Tensor
    assert type(arrays["logits"]) is np.ndarray
    np.testing.assert_array_equal(tensors["logits"].numpy(), arrays["logits"])
    np.testing.assert_array_equal(program(x.requires_grad_(), ids.numpy())["logits"], arrays["logits"])
    flipped = x.detach().permute(0, 1, 3, 2)  # not contiguous
    np.testing.assert_array_equal(program(flipped, ids)["logits"], program(flipped.contiguous(), ids)["logits"])


def test_contiguous_tensors_are_not_copied() -> None:
    assert np.shares_memory(to_array("x", X), X.numpy())


@pytest.mark.all
def test_exported_programs_and_graph_modules(small: nn.Module, program: numc.Program, tmp_path: Path) -> None:
    exported = torch.export.export(small, feeds(2))
    want = program(*feeds(2))["logits"]
    assert torch.equal(numc.compile(exported)(*feeds(2))["logits"], want)
    assert torch.equal(numc.compile(torch.fx.symbolic_trace(small), feeds(2))(*feeds(2))["logits"], want)
    torch.export.save(exported, tmp_path / "small.pt2")
    assert torch.equal(numc.compile(tmp_path / "small.pt2")(*feeds(2))["logits"], want)
    command = [
        sys.executable,
        "-m",
        "numc",
        "compile",
        tmp_path / "small.pt2",
        "--fma",
        "mp",
        "-o",
        tmp_path / "s.numc",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ": (x: float32[2,1,5,5], ids: int64[2]) -> (logits: float32[2,16]" in done.stdout
    x, ids = feeds(2)
    assert numc.load(tmp_path / "s.numc")(x.numpy(), ids.numpy())["logits"].shape == (2, 16)


def test_keyword_inputs(small: nn.Module, program: numc.Program) -> None:
    x, ids = feeds(2)
    assert torch.equal(numc.compile(small, {"ids": ids, "x": x})(x=x, ids=ids)["logits"], program(x, ids)["logits"])


def test_one_tensor_as_the_example_of_several_inputs() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    one = torch.randn(1, 3, 8)
    found = numc.compile(attention, (one, one, one))
    inputs = [torch.randn(1, 3, 8) for _ in range(3)]
    torch.testing.assert_close(found(*inputs)["output_0"], attention(*inputs)[0].detach())


def test_the_second_compilation_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Linear(4, 3)
    first = numc.compile(module, X)
    monkeypatch.setattr("numc.compiler.programs.build.build", None)  # nothing is compiled any more
    assert torch.equal(numc.compile(module, X)(X), first(X))
    with torch.no_grad():
        module.weight += 1
    with pytest.raises(TypeError, match="not callable"):  # other weights are another program
        numc.compile(module, X)


@pytest.mark.all
@pytest.mark.parametrize("kind", [nn.LSTM, pytest.param(nn.GRU, marks=pytest.mark.slow)])
def test_recurrent_networks(kind: Any) -> None:
    torch.manual_seed(0)
    module, x = kind(8, 8, 2, bidirectional=True, batch_first=True).eval(), torch.randn(2, 5, 8)
    torch.testing.assert_close(next(iter(numc.compile(module, x)(x).values())), module(x)[0])


@pytest.mark.all
def test_transformer_layers() -> None:
    torch.manual_seed(0)
    module, x = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), torch.randn(2, 5, 16)
    program = numc.compile(module, x)
    torch.testing.assert_close(program(x), module(x))
    assert {c["name"].split("/")[0] for c in program.manifest["contractions"]} == {"self_attn", "linear1", "linear2"}
    free = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=64)}
    program = numc.compile(module, (x,), dynamic_shapes=(free,))
    for batch, length in ((1, 1), (1, 7), (3, 1), (3, 4)):
        x = torch.randn(batch, length, 16)
        torch.testing.assert_close(program(x), module(x))


def test_division_by_zero_is_an_infinity() -> None:
    assert numc.compile(Calls(torch.reciprocal), X)(X)[0, 0] == float("inf")


def test_an_index_out_of_range_is_an_error_of_the_run() -> None:
    module = Calls(lambda table, ids: table[ids])
    program = numc.compile(module, (X, torch.tensor([1, 2])))
    assert torch.equal(program(X, torch.tensor([3, -4])), X[[3, 0]])
    with pytest.raises(NumcError, match="^an index is out of range \\(in 'index'\\)$"):
        program(X, torch.tensor([0, 4]))
    assert torch.equal(program(X, torch.tensor([3, 0])), X[[3, 0]])


# Modules that are wrong.


def test_integers_are_divided_exactly_and_floats_become_integers_as_in_eager_torch() -> None:
    def divided(a: Any, b: Any, x: Any) -> Any:
        floor = torch.div(a, b, rounding_mode="floor"), a // 3, torch.div(a.int(), b.int(), rounding_mode="floor")
        return (*floor, x.long(), x.int(), x.to(torch.int8), x.to(torch.int16))

    a, b = torch.tensor([2**62 - 5, -(2**62) + 5, 2**53 + 1]), torch.tensor([7, 3, -1])
    x = torch.tensor([3e9, -3e9, 1e20, float("nan"), 300.0, -300.0, 2.0**31, -(2.0**31), 1.5, -1.5, 70000.0])
    module = Calls(divided)
    program = numc.compile(module, (a, b, x))
    for found, want in zip(program(a, b, x).values(), module(a, b, x), strict=True):
        assert torch.equal(found, want)
    with pytest.raises(NumcError, match="an integer is divided by zero"):
        program(a, b * 0, x)


def test_int8_matrices_without_elements() -> None:
    a, b = torch.empty(3, 0, dtype=torch.int8), torch.empty(0, 3, dtype=torch.int8)
    assert torch.equal(numc.compile(Calls(torch.mm), (a, b))(a, b), torch.mm(a, b))
    assert torch.equal(torch.compile(torch.mm, backend=numc.backend())(a, b), torch.mm(a, b))


def test_all_unsupported_operations_are_listed() -> None:
    class Factors(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svd(x)[0] @ torch.linalg.qr(x)[0]

    text = refused(Factors(), X)
    line = f"{__file__}:{Factors.forward.__code__.co_firstlineno + 1}"
    assert text.startswith("Factors: 2 operations cannot be compiled: aten._linalg_svd.default (")
    assert f" | aten.linalg_qr.default ({line}): numc has no conversion of it for float32[4, 4]" in text
    text = refused(Calls(torch.linalg.inv), X)
    assert "): checks a factorization; compute without inverses, solutions and factorizations of matrices | " in text


def test_limits_and_crashes_of_the_importer(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch-mlir reads outside of its memory here, where numc widens otherwise.
    monkeypatch.setattr("numc.frontends.pytorch.convert.in_wide", lambda graph, names: (graph, names))
    text = refused(Calls(lambda x: torch.relu(x.max())), torch.zeros(3, 4, dtype=torch.uint8))
    assert text.startswith("Calls: 1 operation cannot be compiled: aten.max.default (")
    assert text.endswith(
        "): the importer crashed with SIGSEGV: this is a fault of numc: report it with the output of `numc doctor`; "
        "rewrite it with other operations, or run it eagerly: "
        "torch.compile(backend='numc')"
    )
    monkeypatch.setenv("NUMC_IMPORT_TIME", "0.001")
    text = refused(Calls(torch.relu), X)
    assert text.startswith("Calls: import took longer than 0.001 s (stage: ")
    assert text.endswith("); NUMC_IMPORT_TIME=N allows N seconds")


def test_modules_in_training() -> None:
    assert refused(nn.Sequential(nn.Dropout()), X) == (
        "Sequential: 1 operation cannot be compiled: aten.native_dropout.default (module '0'): draws random numbers; "
        "call module.eval() first, or train with torch.compile(backend='numc')"
    )
    assert refused(nn.BatchNorm1d(4), X) == (
        "BatchNorm1d: it changes 'running_mean', 'running_var', 'num_batches_tracked' in place, which a program cannot "
        "keep: call module.eval() first, or train with torch.compile(backend='numc')"
    )


@pytest.mark.parametrize(
    ("dtype", "kind", "advice"),
    [
        (torch.float8_e4m3fnuz, "float8_e4m3fnuz", "use .float()"),
        (torch.uint16, "uint16", "use .to(torch.int64)"),
    ],
)
def test_dtypes(dtype: Any, kind: str, advice: str) -> None:
    known = "float32, float64, bool, int8, uint8, int16, int32, int64, bfloat16, float16, float8_e4m3fn, float8_e5m2"
    rest = f"is {kind}, not {known}; {advice}"
    assert refused(nn.ReLU(), X.to(dtype)) == f"ReLU: example input [0] {rest}"
    module = nn.ReLU()
    module.register_buffer("b", X.to(dtype))
    assert refused(module, X) == f"ReLU: buffer 'b' {rest}"
    text = refused(Calls(lambda x: x.to(dtype) * 2), X)
    assert text.startswith("Calls: 1 operation cannot be compiled: prims.convert_element_type.default (")
    assert text.endswith(rest)


def test_other_devices() -> None:
    rest = "is on device meta; numc computes on the CPU: use .to('cpu')"
    assert refused(nn.Linear(4, 4).to("meta"), X) == f"Linear: parameter 'weight' {rest}"
    assert refused(nn.ReLU(), X.to("meta")) == f"ReLU: example input [0] {rest}"
    assert refused(nn.ReLU(), X.to_sparse()) == (
        "ReLU: example input [0] is sparse_coo; only dense tensors are available: use .to_dense()"
    )


def test_data_dependent_sizes_and_branches(capfd: pytest.CaptureFixture[str]) -> None:
    text = refused(Calls(lambda x: x * x.sum().item()), X)
    assert text.startswith("Calls: 1 operation cannot be compiled: aten._local_scalar_dense.default (")
    assert text.endswith(
        "a size or number depends on data; make it constant, or the size of a selection by a mask, which a run finds"
    )
    assert refused(Calls(lambda x: x if x.sum() > 0 else -x), X).startswith(
        "Calls: cannot be exported: a size or branch depends on data; make it constant, with torch.where instead of"
    )

    def largest(x: Any) -> Any:
        places = torch.nonzero(x.sum(-1) > 0).squeeze(1)
        return x.index_reduce(0, places, x[places], "amax")

    text = refused(Calls(largest), X)  # the user's line, though it is a decomposition of numc that stumbles
    assert text.startswith("Calls: cannot be decomposed: a size or branch depends on data; ")
    assert "test_pytorch.py:" in text or "torch_modules.py:" in text
    assert refused(Calls(lambda x: torch.linalg.lstsq(x, x)[0]), X).startswith(
        "Calls: cannot be exported: the size of what aten.linalg_lstsq.default makes depends on data; run it eagerly: "
    )
    # What torch writes about the same failure would only repeat it.
    assert capfd.readouterr() == ("", "")


def test_what_forward_takes_and_returns() -> None:
    assert refused(Calls(lambda x: (x, 3)), X) == "Calls: output_1 is of type int; only tensors may be returned"
    assert refused(Calls(lambda x: None), X) == "Calls: it returns no tensor; nothing to compile"
    assert refused(Calls(lambda: X)) == "Calls: it has no tensor inputs; nothing to compute"
    assert refused(Calls(lambda x: x.view(3)), X).startswith(
        "Calls: cannot be exported: shape '[3]' is invalid for input of size 16 ("
    )
    with pytest.raises(NumcError, match=r"^Linear: a module is traced: give example_inputs, such as \(torch.randn"):
        numc.compile(nn.Linear(4, 4))
    assert refused(nn.ReLU(), X, shapes={"x": (1, 4)}) == (
        "ReLU: shapes and values are for files: example_inputs and dynamic_shapes say what sizes are"
    )
    double = torch.export.Dim("n")
    assert refused(
        Calls(lambda x, y: x.sum() + y.sum()), X, torch.cat([X, X]), dynamic_shapes=(({0: double}, {0: 2 * double}),)
    ).endswith("a size is a number or free by itself")


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(NumcError, match="^cannot compile a int: want a file name, an onnx.ModelProto, a torch."):
        numc.compile(3)
    with pytest.raises(NumcError, match="example_inputs and dynamic_shapes are for PyTorch modules, files have"):
        numc.compile(ROOT / "examples/digits/mlp.onnx", X)
    with pytest.raises(NumcError, match="^an exported program has its inputs and sizes: leave example_inputs and"):
        numc.compile(torch.export.export(nn.ReLU(), (X,)), X)
    file = tmp_path / "no.pt2"
    with pytest.raises(NumcError, match="no.pt2: cannot read: .*: want a file that torch.export.save wrote"):
        numc.compile(file)
    with pytest.raises(NumcError, match="no.pt2: shapes are part of an exported program: export it again, leave --sh"):
        numc.compile(file, shapes={"x": (1,)})


def test_inputs_of_the_program(program: numc.Program) -> None:
    x, ids = feeds(2)
    with pytest.raises(NumcError, match="^input 'x': on device meta; programs run on the CPU: use .to\\('cpu'\\)"):
        program(x.to("meta"), ids)
    with pytest.raises(
        NumcError, match=r"^input 'x': got bfloat16\[2,1,5,5\], want float32\[\?,1,5,5\]: convert it with .to"
    ):
        program(x.bfloat16(), ids)
    with pytest.raises(NumcError, match=r"^input 'x': got float64\[2,1,5,5\], want float32\[\?,1,5,5\]"):
        program(x.double(), ids)
    with pytest.raises(NumcError, match="^input 'ids': size 'batch' is 3, but input 'x' has 2: want the same in both"):
        program(x, torch.arange(3))


def test_sizes_within_their_limits() -> None:
    """Whether they were given or follow from a branch of the module."""
    given = {0: torch.export.Dim("rows", min=2, max=8)}
    program = numc.compile(Calls(lambda x: x * 2), X, dynamic_shapes=((given,),))
    assert program(torch.ones(8, 4)).shape == (8, 4)
    for rows in (1, 9):
        with pytest.raises(NumcError, match=f"^input 'args_0': size '[a-z0-9]+' is {rows}, want 2 to 8$"):
            program(torch.ones(rows, 4))


# Without torch.


@pytest.mark.all
def test_numc_works_without_torch(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").touch()
    code = (
        "import sys; sys.modules['torch'] = None\nimport numpy as np, numc\n"
        f"print(numc.compile({str(ROOT / 'examples/digits/mlp.onnx')!r}, cache=False)(np.ones((1, 64), 'f')).shape)\n"
        f"try: numc.compile({str(tmp_path / 'm.pt2')!r})\nexcept numc.NumcError as e: print(e)\n"
        "try: numc.compile(3)\nexcept numc.NumcError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "(1, 10)",
        f"{tmp_path / 'm.pt2'}: PyTorch is not installed: pip install torch",
        "int: PyTorch is not installed: pip install torch",
    ], done.stderr


def test_what_is_refused_and_what_cannot_be_lowered_are_listed_together() -> None:
    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.logcumsumexp(x, 0) + torch.bernoulli(x) + x.cummax(0)[0]

    want = (
        r"^Both: 3 operations cannot be compiled: aten.logcumsumexp.* exponentials would overflow; .* \| "
        r"aten.rand.*draws random numbers.* \| .*aten.cummax"
    )
    with pytest.raises(NumcError, match=want):
        numc.compile(Both(), torch.zeros(5000, 3))
