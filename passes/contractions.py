# ruff: noqa: E501 - the long lines are MLIR text
"""contractions-to-kernels: each linalg.generic on memrefs whose body is one numc.fma becomes a call of its kernel."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from numc.compiler.dialect import fma_of
from numc.compiler.fma import Fma
from numc.passes import walk
from numc.passes.kernels import CONTRACT_ARGUMENTS, Kernel, Tile, kernel_text, slim

Linear = tuple[dict[int, int], int]


@dataclass(frozen=True)
class Contraction:
    """What the runtime's observer needs to know about one kernel call: its number, operator, name and orientation."""

    id: int
    fma: str
    name: str
    swap: bool


@dataclass(frozen=True)
class _Shape:
    """Iteration dimensions by their part in the contraction, each in linalg order."""

    batch: list[int]
    rows: list[int]
    lanes: list[int]
    k: list[int]


def contractions_to_kernels(module: ir.Operation, tile: Tile, *, fast: bool = True) -> list[Contraction]:
    """Rewrite `module` in place; returns the contractions in program order."""
    table: list[Contraction] = []
    kernels: dict[str, Kernel] = {}
    functions: dict[str, str] = {}
    with module.context, ir.Location.unknown():
        for generic in walk.operations(module, "linalg.generic"):
            match = _match(generic)
            if match is None:
                continue
            fma, a, b, c = match
            shape = _shape(generic, a, b, c)
            if shape is None:
                continue
            swap, rows, lanes = shape[0], *((b, a) if shape[0] else (a, b))
            one_row = not shape[1].rows
            kernel = Kernel(fma, slim(tile) if one_row else tile, swap, fast)
            kernels[kernel.name] = kernel
            number = len(table)
            table.append(Contraction(number, str(fma), _name(generic), swap))
            operands = [generic.operands[n] for n in (rows, lanes, c)]
            maps = [walk.indexing_maps(generic)[n] for n in (rows, lanes, c)]
            text = _call_text(kernel, shape[1], operands, maps)
            symbol = functions.setdefault(text, f"contraction_{len(functions)}")
            with ir.InsertionPoint(generic), generic.location:
                index = ir.IndexType.get()
                value = ir.IntegerAttr.get(index, number)
                id_ = ir.Operation.create("arith.constant", results=[index], attributes={"value": value}).results[0]
                callee = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
                ir.Operation.create("func.call", operands=[*operands, id_], attributes=callee)
            generic.erase()
        if table:
            texts = [text.replace("@contraction", f"@{symbol}", 1) for text, symbol in functions.items()]
            texts += [kernel_text(k) + _task_text(k) for k in kernels.values()]
            _append(module, _EXTERNALS + "\n".join(texts))
    return table


def _append(module: ir.Operation, text: str) -> None:
    source = ir.Module.parse(text, module.context)
    block = module.regions[0].blocks[0]
    for op in source.body.operations:
        block.append(op.operation.clone())


def _match(generic: ir.Operation) -> tuple[Fma, int, int, int] | None:
    """Return the operator and the operand numbers of A, B, C if the body is [rounds] numc.fma, yield, nothing else."""
    if not all(isinstance(operand.type, ir.MemRefType) for operand in generic.operands):
        return None
    if "reduction" not in walk.iterator_types(generic):
        return None
    ops = [op.operation for op in walk.body(generic).operations]
    fmas = [op for op in ops if op.name == "numc.fma"]
    if len(fmas) != 1 or any(op.name not in ("numc.round", "numc.fma", "linalg.yield") for op in ops):
        return None
    if len(ops[-1].operands) != 1 or ops[-1].operands[0] != fmas[0].results[0]:
        return None
    fma = fma_of(fmas[0])
    arguments = []
    for value, expected in zip(fmas[0].operands, (fma.a, fma.b, None), strict=True):
        while not isinstance(value.owner, ir.Block):
            if value.owner.name != "numc.round" or ir.StringAttr(value.owner.attributes["to"]).value != str(expected):
                return None
            value = value.owner.operands[0]
        if ir.BlockArgument(value).owner != walk.body(generic):
            return None
        arguments.append(ir.BlockArgument(value).arg_number)
    a, b, c = arguments
    inputs = walk.input_count(generic)
    return (fma, a, b, c) if a < inputs and b < inputs and c >= inputs and len(generic.operands) == inputs + 1 else None


def _linear(expr: ir.AffineExpr) -> Linear | None:
    """Return the coefficients and the constant of a linear affine expression."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}, 0
    if isinstance(expr, ir.AffineConstantExpr):
        return {}, expr.value
    if isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        left, right = _linear(expr.lhs), _linear(expr.rhs)
        if left is None or right is None:
            return None
        if isinstance(expr, ir.AffineAddExpr):
            dims = {d: left[0].get(d, 0) + right[0].get(d, 0) for d in {*left[0], *right[0]}}
            return dims, left[1] + right[1]
        (scaled, factor) = (left, right[1]) if not right[0] else (right, left[1])
        if left[0] and right[0]:
            return None
        return {d: n * factor for d, n in scaled[0].items()}, scaled[1] * factor
    return None


def _shape(generic: ir.Operation, a: int, b: int, c: int) -> tuple[bool, _Shape] | None:
    """Sort the dimensions into batch, rows, lanes and k; True means that A supplies the lanes."""
    maps = walk.indexing_maps(generic)
    used: list[set[int]] = []
    for n in (a, b, c):
        linear = [_linear(e) for e in maps[n].results]
        if any(x is None for x in linear):
            return None
        used.append({d for x in linear if x is not None for d in x[0]})
    out = [_linear(e) for e in maps[c].results]
    if any(x is None or len(x[0]) != 1 or x[1] != 0 for x in out):
        return None
    kinds = walk.iterator_types(generic)
    parallel = [d for d, kind in enumerate(kinds) if kind == "parallel"]
    only_a = [d for d in parallel if d in used[0] and d not in used[1]]
    only_b = [d for d in parallel if d in used[1] and d not in used[0]]
    batch = [d for d in parallel if d not in only_a and d not in only_b]
    order = [next(iter(x[0])) for x in out if x is not None]
    if set(order) != set(parallel):
        return None
    innermost = next((d for d in reversed(order) if d in only_a or d in only_b), None)
    swap = innermost in only_a
    rows, lanes = (only_b, only_a) if swap else (only_a, only_b)
    return swap, _Shape(batch, rows, lanes, [d for d, kind in enumerate(kinds) if kind == "reduction"])


def _name(generic: ir.Operation) -> str:
    """The source name of an operation: the innermost name in its location."""
    text = str(generic.location)
    quoted = text.split('"')
    return quoted[1] if len(quoted) > 1 else text


_EXTERNALS = """
func.func private @numc_ftz_begin() -> i32
func.func private @numc_ftz_end(i32)
llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
"""


def _call_text(kernel: Kernel, shape: _Shape, operands: list[ir.Value], maps: list[ir.AffineMap]) -> str:
    """The function that fills the offset tables of one contraction and starts its tasks."""
    lines: list[str] = []
    letters = "abc"
    dims = maps[0].n_dims
    linear = [[_linear(e) for e in m.results] for m in maps]
    for letter, operand in zip(letters, operands, strict=True):
        rank = ir.MemRefType(operand.type).rank
        sizes = f", %{letter}_size:{rank}, %{letter}_stride:{rank}" if rank else ""
        types = ", ".join(["index"] * 2 * rank)
        lines.append(
            f"%{letter}_base, %{letter}_offset{sizes} = memref.extract_strided_metadata %{letter}_in : {operand.type} -> memref<f32>, index"
            + (f", {types}" if rank else "")
        )
        lines.append(
            f"%{letter} = memref.reinterpret_cast %{letter}_base to offset: [0], sizes: [%huge], strides: [1] : memref<f32> to memref<?xf32>"
        )
        for d in range(dims):
            total = "%c0"
            for position, x in enumerate(linear[letters.index(letter)]):
                assert x is not None
                if x[0].get(d):
                    lines.append(f"%{letter}f{d}_{position} = arith.constant {x[0][d]} : index")
                    lines.append(
                        f"%{letter}m{d}_{position} = arith.muli %{letter}_stride#{position}, %{letter}f{d}_{position} : index"
                    )
                    lines.append(f"%{letter}s{d}_{position} = arith.addi {total}, %{letter}m{d}_{position} : index")
                    total = f"%{letter}s{d}_{position}"
            lines.append(f"%{letter}_by{d} = arith.addi {total}, %c0 : index")
        start = f"%{letter}_offset"
        for position, x in enumerate(linear[letters.index(letter)]):
            assert x is not None
            if x[1]:
                lines.append(f"%{letter}k{position} = arith.constant {x[1]} : index")
                lines.append(
                    f"%{letter}l{position} = arith.muli %{letter}_stride#{position}, %{letter}k{position} : index"
                )
                lines.append(f"%{letter}n{position} = arith.addi {start}, %{letter}l{position} : index")
                start = f"%{letter}n{position}"
        lines.append(f"%{letter}_start = arith.addi {start}, %c0 : index")
    for d in range(dims):
        letter, position = next(
            (letters[n], p)
            for n, xs in enumerate(linear)
            for p, x in enumerate(xs)
            if x is not None and x == ({d: 1}, 0)
        )
        lines.append(f"%size{d} = arith.addi %{letter}_size#{position}, %c0 : index")
    groups = {"batch": shape.batch, "row": shape.rows, "lane": shape.lanes, "k": shape.k}
    for name in CONTRACT_ARGUMENTS[3:]:
        group, letter = name.split("_")
        lines += _table(name, groups[group], letter, f"%{letter}_start" if group == "batch" else "%c0")
    for group in groups:
        letter = "c" if group != "k" else "a"
        lines.append(f"%{group}_count = memref.dim %{group}_{letter}, %c0 : memref<?xindex>")
    t = kernel.tile
    lines += [
        f"%row_block = arith.constant {t.row_block} : index",
        f"%lane_block = arith.constant {t.lane_block} : index",
        "%row_blocks = arith.ceildivui %row_count, %row_block : index",
        "%lane_blocks = arith.ceildivui %lane_count, %lane_block : index",
        "%blocks = arith.muli %row_blocks, %lane_blocks : index",
        "%tasks = arith.muli %blocks, %batch_count : index",
        f"%context = memref.alloca() : memref<{2 * len(CONTRACT_ARGUMENTS)}xindex>",
    ]
    for n, name in enumerate(CONTRACT_ARGUMENTS):
        ty = f"memref<?x{'f32' if n < 3 else 'index'}>"
        lines += [
            f"%pointer{n} = memref.extract_aligned_pointer_as_index %{name} : {ty} -> index",
            f"%length{n} = memref.dim %{name}, %c0 : {ty}",
            f"%at{n} = arith.constant {2 * n} : index",
            f"%after{n} = arith.constant {2 * n + 1} : index",
            f"memref.store %pointer{n}, %context[%at{n}] : memref<{2 * len(CONTRACT_ARGUMENTS)}xindex>",
            f"memref.store %length{n}, %context[%after{n}] : memref<{2 * len(CONTRACT_ARGUMENTS)}xindex>",
        ]
    lines += [
        f"%context_index = memref.extract_aligned_pointer_as_index %context : memref<{2 * len(CONTRACT_ARGUMENTS)}xindex> -> index",
        "%context_int = arith.index_cast %context_index : index to i64",
        "%context_pointer = llvm.inttoptr %context_int : i64 to !llvm.ptr",
        f"%task = llvm.mlir.addressof @{kernel.name}_task : !llvm.ptr",
        "%task_count = arith.index_cast %tasks : index to i64",
        "%id = arith.index_cast %number : index to i64",
        "llvm.call @numc_parallel(%task, %context_pointer, %task_count, %id) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()",
    ]
    lines += [f"memref.dealloc %{name} : memref<?xindex>" for name in CONTRACT_ARGUMENTS[3:]]
    arguments = ", ".join(f"%{n}_in: {o.type}" for n, o in zip(letters, operands, strict=True))
    text = "\n".join("    " + line for line in lines)
    return f"""
func.func private @contraction({arguments}, %number: index) attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %huge = arith.constant 4611686018427387904 : index
{text}
    return
}}"""


def _table(name: str, group: list[int], letter: str, start: str) -> list[str]:
    """Allocate ``%name`` and fill it with the offsets of every index combination of `group`, in ascending order."""
    lines = [f"%{name}_n0 = arith.constant 1 : index"]
    for n, d in enumerate(group):
        lines.append(f"%{name}_n{n + 1} = arith.muli %{name}_n{n}, %size{d} : index")
    lines.append(f"%{name} = memref.alloc(%{name}_n{len(group)}) : memref<?xindex>")
    position, offset = "%c0", start
    for n, d in enumerate(group):
        i = f"%{name}_i{n}"
        lines += [
            f"scf.for {i} = %c0 to %size{d} step %c1 {{",
            f"{i}m = arith.muli {position}, %size{d} : index",
            f"{i}p = arith.addi {i}m, {i} : index",
            f"{i}o = arith.muli {i}, %{letter}_by{d} : index",
            f"{i}f = arith.addi {offset}, {i}o : index",
        ]
        position, offset = f"{i}p", f"{i}f"
    lines.append(f"memref.store {offset}, %{name}[{position}] : memref<?xindex>")
    return lines + ["}"] * len(group)


def _task_text(kernel: Kernel) -> str:
    """The task of the thread pool: rebuild the memrefs from (pointer, length) pairs and run a range of the kernel."""
    struct = "!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>"
    lines = ["%zero = llvm.mlir.constant(0 : i64) : i64", "%one = llvm.mlir.constant(1 : i64) : i64"]
    names, types = [], []
    for n, name in enumerate(CONTRACT_ARGUMENTS):
        ty = f"memref<?x{'f32' if n < 3 else 'index'}>"
        lines += [
            f"%pa{n} = llvm.getelementptr %context[{2 * n}] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"%p{n} = llvm.load %pa{n} : !llvm.ptr -> !llvm.ptr",
            f"%na{n} = llvm.getelementptr %context[{2 * n + 1}] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"%n{n} = llvm.load %na{n} : !llvm.ptr -> i64",
            f"%s{n}_0 = llvm.mlir.undef : {struct}",
            f"%s{n}_1 = llvm.insertvalue %p{n}, %s{n}_0[0] : {struct}",
            f"%s{n}_2 = llvm.insertvalue %p{n}, %s{n}_1[1] : {struct}",
            f"%s{n}_3 = llvm.insertvalue %zero, %s{n}_2[2] : {struct}",
            f"%s{n}_4 = llvm.insertvalue %n{n}, %s{n}_3[3, 0] : {struct}",
            f"%s{n}_5 = llvm.insertvalue %one, %s{n}_4[4, 0] : {struct}",
            f"%{name} = builtin.unrealized_conversion_cast %s{n}_5 : {struct} to {ty}",
        ]
        names.append(f"%{name}")
        types.append(ty)
    lines += [
        "%first = builtin.unrealized_conversion_cast %begin : i64 to index",
        "%last = builtin.unrealized_conversion_cast %end : i64 to index",
        f"func.call @{kernel.name}({', '.join(names)}, %first, %last) : ({', '.join(types)}, index, index) -> ()",
        "llvm.return",
    ]
    text = "\n".join("    " + line for line in lines)
    return f"\nllvm.func @{kernel.name}_task(%context: !llvm.ptr, %begin: i64, %end: i64) {{\n{text}\n}}"
