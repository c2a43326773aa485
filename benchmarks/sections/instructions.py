"""Count instructions instead of seconds: other load on the machine does not change the counts.

Three views. Vector operations per multiply-add in the loop that a contraction spends its time in, read from the IR
(`inner_loop`; a test holds them to a golden file). Machine instructions of the same loop, read by objdump from the
object code. Instructions that a whole run executes, counted by callgrind, which knows AVX2 but not AVX-512.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_mlir import ir

import numc
from benchmarks.cases import OPERATORS, Product
from benchmarks.models import graphs
from benchmarks.models.zoo import MODELS
from benchmarks.sections.processes import c_program
from numc.compiler.lower import lower
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
from numc.frontends.load import load_file
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma

Row = dict[str, Any]
MATRIX = Product(128, 128, 128)
RUNS = ("MobileNetV2", "transformer encoder", "LSTM")  # models small enough for callgrind
DISASSEMBLERS = {"aarch64": "aarch64-linux-gnu-objdump"}  # of targets that objdump here may not know
# Operations that LLVM turns into no instruction, or into a memory operand of one; inline assembler is empty.
FREE = ("arith.constant", "arith.bitcast", "llvm.load", "vector.broadcast", "vector.bitcast", "vector.shape_cast")
FREE += ("llvm.bitcast", "llvm.inline_asm", "llvm.extractvalue")


@dataclass(frozen=True)
class Loop:
    """The inner loop of a micro-kernel: vector operations per multiply-add of one vector, and where it is.

    fmas, others: of these, fused multiply-adds or dot products of words, and everything else; an operation on two
    registers' worth counts twice.
    """

    function: str
    steps: int
    fmas: float
    others: float


def inner_loop(module: ir.Module, fma: Fma, width: int) -> Loop:
    """Return the cheapest inner loop of `module` (after stage vector) that steps through k, for `width` lanes.

    Raises ValueError if no loop looks like one.
    """
    loops = [loop for op in _innermost_loops(module) if (loop := _loop(op, fma, width))]
    if not loops:
        raise ValueError(f"no inner loop of a contraction under {fma}")
    return min(loops, key=lambda loop: loop.fmas + loop.others)


def _innermost_loops(module: ir.Module) -> Iterator[ir.Operation]:
    def visit(op: ir.Operation) -> Iterator[ir.Operation]:
        inside = [o.operation for region in op.regions for block in region for o in block.operations]
        nested = [loop for o in inside for loop in visit(o)]
        if op.name == "scf.for" and not nested:
            yield op
        yield from nested

    yield from visit(module.operation)


def _loop(op: ir.Operation, fma: Fma, width: int) -> Loop | None:
    """Read one scf.for; None unless it carries float vectors and reads rows by broadcast and lanes by load.

    Dot products take two or four steps of k from each load of a word; those of integers carry i32 vectors.
    """
    body = [o.operation for o in op.regions[0].blocks[0].operations]
    dots = any(_is_dot(o) for o in body)
    elements, row = (("i32", "f32"), "i32") if dots else (("f32", "f64"), "f32")
    carried = [r for r in op.results if isinstance(r.type, ir.VectorType) and str(r.type.element_type) in elements]
    rows = sum((o.name == "vector.broadcast" and str(o.operands[0].type) == row) or _is_lane(o) for o in body)
    lanes = sum(o.name == "llvm.load" and isinstance(o.results[0].type, ir.VectorType) for o in body)
    lanes -= sum(o.name == "llvm.load" and all(_is_lane(use.owner) for use in o.results[0].uses) for o in body)
    if len(carried) < 2 or not rows or not lanes:
        return None
    parts = fma.parts[0] * fma.parts[1]
    step = ir.IntegerAttr(op.operands[2].owner.attributes["value"]).value
    steps = step * rows * lanes if dots else rows * lanes // (parts * step)
    fmas = sum(_registers(o, width) for o in body if o.name == "math.fma" or _is_dot(o))
    others = sum(_registers(o, width) for o in body if o.name != "math.fma" and not _is_dot(o) and not _free(o))
    return Loop(_function(op), steps, fmas / steps, others / steps)


def _is_dot(op: ir.Operation) -> bool:
    return op.name == "llvm.call_intrinsic" and re.search("vpdp|dpbf16|pmadd", str(op.attributes["intrin"])) is not None


def _is_lane(op: ir.Operation) -> bool:
    """Whether an operation puts one lane of a vector of rows into all lanes."""
    if op.name != "llvm.shufflevector":
        return False
    mask = list(ir.DenseI32ArrayAttr(op.attributes["mask"]))
    return len(set(mask)) == 1 and len(mask) == op.operands[0].type.shape[0]


def _free(op: ir.Operation) -> bool:
    """Whether an operation becomes no instruction: those of FREE, and what multiply-adds absorb.

    These are negations and, with products, lanes of a register.
    """
    users = {use.owner.name for result in op.results for use in result.uses}
    absorbed = (op.name == "arith.negf" and users <= {"math.fma"}) or (
        _is_lane(op) and users <= {"math.fma", "arith.mulf"}
    )
    return op.name in FREE or absorbed


def _registers(op: ir.Operation, width: int) -> int:
    """The number of registers of `width` x 32 bits that the widest operand or result of a vector operation fills."""
    kinds = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, ir.VectorType)]
    if op.name == "scf.yield" or not kinds:
        return 0
    return max(-(-int(k.shape[0]) * _bits(k.element_type) // (32 * width)) for k in kinds)


def _bits(element: ir.Type) -> int:
    return int(str(element).lstrip("bfi"))


def _function(op: ir.Operation) -> str:
    while op.name != "func.func":
        op = op.parent
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def product_loop(product: Imported, fma: str, target: str) -> Loop:
    """Return the inner loop of an imported matrix product."""
    width = TARGETS[target].isa.width
    module = lower(product, to="vector", fma=fma, target=target)
    with module.context:
        return inner_loop(module, parse_fma(fma), width)


def machine_loop(code: str, loop: Loop) -> dict[str, float] | None:
    """Read objdump's text: instructions per multiply-add of the longest innermost loop of the loop's function."""
    lines = _lines(code, loop.function)
    inner = _innermost(_jumps(lines))
    if not inner:
        return None
    first, last = max(inner, key=lambda span: span[1] - span[0])
    body = lines[first : last + 1]
    arithmetic = [name for _, name, rest in body if _is_arithmetic(name, rest)]
    unrolled = max(1, round(len(arithmetic) / ((loop.fmas + loop.others) * loop.steps)))
    steps = loop.steps * unrolled
    return {
        "instructions": len(body) / steps,
        "vector_instructions": len(arithmetic) / steps,
        "stack_accesses": sum(re.search(r"\(%r[sb]p|\[(sp|x29)\b", rest) is not None for *_, rest in body) / steps,
    }


def machine_block(code: str, function: str, length: int, accumulators: int) -> float:
    """Read objdump's text: instructions per multiply-add of a function that takes products in blocks of `length`.

    Of the longest loop, whose innermost loops take one product of each of the `accumulators` (vectors) each time.
    """
    jumps = _jumps(_lines(code, function))
    first, last = max(jumps, key=lambda span: span[1] - span[0])
    inside = sum(b - a + 1 for a, b in _innermost(jumps) if first < a and b < last)
    return (last - first + 1 + (length - 1) * inside) / (length * accumulators)


def _lines(code: str, function: str) -> list[tuple[str, str, str]]:
    """The address, the name and the operands of the instructions of a function; none if it is not there."""
    text = re.search(rf"^[0-9a-f]+ <{re.escape(function)}>:\n((?:.+\n)*)", code, flags=re.MULTILINE)
    return re.findall(r"^ *([0-9a-f]+):\t(\S+) *(.*)$", text[1], flags=re.MULTILINE) if text else []


def _jumps(lines: Sequence[tuple[str, str, str]]) -> list[tuple[int, int]]:
    """The loops of a function: from where a jump goes back to, to that jump."""
    line_of = {int(address, 16): n for n, (address, _, _) in enumerate(lines)}
    jumps = []
    for n, (_, name, rest) in enumerate(lines):
        target = re.search(r"\b([0-9a-f]+) <", rest)
        if re.match(r"j|b$|b\.|[ct]bn?z$", name) and target and line_of.get(int(target[1], 16), n + 1) <= n:
            jumps.append((line_of[int(target[1], 16)], n))
    return jumps


def _innermost(jumps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in jumps if not any(a <= c and d < b for c, d in jumps)]


def _is_arithmetic(name: str, operands: str) -> bool:
    """Whether an instruction of x86-64 or AArch64 computes on vectors."""
    if re.search(r"\bv\d+\.", operands):
        return re.match(r"mov|dup|ld|st", name) is None
    return re.match(r"v(?!mov|broadcast)", name) is not None


def executed(program: Path, runner: Path) -> int | None:
    """Return how many instructions numc_run executes on one thread, by callgrind; None where that is missing."""
    if shutil.which("valgrind") is None:
        return None
    command = ("valgrind", "--tool=callgrind", "--toggle-collect=numc_run", "--callgrind-out-file=/dev/null")
    environment = {**os.environ, "NUMC_NUM_THREADS": "1"}
    done = subprocess.run((*command, runner, program), env=environment, check=True, capture_output=True, text=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])  # type: ignore[index]


def instructions(seconds: float, quick: bool) -> list[Row]:
    """Count the instructions of a matrix product under each operator, and of whole models under one."""
    rows = []
    objdump = shutil.which("objdump")
    with graphs.folder() as folder:
        runner = c_program(folder)
        path, _, _ = graphs.matmul(MATRIX, folder)
        imported = load_file(path)
        for fma in list(OPERATORS)[:4] if quick else OPERATORS:
            row: Row = {"case": f"matmul {MATRIX.name}", "operator": fma}
            loop = product_loop(imported, fma, "x86-64-v4")
            row |= {"fmas": loop.fmas, "others": loop.others}
            if objdump:
                row |= machine_loop(disassembled(imported, fma, "x86-64-v4", folder), loop) or {}
            run = _executed(path, fma, folder, runner)
            rows.append({**row, "executed_per_fma": run and run / (MATRIX.m * MATRIX.n * MATRIX.k)})
        for name in RUNS[-1:] if quick else RUNS:
            model, _ = MODELS[name](1, folder)
            rows.append(
                {"case": name, "operator": "bf16_1_1", "executed": _executed(model, "bf16_1_1", folder, runner)}
            )
    return rows


def _executed(model: Path, fma: str, folder: str, runner: Path) -> int | None:
    program = Path(folder) / "counted.numc"
    numc.compile(model, fma=fma, target="x86-64-v3").save(program)
    return executed(program, runner)


def disassembled(model: Imported, fma: str, target: str, folder: str) -> str:
    """Return what objdump says of the code of a model."""
    code = Path(folder) / "code.o"
    code.write_bytes(build(model, Options(fma=fma, target=target)).code)
    command = (DISASSEMBLERS.get(target, "objdump"), "-d", "--no-show-raw-insn", str(code))
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
