"""The inner loop of every operator has the vector operations of the golden file, no more: no clock is needed to see it.

A change that is meant: ``pytest tests/benchmarks/test_inner_loops.py --update-golden``.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.cases import OPERATORS
from benchmarks.models import graphs
from benchmarks.sections.instructions import DISASSEMBLERS, MATRIX, disassembled, machine_loop, product_loop
from numc.compiler.targets import TARGETS
from numc.frontends.load import load_file
from numc.numerics.grammar import parse_fma
from targets_here import has_code_for_zen4

GOLDEN = Path(__file__).with_name("inner_loops.json")


@pytest.mark.all
def test_vector_operations_per_multiply_add(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    found = {}
    for fma in OPERATORS:
        for name in TARGETS:
            if name == "x86-64-v4-vnni" and parse_fma(fma).groups is None:
                continue  # nothing else has a use for dot products of integers
            if name == "x86-64-v4-amx":
                continue  # the loops of matrix registers have no vectors, the others are those without
            if name == "zen4" and not has_code_for_zen4(fma):
                continue  # nor another use for additions and for products of bfloat16 numbers
            if name == "cuda":
                continue  # tests/gpu counts its loops
            if name == "portable":
                continue  # what x86-64-v2 has, but for prefetching
            loop = product_loop(product, fma, name)
            found[f"{fma}, {name}"] = {"fmas": loop.fmas, "others": loop.others}
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())


def test_the_page_of_targets_says_the_same() -> None:
    golden = json.loads(GOLDEN.read_text())
    page = (Path(__file__).resolve().parents[2] / "docs" / "targets.md").read_text()
    rows = re.findall(r"^\| `(.+)` \| (\S+) \+ (\S+) \| (\S+) \+ (\S+) \|$", page, flags=re.MULTILINE)
    assert len(rows) > 8
    for fma, *numbers in rows:
        loops = [golden[f"{fma}, {name}"] for name in ("aarch64", "x86-64-v3")]
        assert [float(n) for n in numbers] == [loop[part] for loop in loops for part in ("fmas", "others")], fma


# All machine instructions of a multiply-add of four lanes: loads, the loop, spills and copies of addends, too.
NEON_LOOPS = {"fp32": 1.4, "bf16_1_1": 3.6, "bf16_2_2{3}": 11.0, "fmac(e6m9)": 8.5}


@pytest.mark.all
@pytest.mark.skipif(shutil.which(DISASSEMBLERS["aarch64"]) is None, reason="needs the binutils for AArch64")
@pytest.mark.parametrize("fma", NEON_LOOPS)
def test_machine_instructions_of_neon(fma: str, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    counts = machine_loop(disassembled(product, fma, "aarch64", str(tmp_path)), product_loop(product, fma, "aarch64"))
    assert counts is not None
    assert counts["instructions"] <= NEON_LOOPS[fma]
    if fma == "fp32":  # every multiply-add is an FMLA by a lane, and nothing is spilled
        assert (counts["vector_instructions"], counts["stack_accesses"]) == (1, 0)


def test_a_plain_fma_is_one_operation(tmp_path: Path) -> None:
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    loop = product_loop(product, "fp32", "x86-64-v4")
    assert (loop.fmas, loop.others) == (1, 0)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize("fma", ["bf16_3_3{6}", "fma(a=bf16x3,acc=fp32)"])
@pytest.mark.parametrize(("target", "most"), [("x86-64-v4", 0), ("x86-64-v3", 0.5)])
def test_parts_of_rows_leave_accumulators_in_registers(fma: str, target: str, most: float, tmp_path: Path) -> None:
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    code = disassembled(product, fma, target, str(tmp_path))
    counts = machine_loop(code, product_loop(product, fma, target))
    assert counts is not None
    assert counts["stack_accesses"] <= most


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_spilled_vectors_lie_in_lines_of_the_cache(tmp_path: Path) -> None:
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    code = disassembled(product, "fma(a=bf16,acc=bf16x2,datapath=exact)", "x86-64-v4", str(tmp_path))
    spills = re.findall(r"(vmov[au]p[sd]) +%zmm\d+,-?(?:0x[0-9a-f]+)?\(%rsp\)", code)
    assert spills, "another operator wanted, which spills"
    assert set(spills) <= {"vmovaps", "vmovapd"}


def test_the_longest_innermost_loop_of_the_function_is_counted() -> None:
    from benchmarks.sections.instructions import Loop

    code = """
0000000000000000 <other>:
   0:	vaddps %zmm0,%zmm1,%zmm2
   4:	jne    0 <other>

0000000000000010 <f_fast>:
  10:	vmovups (%rax),%zmm1
  14:	vfmadd231ps %zmm1,%zmm2,%zmm3
  18:	vmovups 0x10(%rsp),%zmm4
  1c:	vfmadd231ps %zmm1,%zmm2,%zmm5
  20:	add    $0x40,%rax
  24:	jne    10 <f_fast>
  28:	vaddps %zmm0,%zmm1,%zmm2
  2c:	jne    28 <f_fast+0x18>
  30:	ret
"""
    counts = machine_loop(code, Loop("f_fast", steps=2, fmas=1.0, others=0.0))
    assert counts == {"instructions": 3.0, "vector_instructions": 1.0, "stack_accesses": 0.5}
    assert machine_loop(code, Loop("absent", 2, 1.0, 0.0)) is None
