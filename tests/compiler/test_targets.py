"""Which code a processor gets, and that the code has no instruction its target does not have."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.compiler.targets import TARGETS, resolve
from numc.frontends.imported import Imported
from tiers import pairs

MODEL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %p = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.exp ins(%p : tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


def test_the_host_gets_the_best_it_can_run() -> None:
    of_this_machine = [target for target in TARGETS.values() if target.backend.machine == platform.machine()]
    found = [resolve("host", frozenset(target.features)).name for target in of_this_machine]
    assert found == [target.name for target in of_this_machine]
    without_fma = frozenset(TARGETS["x86-64-v3"].features) - {"fma"} | frozenset(TARGETS["x86-64-v2"].features)
    assert resolve("host", without_fma).name == "x86-64-v2"


def test_a_processor_without_any_extension() -> None:
    assert resolve("host", frozenset({"popcnt"})).name == "portable"


def test_micro_tiles_leave_registers_for_operands() -> None:
    for target in TARGETS.values():
        tile = target.isa.tile
        assert tile.width == target.isa.width
        assert tile.rows * tile.vectors + tile.vectors < target.isa.registers


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize(
    ("fma", "target"),
    pairs(["bf16_1_2", "fma(a=bf16x2,acc=bf16x2,products=3,datapath=exact)", "amx_bf16"], ["portable", "x86-64-v2"]),
)
def test_no_instruction_that_a_target_lacks(fma: str, target: str, tmp_path: Path) -> None:
    program = numc.compile(Imported(mlir=MODEL), fma=fma, target=target)
    (tmp_path / "code.o").write_bytes(program.contents.code)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", tmp_path / "code.o"], capture_output=True, text=True, check=True
    ).stdout
    functions = re.split(r"^[0-9a-f]+ <(\S+)>:$", listing, flags=re.MULTILINE)[1:]
    # _mlir_*: wrappers that MLIR's engine adds for itself; a program never calls them.
    used = {n: text for n, text in zip(functions[::2], functions[1::2], strict=True) if not n.startswith("_mlir_")}
    assert "numc_entry" in used
    found = {n: m[0] for n, text in used.items() if (m := re.search(r"\tv(?!err|erw)[a-z0-9]+ .*", text))}
    assert not found
    if target == "portable":  # SSE2 is what x86-64 begins with; SSE4 has blends, minima of integers, roundings
        newer = re.compile(r"\t(blendv?p[sd]|pblend\w+|pm(ax|in)[su]d|round[sp][sd]|pmulld|pextr[bdq]|ptest|popcnt) ")
        assert not [n for n, text in used.items() if newer.search(text)]


def test_the_same_program_on_every_target() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((9, 33), (33, 21), (9, 21)))
    targets = ("portable", "x86-64-v2", "host")
    programs = [numc.compile(Imported(mlir=MODEL), fma="bf16_1_2", target=t) for t in targets]
    portable, old, new = (np.asarray(program(a, b, c)).view(np.uint32) for program in programs)
    assert np.array_equal(portable, new)
    assert np.array_equal(old, new)


@pytest.mark.parametrize("fma", ["fp32", "bf16_2_2{3}", "fma(a=bf16,acc=e4m3fn:sr8)", "amx_bf16", "int8", "mxfp8"])
def test_portable_uses_no_intrinsic(fma: str) -> None:
    text = str(numc.lower(Imported(mlir=MODEL), to="vector", fma=fma, target="portable"))
    assert "vector.load" in text or "llvm.load" in text
    assert not re.search(r"call_intrinsic|inline_asm|prefetch", text)
