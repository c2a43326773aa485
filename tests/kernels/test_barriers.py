"""Barriers in code: texts of assembler that LLVM can give registers to (isa/instruction_set.py)."""

from __future__ import annotations

import pytest

from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.isa.neon import NEON
from numc.passes.kernels.ssa import PTR
from numc.passes.kernels.straight import Straight


@pytest.mark.parametrize("isa", [AVX2, AVX512, NEON], ids=lambda isa: isa.name)
@pytest.mark.parametrize(("vectors", "pointers"), [(3, 1), (40, 1), (70, 0), (2, 20), (33, 33)])
def test_no_text_wants_more_registers_than_there_are(isa: InstructionSet, vectors: int, pointers: int) -> None:
    """LLVM says on the terminal that inline assembly requires more registers, and writes a wrong object."""
    code = Straight(isa.width)
    values = [code.fresh("v", code.ty("f32")) for _ in range(vectors)]
    values += [code.fresh("p", PTR) for _ in range(pointers)]
    again = isa.barrier(code, values)
    assert [v.type for v in again] == [v.type for v in values]
    assert not {v.name for v in again} & {v.name for v in values}
    texts = [line for line in code.lines if "llvm.inline_asm" in line]
    operands = [line.split('", "')[1].split('"')[0].split(",") for line in texts]
    assert sum(constraint[0] == "=" for each in operands for constraint in each) == len(values)
    for constraints in operands:
        assert constraints.count("=r") <= 8
        assert sum(c[0] == "=" and c != "=r" for c in constraints) <= isa.registers
    assert len(texts) == 1 or len(values) > 4
