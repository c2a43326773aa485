"""Public functions and values of wrong kinds: one line that says which argument, what it is, and what it has to be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc
from numc.runtime.program import Program
from numc.support.errors import NumcError

MODEL = """
func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x3xf32>, %c: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x4xf32>, tensor<4x3xf32>) outs(%c : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}
"""
A = np.arange(8, dtype=np.float32).reshape(2, 4)
B = np.arange(12, dtype=np.float32).reshape(4, 3)
C = np.ones((2, 3), np.float32)
GIANT = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 38, 4), (0, 0))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "m.mlir"
    file.write_text(MODEL)
    return file


@pytest.fixture(scope="module")
def program(model: Path) -> Program:
    return numc.compile(model)


class Evil:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("evil\x1b[31m\nmore")


def test_arrays_of_every_layout_give_the_same(program: Program, tmp_path: Path) -> None:
    """Negative strides, columns first, another byte order, a mapped file, a subclass, strides of 0, read-only."""
    want = program(A, B, C)
    mapped = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.float32, shape=(2, 4))
    mapped[...] = A
    read_only = A.copy()
    read_only.flags.writeable = False
    layouts = [
        A[::-1, ::-1].copy()[::-1, ::-1],
        np.asfortranarray(A),
        A.astype(">f4"),
        mapped,
        A.view(np.matrix),
        np.ma.masked_array(A),
        read_only,
        A.tolist(),
    ]
    for a in layouts:
        np.testing.assert_array_equal(program(a, B, C), want)
        np.testing.assert_array_equal(numc.matmul(a, B, C), want)
    np.testing.assert_array_equal(program(A, B, np.broadcast_to(np.float32(1), (2, 3))), want)
    np.testing.assert_array_equal(numc.fma(A, np.float32(2), [[1.0], [0.5]], "fp32"), 2 * A + [[1], [0.5]])


@pytest.mark.parametrize("call", ["program", "matmul", "round", "fma", "pack"])
def test_an_array_that_repeats_its_elements_is_not_copied_beyond_the_memory(program: Program, call: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "program": lambda: program(GIANT, B, C),
        "matmul": lambda: numc.matmul(GIANT, B),
        "round": lambda: numc.round(GIANT, "bf16"),
        "fma": lambda: numc.fma(np.ones((1 << 21, 1), np.float32), np.ones((1, 1 << 20), np.float32), A[0, 0], "mp"),
        "pack": lambda: numc.pack(GIANT, "bf16"),
    }
    with pytest.raises(NumcError, match=r": \d{13} bytes are to be copied, because it is not dense, and this machine"):
        calls[call]()


INPUTS: list[tuple[Any, str]] = [
    ({1: A, "arg1": B, "arg2": C}, "input '1': no such input: want 'arg0', 'arg1', 'arg2'"),
    ({"arg": A, "arg1": B, "arg2": C}, r"input 'arg': no such input \(did you mean 'arg\d' or 'arg\d'\?\)"),
    ({"arg0": np.array([[object()] * 4]), "arg1": B, "arg2": C}, "input 'arg0': got ndarray of objects, want numbers"),
    ({"arg0": [[1, 2], [3]], "arg1": B, "arg2": C}, r"input 'arg0': no array \(setting an array element"),
    (
        {"arg0": Evil(), "arg1": B, "arg2": C},
        r"input 'arg0': no array \(evil\\x1b\[31m more\): want float32",
    ),
    ({"arg0": "x", "arg1": B, "arg2": C}, r"input 'arg0': got str\d*\[\], want float32\[\?,4\]"),
    (
        {"arg0": A.astype(np.float16), "arg1": B, "arg2": C},
        r"input 'arg0': got float16\[2,4\], want float32\[\?,4\]: con",
    ),
    ({"arg0": 10**5000, "arg1": B, "arg2": C}, "input 'arg0': got int of objects, want numbers of one type"),
]


@pytest.mark.parametrize(("inputs", "message"), INPUTS, ids=range(len(INPUTS)))
def test_inputs(program: Program, inputs: Any, message: str) -> None:
    with pytest.raises(NumcError, match=f"^{message}"):
        program(inputs)
    with pytest.raises(NumcError, match=f"^{message}"):
        program.by_name(inputs)


@pytest.mark.filterwarnings("ignore")  # torch's, about kinds of tensors that it will not have for ever
def test_tensors(program: Program) -> None:
    torch = pytest.importorskip("torch")
    a = torch.tensor(A)
    for tensor, message in [
        (a.to_sparse(), "got a sparse tensor, which no array can hold: use .to_dense()"),
        (torch.nested.nested_tensor([a, a[:1]]), "got a nested tensor, which no array can hold: use torch.nested."),
        (
            torch.quantize_per_tensor(a, 0.1, 0, torch.qint8),
            "got a quantised tensor, which no array can hold: use .deq",
        ),
        (a.to("meta"), "on device meta; programs run on the CPU: use .to('cpu')"),
        (a.bfloat16(), "got bfloat16[2,4], want float32[?,4]: convert it with .to(torch.float32)"),
        (torch.zeros(1).expand(1 << 38, 4), "4398046511104 bytes are to be copied, because it is not dense, and this"),
    ]:
        for call in (lambda given: program(given, B, C), lambda given: program(arg0=given, arg1=B, arg2=C)):
            with pytest.raises(NumcError) as error:
                call(tensor)
            assert str(error.value).startswith(f"input 'arg0': {message}")
        with pytest.raises(NumcError):
            numc.matmul(tensor, B)


CALLS: list[tuple[Callable[[Path, Program], object], str]] = [
    (lambda m, p: p(A, B, C, threads=10**5000), "threads: got <int>, want a whole number from 1 to 1024"),
    (lambda m, p: p(A, B, C, seed=-1), "seed: got -1, want a whole number from 0 to"),
    (lambda m, p: p.by_name([A, B, C]), "program: got list, want the inputs by name"),
    (lambda m, p: p.save(3), "got int for the name of a file: want a text or a path"),
    (lambda m, p: p.save("a\0b"), r"'a\\x00b': no file has such a name"),
    (lambda m, p: numc.load(b"x"), "got bytes for the name of a file"),
    (lambda m, p: numc.compile(m, fma=3), "fma: got int, want a text"),
    (lambda m, p: numc.compile(m, ops=b"bf16"), "ops: got bytes, want a text"),
    (lambda m, p: numc.compile(m, target=None), "target: got NoneType, want a text"),
    (lambda m, p: numc.compile(m, fast=1), "fast: got int, want True or False"),
    (lambda m, p: numc.compile(m, cache="no"), "cache: got str, want True or False"),
    (lambda m, p: numc.compile(m, policy=[1]), "policy: got list, want a text, the name of a file, or a preset"),
    (lambda m, p: numc.compile(m, shapes=[("a", 1)]), "shapes: got list, want sizes by name"),
    (lambda m, p: numc.compile(m, shapes={"a": "12"}), "shapes: got 12 for 'a', want a tuple of sizes for a name"),
    (lambda m, p: numc.compile(m, shapes={"a": (0,)}), "shapes: 'a': got 0, want a whole number from 1 to"),
    (lambda m, p: numc.compile(m, calibrate=[1], fma="int8"), "calibrate: got list, want arrays by name of the input"),
    (lambda m, p: numc.lower(m, to=3), "to: got int, want the name of a stage"),
    (lambda m, p: numc.cost(m, batch=0), "batch: got 0, want a whole number from 1"),
    (lambda m, p: numc.cost(m, align=True), "align: got True, want 8, 16, 32, 64, or None for dense storage"),
    (lambda m, p: numc.cost(m, machine=3), "got int for the name of a file"),
    (lambda m, p: numc.bisect(m, {}, tolerance="x"), "tolerance: got x, want a number of at least 0"),
    (lambda m, p: numc.bisect(m, {}, tolerance=1.0, metric=None), "metric: got NoneType, want a name"),
    (lambda m, p: numc.bisect(m, {}, tolerance=1.0, progress=1), "progress: got int, want a function"),
    (lambda m, p: numc.compare(m, {}, fmas="mp"), "fmas: got mp, want a sequence of texts"),
    (lambda m, p: numc.compare(m, {}, metrics="mse"), "metrics: got mse, want a sequence of texts"),
    (lambda m, p: numc.compare(m, {}, policies=[3]), "a policy: got int, want a text, the name of a file, or a preset"),
    (lambda m, p: numc.compare(m, {}, batch=1.5), "batch: got 1.5, want at least 1"),
    (lambda m, p: numc.compare(m, {}, threads=0), "threads: got 0, want a whole number from 1 to 1024"),
    (lambda m, p: numc.compare(m, {"arg0": [[1], [1, 2]], "arg1": B, "arg2": C}), "data 'arg0': no array"),
    (lambda m, p: numc.diff(p, p, A), "inputs: got ndarray, want arrays by name of the input"),
    (lambda m, p: numc.diff(p, p, [A]), "inputs: got ndarray, want arrays by name of the input"),
    (lambda m, p: numc.verify(m, {}), "program: got PosixPath, want what numc.compile or numc.load returns"),
    (lambda m, p: numc.verify(p, {}, samples=0), "samples: got 0, want a whole number from 1 to"),
    (lambda m, p: numc.collect_stats(3).__enter__(), "statistics: got int, want names"),
    (lambda m, p: numc.collect_stats(["fmas"], sample="1e-9999999").__enter__(), "sample '1e-9999999': want 1 or"),
    (lambda m, p: numc.Statistics.from_json(3), r"not the JSON of statistics|statistics: got int, want JSON"),
    (lambda m, p: numc.Statistics(()).write_tensorboard(3), "got int for the name of a file|write_tensorboard: "),
    (lambda m, p: numc.round(A, 3), "format: got int, want a text"),
    (lambda m, p: numc.round(A, "bfp(16,3,4)", axis="0"), "axis: got str, want a whole number or None"),
    (lambda m, p: numc.round(A, "bfp(16,3,4)", axis=10**5000), "axis=<int>: x has shape"),
    (lambda m, p: numc.round(Evil(), "bf16"), r"x: no array \(evil"),
    (
        lambda m, p: numc.fma(A, B, A, "mp"),
        r"fma: a, b and c have the shapes \[2, 4\], \[4, 3\], \[2, 4\], which do not",
    ),
    (lambda m, p: numc.matmul(A, B, fma=[]), "FMA operator: got list, want a text"),
    (lambda m, p: numc.matmul(A, B, target=["host"]), "target: got list, want a text"),
    (lambda m, p: numc.matmul(A, B, fast=A), "fast: got ndarray, want True or False"),
    (lambda m, p: numc.Packed(3, (2,), "bf16"), "packed data: got int, want bytes"),
    (lambda m, p: numc.Packed(b"", (-1,), "bf16"), "packed shape: got -1, want a whole number from 0"),
    (lambda m, p: numc.Packed(b"", (1 << 30, 1 << 30), "bf16"), "packed shape: got .*, want a tuple of sizes"),
    (lambda m, p: numc.Packed(b"", (2,), "int8", None, "x"), "packed 'shared': got x, want the number that numc.pack"),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(number: int, model: Path, program: Program) -> None:
    call, message = CALLS[number]
    with pytest.raises(NumcError, match=f"^({message})"):
        call(model, program)


def test_values_of_every_kind_for_every_argument_of_functions_on_arrays() -> None:
    """No error from inside of numc, whatever is given."""
    deep: list[Any] = [1.0]
    for _ in range(2000):
        deep = [deep]
    values = [
        None, 1, "x", "\ud800", b"x", {}, {1: A}, (), np.array([[object()] * 4]), np.array([["a"] * 4]), GIANT, A[::-1],
        A.astype(">f4"), np.zeros(2, [("x", "f4", 4)]), Evil(), deep, float("nan"), 1j, 10**5000, int, np,
        [[1], [2, 3]], np.zeros(()), np.zeros((1,) * 17, np.float32), np.array(["2020"], "M8[Y]"), True, np.int64(3),
        range(8), {1},
    ]  # fmt: skip
    calls: list[tuple[Callable[..., object], list[Any]]] = [
        (numc.round, [A, "bf16"]),
        (lambda x, to, axis, seed: numc.round(x, to, axis=axis, seed=seed), [A, "bfp(16,3,4):sr8", 0, 0]),
        (numc.fma, [A, A, A, "mp"]),
        (numc.matmul, [A, B, C]),
        (lambda a, threads, seed: numc.matmul(a, B, threads=threads, seed=seed), [A, 1, 0]),
        (lambda x, to, axis: numc.pack(x, to, axis=axis), [A, "bfp(16,3,4)", 0]),
        (numc.unpack, [numc.pack(A, "bf16")]),
        (lambda *parts: numc.unpack(numc.Packed(*parts)), [bytes(16), (2, 4), "bf16", None, 0.0]),
    ]
    for (call, arguments), value in itertools.product(calls, values):
        for place in range(len(arguments)):
            try:
                call(*arguments[:place], value, *arguments[place + 1 :])
            except NumcError as error:
                text = str(error)
            else:
                text = ""
            assert text == "" or text.isprintable()
