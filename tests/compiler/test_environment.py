"""Results do not depend on the floating-point environment of the process: rounding modes, zeros for subnormals."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import numc
from environments import ENVIRONMENTS, data, environment, registers
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Argument, Imported
from numc.support.environment import MARK, DefaultEnvironment, in_default_environment

SAMPLE = ("up", "ftz daz")
RNG = np.random.default_rng(0)
X = (RNG.standard_normal(320) * 2.0 ** RNG.integers(-149, 60, 320)).astype(np.float32).reshape(8, 40)
SMALL = (RNG.standard_normal((6, 40)) * 2.0 ** RNG.integers(-10, 3, (6, 40))).astype(np.float32)
W = (RNG.standard_normal((40, 9)) * 2.0 ** RNG.integers(-135, -100, (40, 9))).astype(np.float32)
W[:, 4:] *= np.float32(2.0**110)
TEXT = """
func.func @main(%x: tensor<?x40xf32>, %w: tensor<40x9xf32>) -> tensor<?x9xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  %e = tensor.empty(%n) : tensor<?x9xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x9xf32>) -> tensor<?x9xf32>
  %r = linalg.matmul ins(%x, %w : tensor<?x40xf32>, tensor<40x9xf32>) outs(%f : tensor<?x9xf32>) -> tensor<?x9xf32>
  return %r : tensor<?x9xf32>
}"""
MODEL = Imported(TEXT, (Argument("x", "float32", (-1, 40)),), (Argument("y", "float32", (-1, 9)),), {1: ("w", W)})


def compiled(fma: str, **options: Any) -> Any:
    program = numc.compile(MODEL, fma=fma, cache=False, **options)
    return [program.contents.weights, program.contents.code, program(SMALL), program.by_name({"x": SMALL})]


def saved(folder: Path, fma: str) -> Any:
    program = numc.compile(MODEL, fma=fma)
    program.save(folder / "p.numc")
    return [(folder / "p.numc").read_bytes(), numc.load(folder / "p.numc")(SMALL)]


def statistics(fma: str) -> Any:
    program = numc.compile(MODEL, fma=fma)
    with numc.collect_stats("exponents,rounding") as found:
        program(SMALL)
    row = found.statistics.rows[0]
    return [found.statistics.to_json(), row.relative_error, [t.subnormal_fraction for t in row.tensors.values()]]


def packed(to: str, x: Any = X) -> Any:
    found = numc.pack(x, to)
    return [found.data if hasattr(found, "data") else repr(found), numc.unpack(found)]


GROUPS = ("mxint8", "mxfp8_e4m3", "mxfp4", "bfp(16,8,4)", "int8", "mxint8:sr8")
LISTED, A, B = (each.astype(np.float64).tolist() for each in (X, SMALL, W))
RESULTS: dict[str, Callable[[Path], Any]] = {
    **{f"round {to}": lambda _, to=to: numc.round(X, to, seed=3) for to in (*GROUPS, "bf16", "e4m3", "e8m10:sr8")},
    **{f"pack {to}": lambda _, to=to: packed(to) for to in (*GROUPS[:5], "bf16", "e4m3", "bf16x3")},
    "round of Python numbers": lambda _: numc.round(LISTED, "mxint8"),
    "fma": lambda _: numc.fma(X, X[::-1], X, "bf16_1_2"),
    "matmul": lambda _: numc.matmul(SMALL, W, fma="mxint8"),
    "matmul of Python numbers": lambda _: numc.matmul(A, B, fma="bf16_1_2"),
    "reference.round": lambda _: numc.reference.round(X[:2], "e8m10"),
    "reference.round_groups": lambda _: numc.reference.round_groups(X, "mxint8"),
    "reference.round_real": lambda _: [numc.reference.round_real(Fraction(1, 3) ** n, "fp32") for n in (1, 80, 90)],
    "reference.matmul": lambda _: numc.reference.matmul(SMALL[:2], W[:, :2], fma="mxint8"),
    "reference.dot": lambda _: numc.reference.dot(SMALL[0], W[:, 0], fma="bf16_1_2"),
    "reference.fma": lambda _: numc.reference.fma(SMALL[0], W[:, 0], W[:, 1], fma="fp32"),
    "formats": lambda _: (
        [numc.formats["fp32"].decode(n) for n in (1, 0x7FFFFF, 0x7F7FFFFF)]
        + [numc.formats["fp16"].encode(x) for x in (2.0**-24, 1.5, 65504.0)]
    ),
    "metrics": lambda _: [numc.train.perplexity(SMALL, [1, 2, 3, 4, 5, 6]), numc.train.ndcg(SMALL, abs(SMALL) > 1)],
}
COMPILED: dict[str, Callable[[Path], Any]] = {
    "compile mxint8": lambda _: compiled("mxint8"),
    "compile int8": lambda _: compiled("int8", calibrate={"x": SMALL}),
    "compile packed": lambda _: compiled("mxfp8", pack_weights=True),
    "save and load": lambda folder: saved(folder, "bf16_1_2"),
    "collect_stats": lambda _: statistics("bf16_1_2"),
    "verify": lambda _: repr(numc.verify(numc.compile(MODEL, fma="mxint8"), {"x": SMALL})),
    "diff": lambda _: repr(numc.diff(numc.compile(MODEL), numc.compile(MODEL, fma="bf16_1_1"), {"x": SMALL})),
    "cost": lambda _: repr(numc.cost(MODEL, fma="bf16_1_1", fma_share=0.7, machine="thesis")),
    "compare": lambda _: [
        (r.metrics, r.error, r.area) for r in numc.compare(MODEL, {"x": SMALL}, fmas=("bf16_1_1",)).results
    ],
    "lower": lambda _: str(numc.lower(MODEL, to="numc", fma="mxint8")),
}

SOME = ("compile mxint8", "compile packed", "save and load", "collect_stats", "cost", "lower")


def check(name: str, environments: tuple[str, ...], folder: Path) -> None:
    function = {**RESULTS, **COMPILED}[name]
    want = data(function(folder))
    for each in environments:
        with environment(each):
            found = data(function(folder))
        assert found == want, f"{name} in the environment '{each}'"


@pytest.mark.parametrize("name", RESULTS)
def test_arrays(name: str, tmp_path: Path) -> None:
    check(name, ENVIRONMENTS, tmp_path)


@pytest.mark.parametrize(
    "name", ["compile mxint8", "compile packed", "save and load", "collect_stats", "cost", "lower"]
)
def test_programs(name: str, tmp_path: Path) -> None:
    check(name, SAMPLE if name == "compile mxint8" else SAMPLE[:1], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_programs_in_all_environments(name: str, tmp_path: Path) -> None:
    check(name, ENVIRONMENTS, tmp_path)


def test_programs_for_torch_are_built_in_the_default_environment() -> None:
    want = build(MODEL, Options(fma="mxint8"))
    with environment("ftz daz up"):
        found = build(MODEL, Options(fma="mxint8"))
    assert data(list(found.weights)) == data(list(want.weights))
    assert found.code == want.code


def test_the_cache_gives_what_was_compiled_in_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path))
    with environment("ftz daz"):
        numc.compile(MODEL, fma="mxfp4")
    assert len(list(tmp_path.glob("*.numc"))) == 1
    assert data(list(numc.compile(MODEL, fma="mxfp4").contents.weights)) == data(
        list(numc.compile(MODEL, fma="mxfp4", cache=False).contents.weights)
    )


@in_default_environment
def of_this_thread(fails: bool = False) -> tuple[bytes, bytes]:
    """What the registers are in a function that is marked, and in a thread that it starts."""
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(registers()))
    thread.start()
    thread.join()
    if fails:
        raise ValueError("in the block")
    return registers(), found[0]


def test_it_is_set_in_threads_and_restored_after_errors() -> None:
    want = of_this_thread()
    with environment("ftz daz up"):
        before = registers()
        assert of_this_thread() == want
        assert before not in want
        with pytest.raises(ValueError, match="in the block"):
            of_this_thread(fails=True)
        assert registers() == before
        with DefaultEnvironment(), DefaultEnvironment():
            assert registers() == want[0]


def test_a_generator_cannot_be_marked() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="what a generator does between two values is not its caller's"):
        in_default_environment(numbers)


def test_torch_compiles_what_a_marked_function_does_with_the_function_that_calls_it() -> None:
    """Else the step of a training that calls one is cut there, and what the function does leaves numc."""
    torch = pytest.importorskip("torch", reason="numc is installed without torch")

    @in_default_environment
    def scaled(x: Any) -> Any:
        return 3 * x

    step = torch.compile(lambda x: scaled(x) + 1, backend=numc.backend(strict=True), fullgraph=True)
    before = numc.counters()
    assert step(torch.ones(2)).tolist() == [4, 4]
    after = numc.counters()
    assert (after.graphs - before.graphs, after.left, after.graph_breaks) == (1, before.left, before.graph_breaks)


# Public names of which nothing runs in the default environment because of a mark, with the reason.
IN_RUNTIME = "generated code, for which the runtime sets it; slower ways have marks inside"
HOLDS = "holds what it is given, or integers"
BLOCK = "what runs in the block is the caller's; what it collects has marks"
TORCH = "a class of torch: computes with operations of torch, in the environment that torch has been given"
UNMARKED = {
    **dict.fromkeys(("matmul", "Program", "runtime.Program"), IN_RUNTIME),
    **dict.fromkeys(("CompilerBug", "NumcError", "Packed", "WidthByRatio", "counters", "reference.stream"), HOLDS),
    **dict.fromkeys(("reference.Draws", "train.Peak", "train.Spent"), HOLDS),
    **dict.fromkeys(("arithmetic", "collect_stats", "profile", "verify_training", "widths"), BLOCK),
    **dict.fromkeys(("DynamicLossScale", "train.RangeLossScale", "train.RangeWeight", "train.CRNorm"), TORCH),
    **dict.fromkeys(("train.OptimizerState", "train.Tracker", "train.huggingface", "train.lightning"), TORCH),
    "backend": "returns a Backend, whose compiling and whose graphs have marks",
    **{f"runtime.{name}": HOLDS for name in ("Abi", "Callback", "Contents", "Input", "SizeSymbol", "TensorSpec")},
    **{f"runtime.{name}": HOLDS for name in ("Weight", "cpu_features", "default_threads", "feature_names")},
    **{f"runtime.{name}": HOLDS for name in ("include_folder", "library_folder", "pack_ir", "request_amx", "trim")},
}


def public() -> dict[str, Any]:
    """Every public function and class, by its name below `numc`."""
    found = {}
    for module, prefix in ((numc, ""), *((getattr(numc, m), f"{m}.") for m in ("train", "reference")), runtime()):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, ModuleType):
                found[prefix + name] = value
    return found


def runtime() -> tuple[ModuleType, str]:
    import numc.runtime

    return numc.runtime, "runtime."


def marked(entry: Any) -> bool:
    """Whether a function, or every public method and property of a class, runs in the default environment."""
    if not inspect.isclass(entry):
        return hasattr(entry, MARK)
    own = [member for base in entry.__mro__ if base.__module__.startswith("numc") for member in vars(base).items()]
    functions = [inspect.unwrap(value, stop=lambda f: hasattr(f, MARK)) for name, value in own if name[0] != "_"]
    functions = [getattr(f, "__func__", getattr(f, "fget", f)) for f in functions]
    return all(hasattr(f, MARK) for f in functions if inspect.isfunction(f) and not inspect.isgeneratorfunction(f))


@pytest.mark.all
def test_every_public_name_is_marked_or_has_a_reason() -> None:
    unmarked = {name for name, entry in public().items() if not marked(entry)}
    assert unmarked == {name for name, entry in public().items() if name in UNMARKED and not marked(entry)}
    assert not {name for name in UNMARKED if name not in public()}
    assert len(public()) > 90
