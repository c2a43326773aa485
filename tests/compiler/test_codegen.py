"""The parts of a module: the same for any number of threads, and one program when linked."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from torch_mlir import ir

import numc
from numc.compiler import pipeline
from numc.compiler.lower import module_of
from numc.compiler.options import Options
from numc.compiler.programs import compile as compiling
from numc.frontends.imported import Imported
from numc.passes import linalg
from numc.passes.kernels.backend import linkage, objects, partition
from numc.passes.llvm.packed_entry import ENTRY
from numc.passes.plan.functions import kernels_of
from numc.support.errors import CompilerBug
from tiers import pairs

CHAIN = "\n".join(
    f"""  %r{n + 1} = linalg.matmul ins(%r{n}, %b : tensor<?x{k}xf32>, tensor<{k}x{k}xf32>)
    outs(%c : tensor<?x{k}xf32>) -> tensor<?x{k}xf32>"""
    for n, k in enumerate([5] * 6)
)
MODEL = f"""
func.func @main(%r0: tensor<?x5xf32>, %b: tensor<5x5xf32>, %c: tensor<?x5xf32>) -> tensor<?x5xf32> {{
{CHAIN}
  return %r6 : tensor<?x5xf32>
}}"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.mlir").write_text(MODEL)
    return tmp_path / "model.mlir"


def code(model):
    return compiling.contents(model, Options(fma="bf16_1_2"), cache=False)[0].code


def test_code_does_not_depend_on_the_number_of_threads(model, monkeypatch):
    monkeypatch.setattr(partition, "_OPERATIONS", 300)
    monkeypatch.setenv("NUMC_NUM_THREADS", "1")
    one = code(model)
    monkeypatch.setenv("NUMC_NUM_THREADS", "3")
    assert one[:8] == b"!<arch>\n"
    assert code(model) == one


@pytest.mark.parametrize(("operations", "entry"), pairs([50, 300, 10**9], [0, 10**9]))
def test_every_split_gives_the_same_bits(model, monkeypatch, operations, entry):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((3, 5), (5, 5), (3, 5))]
    want = numc.compile(model, fma="bf16_1_2")(*inputs)
    monkeypatch.setattr(partition, "_OPERATIONS", operations)
    monkeypatch.setattr(linkage, "_LARGE_ENTRY", entry)
    np.testing.assert_array_equal(numc.compile(model, fma="bf16_1_2", cache=False)(*inputs), want)


PARTS = """
llvm.mlir.global internal constant @table(7 : i64) : i64
llvm.mlir.global internal @counter(0 : i64) : i64
llvm.func @numc_parallel(!llvm.ptr)
llvm.func @leaf() { llvm.return }
llvm.func @uses_table() -> i64 {
  %0 = llvm.mlir.addressof @table : !llvm.ptr
  %1 = llvm.load %0 : !llvm.ptr -> i64
  llvm.call @leaf() : () -> ()
  llvm.return %1 : i64
}
llvm.func @counts() {
  %0 = llvm.mlir.addressof @counter : !llvm.ptr
  llvm.call @numc_parallel(%0) : (!llvm.ptr) -> ()
  llvm.return
}
llvm.func @reads() -> i64 {
  %0 = llvm.mlir.addressof @counter : !llvm.ptr
  %1 = llvm.load %0 : !llvm.ptr -> i64
  llvm.return %1 : i64
}
llvm.func @numc_entry(%args: !llvm.ptr) {
  %0 = llvm.call @uses_table() : () -> i64
  llvm.call @counts() : () -> ()
  %1 = llvm.call @reads() : () -> i64
  %2 = llvm.mlir.addressof @table : !llvm.ptr
  llvm.return
}
"""


def test_what_goes_together(monkeypatch):
    monkeypatch.setattr(partition, "_OPERATIONS", 5)
    with ir.Context():
        module = ir.Module.parse(PARTS)
        parts = {p.exported: p for p in partition.partition(module, "numc_entry")}
    assert set(parts) == {("numc_entry",), ("uses_table",), ("counts", "reads")}  # a variable is in one part only
    assert needed(parts["numc_entry",]) == ("uses_table", "counts", "reads")
    assert needed(parts["uses_table",]) == ()  # leaf has one caller and is with it
    assert needed(parts["counts", "reads"]) == ("numc_parallel",)
    assert b"table" in parts["numc_entry",].bytecode  # a constant is wherever it is used
    assert b"table" in parts["uses_table",].bytecode
    for part in parts.values():
        with ir.Context():
            assert objects.compile_part(part, lambda _: None, "numc_entry").startswith(b"\x7fELF")


def needed(part):
    with ir.Context():
        return linkage.link(ir.Module.parse(part.bytecode), part.exported, "numc_entry")[0]


COMPLETE = """
func.func @main(%a: memref<?xf32>) {
  call @used(%a) : (memref<?xf32>) -> ()
  return
}
func.func private @runtime()
func.func private @used(%a: memref<?xf32>) attributes {complete} {
  call @inner() : () -> ()
  return
}
func.func private @inner() attributes {complete} {
  call @runtime() : () -> ()
  return
}
func.func private @unused() attributes {complete} { return }
"""


def test_complete_functions_leave_the_module(monkeypatch):
    """Those that others call are declared, and those that nobody calls are in no part."""
    submitted = []
    monkeypatch.setattr(objects.ObjectCode, "_submit", lambda self, parts: submitted.extend(parts))
    with ir.Context(), objects.ObjectCode(lambda _: None, "main") as making:
        module = ir.Module.parse(COMPLETE)
        making.begin(module, {"used", "inner", "unused"})
        assert module.operation.verify()
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
        assert list(functions) == ["main", "runtime", "used"]
        assert not functions["used"].regions[0].blocks
        (part,) = submitted
        assert part.exported == ("used",)
        inside = ir.Module.parse(part.bytecode)
        assert [str(op.attributes["sym_name"]) for op in inside.body.operations] == ['"runtime"', '"used"', '"inner"']


def test_a_dump_is_of_the_same_program(model, tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "_OPERATIONS", 300)
    whole = compiling.contents(model, Options(fma="bf16_1_2"), cache=False, dump_dir=tmp_path)[0]
    usual = compiling.contents(model, Options(fma="bf16_1_2"), cache=False)[0]
    assert whole.code == usual.code
    assert whole.manifest == usual.manifest
    assert [part["kind"] for part in usual.manifest["parts"]].count("contraction") == 6


@pytest.mark.parametrize("fma", ["fp32", "bf16_1_2", "midbfp", "int8"])
def test_kernels_are_complete(fma):
    """What becomes code early is what the IR of the whole module shows."""
    options = Options(fma=fma, ops="bf16")
    module, state = module_of(Imported(EDGES), options), pipeline.State.of(options)
    pipeline.run(module, state, to="kernels")
    early = {}
    for part in partition.partition(module, ENTRY, kernels_of(module.operation)):
        with module.context:
            of_part = ir.Module.parse(part.bytecode)
        pipeline.run(of_part, state, after="loops")
        early |= operations(of_part)
    pipeline.run(module, state, after="kernels")
    whole = operations(module)
    assert early
    assert early == {name: whole[name] for name in early}


EDGES = """
func.func @main(%a: tensor<4x9xf32>, %b: tensor<9x7xf32>) -> tensor<4x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x7xf32>
  %c = linalg.fill ins(%zero : f32) outs(%e : tensor<4x7xf32>) -> tensor<4x7xf32>
  %r = linalg.matmul ins(%a, %b : tensor<4x9xf32>, tensor<9x7xf32>) outs(%c : tensor<4x7xf32>) -> tensor<4x7xf32>
  %s = linalg.exp ins(%r : tensor<4x7xf32>) outs(%e : tensor<4x7xf32>) -> tensor<4x7xf32>
  %t = linalg.tanh ins(%s : tensor<4x7xf32>) outs(%e : tensor<4x7xf32>) -> tensor<4x7xf32>
  return %t : tensor<4x7xf32>
}"""


def operations(module):
    """How often each operation is in the functions of a module, by their names."""
    functions = [op.operation for op in module.body.operations if op.operation.regions and op.regions[0].blocks]
    return {
        str(ir.StringAttr(op.attributes["sym_name"]).value): Counter(inner.name for inner in linalg.operations(op))
        for op in functions
    }


UNKNOWN = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "other.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def test_a_failure_in_a_part_says_what_mlir_says(tmp_path, monkeypatch):
    """Also on another thread, without Python's lock."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fails = pipeline.upstream("", "one-shot-bufferize")
    state = pipeline.State.of(Options())
    with ir.Context() as context, ThreadPoolExecutor(1) as pool:
        context.allow_unregistered_dialects = True
        run = pool.submit(pipeline.run_pass, "lower", fails, ir.Module.parse(UNKNOWN), state)
        with pytest.raises(CompilerBug, match=r"'lower' failed: .*op was not bufferized.*reproduce with: numc opt"):
            run.result()


def test_a_large_entry_is_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each jumps to the next, and blocks that the entry has anyway, for checks of sizes, are cut, too."""
    text = """
    func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x3xf32>, %c: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %r = linalg.matmul ins(%a, %b : tensor<?x4xf32>, tensor<4x3xf32>) outs(%c : tensor<?x3xf32>) -> tensor<?x3xf32>
      %s = linalg.exp ins(%r : tensor<?x3xf32>) outs(%c : tensor<?x3xf32>) -> tensor<?x3xf32>
      return %s : tensor<?x3xf32>
    }
    """
    jumps: list[int] = []
    cut = linkage._cut

    def counted(block: ir.Block) -> None:
        cut(block)
        jumps.append(sum(op.operation.name == "llvm.br" for each in block.region.blocks for op in each.operations))

    monkeypatch.setattr(linkage, "_LARGE_ENTRY", 0)
    monkeypatch.setattr(linkage, "_LARGE_BLOCK", 3)
    monkeypatch.setattr(linkage, "_cut", counted)
    a, b, c = (np.linspace(0, 1, m * n, dtype=np.float32).reshape(m, n) for m, n in ((2, 4), (4, 3), (2, 3)))
    found = numc.compile(Imported(text), cache=False)(a, b, c)
    assert jumps[-1] > 20
    np.testing.assert_allclose(found, np.exp(a @ b + c), rtol=1e-6)
