"""Objects by target triple: LLVM's text in the words of an older LLVM, and what is said where something is missing."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir
from torch_mlir.dialects import llvm

import numc
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.compiler.targets import TARGETS, resolve
from numc.frontends.imported import Imported
from numc.passes.kernels.backend import translated
from numc.passes.kernels.backend.llvm_text import older
from numc.runtime import Program, write_program
from numc.support.errors import NumcError
from tiers import one_in

MATMUL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
BITS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
here = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")


@pytest.fixture
def unbound() -> Iterator[None]:
    """LLVM's binding is looked for again, now and afterwards."""
    translated._binding.cache_clear()
    yield
    translated._binding.cache_clear()


def _encodings(kind: str) -> np.ndarray:
    """Encodings of every class: zeros, subnormals, powers of two, decimals, infinities, NaN of both sorts; any."""
    bits, rng = BITS[kind], np.random.default_rng(0)
    size = np.iinfo(bits).bits
    random = rng.integers(0, 1 << size, 400, dtype=bits)
    if kind in ("f16", "bf16"):
        decimals = np.arange(0, 1 << 16, 37, dtype=bits)
    else:
        floats = np.float32 if kind == "f32" else np.float64
        decimals = np.array([0.1, 1.5, 3.3, 1e-5, 1e10, 1e-40, 90, -0.7, 5e-324, 2.0**-149], floats).view(bits)
    significand = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
    infinity = ((1 << (size - 1)) - 1) >> significand << significand
    special = [0, 1, infinity, infinity + 1, infinity | 1 << (significand - 1), infinity + 5, infinity - 1]
    signs = [value | 1 << (size - 1) for value in special]
    return np.concatenate([np.array(special + signs, bits), random, decimals])


@here
@pytest.mark.parametrize("kind", BITS)
def test_numbers_keep_their_bits(kind: str) -> None:
    """What LLVM's own compiler stores of every number is the encoding that MLIR was given."""
    binding = pytest.importorskip("llvmlite.binding")
    encodings = _encodings(kind)
    digits = np.iinfo(BITS[kind]).bits // 4
    stores = "\n".join(
        f"  %c{n} = llvm.mlir.constant(0x{int(word):0{digits}X} : {kind}) : {kind}\n"
        f"  %p{n} = llvm.getelementptr %p[{n}] : (!llvm.ptr) -> !llvm.ptr, {kind}\n"
        f"  llvm.store %c{n}, %p{n} : {kind}, !llvm.ptr"
        for n, word in enumerate(encodings)
    )
    with ir.Context():
        module = ir.Module.parse(f"llvm.func @f(%p: !llvm.ptr) {{\n{stores}\n  llvm.return\n}}")
        text = older(llvm.translate_module_to_llvmir(module.operation))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
    found = np.zeros_like(encodings)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("f"))(found.ctypes.data)
    assert np.array_equal(found, encodings)


def test_only_numbers_are_rewritten() -> None:
    text = """@"float 1.0" = constant [9 x i8] c"float 1.0"
%1 = fadd float %0, 1.000000e+00 ; float 1.0
%2 = call float @f.1.5(float -inf, i32 7), !note !0
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr captures(none), <4 x i1>, <4 x float>) #3
declare float @llvm.fma.f32(float, float range(i32 0, 2), float) #0
attributes #0 = { nounwind }
"""
    assert (
        older(text)
        == """@"float 1.0" = constant [9 x i8] c"float 1.0"
%1 = fadd float %0, 0x3FF0000000000000 ; float 1.0
%2 = call float @f.1.5(float 0xFFF0000000000000, i32 7), !note !0
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
declare float @llvm.fma.f32(float, float, float)
attributes #0 = { nounwind }
"""
    )


@here
@pytest.mark.parametrize("fma", one_in(2, ["bf16_1_2", "mxfp8", "fma(a=bf16,acc=e4m3fn:sr8)", "amx_bf16"]))
def test_the_same_bits_by_either_way(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For x86-64, as another machine compiles for it, and as this one does."""
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((29, 70), (70, 37), (29, 37)))
    target = resolve("host", numc.runtime.library.usable_features()).name
    mine = Program(build(Imported(mlir=MATMUL), Options(fma=fma, target=target)))(a, b, c, seed=3)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    made: list[bytes] = []
    older_text = translated.older
    monkeypatch.setattr(translated, "older", lambda text: made.append(text) or older_text(text))
    contents = build(Imported(mlir=MATMUL), Options(fma=fma, target=target))
    monkeypatch.undo()
    theirs = Program(contents)(a, b, c, seed=3)
    assert made, "MLIR's engine has made this code"
    assert set(contents.manifest["versions"]) == {"numc", "torch-mlir", "llvmlite"}
    assert np.array_equal(np.asarray(mine).view(np.uint32), np.asarray(theirs).view(np.uint32))


@pytest.mark.usefixtures("unbound")
def test_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(NumcError) as error:
        build(Imported(mlir=MATMUL), Options(target="aarch64"))
    assert str(error.value) == (
        "target aarch64: its code generator is in the package llvmlite, which is not installed: "
        "pip install 'numc[cross]'"
    )


@pytest.mark.usefixtures("unbound")
def test_an_llvmlite_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    monkeypatch.setattr(binding, "llvm_version_info", (20, 1, 8))
    with pytest.raises(NumcError) as error:
        build(Imported(mlir=MATMUL), Options(target="aarch64"))
    assert str(error.value) == "target aarch64: llvmlite has LLVM 20, want 22 or newer: pip install -U 'numc[cross]'"


@here
def test_a_program_for_another_architecture_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    text = "compiled for target 'aarch64' (aarch64), this machine is x86-64: recompile with --target"
    contents = build(Imported(mlir=MATMUL), Options(target="aarch64"))
    with pytest.raises(NumcError) as error:
        Program(contents)
    assert str(error.value) == f"program: {text}"
    path = tmp_path / "matmul.numc"
    write_program(path, contents)
    with pytest.raises(NumcError) as error:
        numc.load(path)
    assert str(error.value) == f"'{path}': {text}"


def test_each_machine_gets_its_own_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert resolve("host", frozenset({"asimd", "sve"})).name == "aarch64"
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert resolve("host", frozenset()).name == "portable"
    assert resolve("host", frozenset(TARGETS["x86-64-v3"].features)).name == "x86-64-v3"
