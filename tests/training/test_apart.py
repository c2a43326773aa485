"""Steps of a training compile in workers: what the process that trains loads, and what it is told of failures."""

from __future__ import annotations

import operator
import os
import pickletools
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

import numc
from numc.compiler.options import Options
from numc.compiler.programs import apart, compile
from numc.compiler.torch_compile import ahead, inductor
from numc.frontends.imported import Imported
from numc.frontends.pytorch.graphs.graph import values_of
from numc.frontends.workers import process
from numc.runtime.container import write_program
from numc.support.errors import CompilerBug, NumcError
from numc.support.progress import told

STEP = """
import sys, torch, numc
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
def step(x):
    optimizer.zero_grad()
    loss = torch.sort(model(x), dim=1)[0].kthvalue(2)[0].square().mean()
    loss.backward()
    optimizer.step()
    return loss
compiled = torch.compile(step, backend=numc.backend("mp"))
print(float(compiled(torch.ones(3, 8))), numc.counters().compilations)
print([name for name in sys.modules if name in ("torch_mlir.ir", "torch_mlir._mlir_libs", "torch._inductor.ir")])
"""
PRODUCT = """
func.func @main(%x: tensor<64x{0}xf32>, %y: tensor<{0}x64xf32>) -> tensor<64x64xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %product = linalg.matmul ins(%x, %y : tensor<64x{0}xf32>, tensor<{0}x64xf32>)
    outs(%filled : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %product : tensor<64x64xf32>
}}
"""
CRASHING = """
import ctypes
from numc.compiler import pipeline

def _crash(module, state):
    ctypes.string_at(0)

for stage, passes in pipeline.STAGES.items():
    for name in passes:
        if name == {name!r}:
            pipeline.STAGES[stage][name] = pipeline.Pass("Crashes.", _crash)
"""


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one, on any machine."""
    monkeypatch.setenv("NUMC_NUM_THREADS", "2")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> process._Server:
    """A server of its own, which ends with the test."""
    own = process._Server()
    monkeypatch.setattr(process, "_server", own)
    yield own
    own.stop()


def product(inner: int) -> Imported:
    return Imported(PRODUCT.format(inner))


def test_the_process_that_trains_does_not_load_mlir(tmp_path: Path) -> None:
    """Nor Inductor. Nor does it with operations that torch runs, about which the importer has to be asked."""
    where = {**os.environ, "NUMC_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", STEP], env=where, capture_output=True, text=True, check=True)
    loss, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    assert int(loss.split()[1]) >= 3


def test_an_import_that_does_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(process.TIME, "0.001")
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"import took longer than 0\.001 s \(stage: .*\); NUMC_IMPORT_TIME=N allows"):
        torch.compile(torch.relu, backend="numc")(torch.ones(3))


def test_torch_is_answered_as_inductor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.debug
    from torch._inductor import pattern_matcher as theirs

    def writing(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch.relu_(y)
        with torch.no_grad():
            y = operator.rshift(y.int(), 1) + y.exp_()
        torch.cos(x, out=y)
        return torch.ops.aten.add_.Tensor(y, torch.ops.aten.mul.Tensor(x, 2))

    graph = torch.fx.symbolic_trace(writing).graph
    theirs.compute_mutation_region_ids(graph)
    expected = [node.meta.pop("mutation_region_id") for node in graph.nodes]
    assert expected[-1] >= 4
    for name in ("torch._inductor.pattern_matcher", "torch._inductor.debug"):
        monkeypatch.delitem(sys.modules, name)
    with inductor.without_inductor():
        ours = sys.modules["torch._inductor.pattern_matcher"]
        ours.compute_mutation_region_ids(graph)
        assert [node.meta["mutation_region_id"] for node in graph.nodes] == expected
        first, *_, last = graph.nodes
        assert ours.same_mutation_regions(first, first)
        assert not ours.same_mutation_regions(first, last)
        monkeypatch.setattr(inductor, "import_module", {theirs.__name__: theirs}.__getitem__)
        assert ours.PatternMatcherPass is theirs.PatternMatcherPass  # what torch does not ask of us
        assert theirs.__name__ not in sys.modules
    assert not {theirs.__name__, "torch._inductor.debug"} & set(sys.modules)


def test_a_graph_becomes_a_message_and_a_graph_again() -> None:
    """With all that its conversion depends on: strides, dtypes, arguments of every kind."""
    from numc.frontends.pytorch import convert
    from numc.frontends.pytorch.graphs.graph import names_of
    from numc.frontends.pytorch.message import from_message, to_message

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        halves = torch.ops.aten.split.Tensor(x.t(), 2, 1)
        sums = torch.ops.aten.sum.dim_IntList(halves[0], [0], True, dtype=torch.float64)
        kept = torch.ops.aten._to_copy.default(y, dtype=torch.float64, memory_format=torch.contiguous_format)
        limits = torch.ops.aten.clamp.default(x.as_strided([3, 2], [1, 3], 1), float("-inf"), None)
        return [sums, kept, limits, torch.ops.aten.index.Tensor(y, [None, torch.ops.aten.arange.default(2)])]

    traced = make_fx(function, tracing_mode="fake")(torch.ones(4, 3), torch.ones(2, 5)).graph
    names = names_of(traced)
    message = to_message(traced, names)
    assert message is not None
    # A worker has none of the user's modules, in which pickle would find torch's constants, too.
    texts = [arg for op, arg, _ in pickletools.genops(message) if "UNICODE" in op.name]
    assert not [text for text in texts if text.split(".")[0] in ("tests", "__main__")]
    graph, found = from_message(message)
    assert str(graph) == str(traced)
    assert [found.get(node) for node in graph.nodes] == [names.get(node) for node in traced.nodes]
    for node, before in zip(graph.nodes, traced.nodes, strict=True):
        for one, other in zip(values_of(node), values_of(before), strict=True):
            if isinstance(other, torch.Tensor):
                assert isinstance(one, FakeTensor)
                assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
                assert one.storage_offset() == other.storage_offset()
    assert convert.to_linalg(graph, found) == convert.to_linalg(traced, names)


def test_operations_of_other_libraries_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    library = torch.library.Library("numc_test_apart", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
    library.impl("twice", torch.empty_like, "Meta")
    twice = torch.ops.numc_test_apart.twice.default
    backend = numc.backend()
    compiled = torch.compile(lambda x: twice(x + 1) - 3, backend=backend)
    assert torch.equal(compiled(torch.arange(4.0)), 2 * (torch.arange(4.0) + 1) - 3)
    assert [refusal.op for refusal in backend.refused] == ["numc_test_apart.twice.default"]


def test_programs_that_compile_at_once_have_the_bytes_of_those_that_do_not(tmp_path: Path) -> None:
    models = [product(inner) for inner in (8, 24, 40)]
    begun = [ahead.begin(lambda m=model: apart.build(m, Options(fma="mp"))) for model in models]
    for number, (model, one) in enumerate(zip(models, begun, strict=True)):
        here, _ = compile.contents(model, Options(fma="mp"), cache=False)
        for name, contents in (("here", here), ("apart", one.result())):
            write_program(tmp_path / f"{name}{number}", contents)
        assert (tmp_path / f"here{number}").read_bytes() == (tmp_path / f"apart{number}").read_bytes()


def test_one_thread_needs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = apart.build(product(8), Options(fma="mp"))
    monkeypatch.setattr(process, "ask", None)
    monkeypatch.setenv("NUMC_NUM_THREADS", "1")
    assert apart.build(product(8), Options(fma="mp")) == expected
    assert apart.readings(product(8), Options(fma="mp"), [0, 1]) == {0: ("bf16", ""), 1: ("bf16", "")}


def test_progress_is_told() -> None:
    seen: list[tuple[str, str]] = []
    with told(lambda what, item, done, total: seen.append((what, item))):
        apart.build(product(8), Options())
    assert ("pass", "bufferize") in seen
    assert {what for what, _ in seen} >= {"pass", "machine code of"}


def test_errors_of_a_worker_are_those_of_the_compiler() -> None:
    with pytest.raises(NumcError, match=r"^<text>: found no func.func @main: the program's entry must be called main$"):
        apart.build(Imported("module {}"), Options())


@pytest.mark.parametrize("name", ["generalize", "bufferize", "lower"])
def test_a_crash_keeps_the_ir(
    name: str, server: process._Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING.format(name=name))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(process, "_START", process._START.replace("worker.main", "import crashing; worker.main"))
    with pytest.raises(CompilerBug) as caught:
        apart.build(product(8), Options(fma="mp"))
    message = str(caught.value)
    assert message.startswith(f"pass '{name}' crashed with SIGSEGV; this is a fault of numc: ")
    found = re.search(rf"; reproduce with: numc opt (\S+/before\.mlir) --passes {name} --fma ", message)
    assert found is not None
    assert "func.func @" in Path(found[1]).read_text()


def test_a_worker_that_is_ended_from_outside(server: process._Server) -> None:
    model = product(8)
    apart.build(model, Options())
    assert server._process is not None
    expected = "^the process that compiles was ended from outside: run this again$"
    with told(lambda *_: server._process.kill()), pytest.raises(NumcError, match=expected):
        apart.build(model, Options())
    assert apart.build(model, Options()).code


def test_what_begins_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    together, go = threading.Barrier(3), threading.Event()

    def wait() -> threading.Thread:
        together.wait(60)
        assert go.wait(60)
        return threading.current_thread()

    begun = [ahead.begin(wait) for _ in range(2)]
    together.wait(60)
    third = ahead.begin(threading.current_thread)
    assert third.result() is threading.current_thread()  # the others keep all threads busy: who asks does it
    go.set()
    assert len({threading.current_thread(), *(one.result() for one in begun)}) == 3

    def fail() -> int:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        ahead.begin(fail).result()
    monkeypatch.setenv("NUMC_NUM_THREADS", "1")
    assert ahead.begin(threading.current_thread).result() is threading.current_thread()


def test_a_child_does_not_wait_for_the_threads_of_its_parent() -> None:
    go, started = threading.Event(), threading.Event()
    begun = ahead.begin(lambda: (started.set(), go.wait(60))[1])
    assert started.wait(60)
    child = os.fork()
    if child == 0:
        go.set()
        os._exit(0 if begun.result() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go.set()
    assert begun.result()


@pytest.mark.parametrize("name", ["build", "readings"])
def test_an_error_is_raised_by_the_first_call(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise NumcError("no luck")

    monkeypatch.setattr(apart, name, fail)
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path))
    compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.GELU()), backend=numc.backend("mp"))
    for _ in range(2):  # and by the next one, which tries again
        with pytest.raises(NumcError, match="^no luck$"):
            compiled(torch.ones(2, 3))
