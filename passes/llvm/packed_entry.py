"""packed-entry: main becomes ``numc_entry(void** args)``, whatever the number of its arguments.

args[0] points to where the result descriptors go (when there are results), the rest to one memref descriptor per
argument. Each descriptor is loaded where main begins: passing hundreds of expanded weights through a call costs LLVM
seconds.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg

ENTRY = "numc_entry"


def packed_entry(module: ir.Operation) -> None:
    """Make @main a function of one array of pointers to what its arguments describe."""
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        source = ir.Module.parse(_text(list(kind.inputs), list(kind.results)))
        module.regions[0].blocks[0].append(source.body.operations[0].operation.clone())
        entry = list(module.regions[0].blocks[0].operations)[-1].operation
        old, new = main.regions[0].blocks[0], entry.regions[0].blocks[0]
        ops = list(new.operations)
        count, first_store = len(kind.inputs), next(n for n, op in enumerate(ops) if op.operation.name == "func.call")
        loaded = [op for op in ops[:first_store] if op.operation.name == "builtin.unrealized_conversion_cast"]
        for argument, cast in zip(old.arguments, loaded, strict=True):
            argument.replace_all_uses_with(cast.operation.results[0])
        assert len(loaded) == count
        marker = ops[first_store].operation
        body = list(old.operations)
        returned = list(body[-1].operation.operands)
        for op in body[:-1]:
            op.operation.move_before(marker)
        linalg.replace(marker, returned)
        facts.keep_arguments(main, entry)
        main.erase()


def _struct(kind: ir.Type) -> str:
    rank = ir.MemRefType(kind).rank
    arrays = f", array<{rank} x i64>, array<{rank} x i64>" if rank else ""
    return f"!llvm.struct<(ptr, ptr, i64{arrays})>"


def _text(inputs: list[ir.Type], results: list[ir.Type]) -> str:
    """The entry with a placeholder call where the body of main goes."""
    lines = []
    skip = 1 if results else 0
    for n, kind in enumerate(inputs):
        lines += [
            f"%slot{n} = llvm.getelementptr %args[{n + skip}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr",
            f"%address{n} = llvm.load %slot{n} : !llvm.ptr -> !llvm.ptr",
            f"%descriptor{n} = llvm.load %address{n} : !llvm.ptr -> {_struct(kind)}",
            f"%argument{n} = builtin.unrealized_conversion_cast %descriptor{n} : {_struct(kind)} to {kind}",
        ]
    types = ", ".join(map(str, results))
    names = ", ".join(f"%result{n}" for n in range(len(results)))
    lines.append(f"{names + ' = ' if results else ''}func.call @main_body() : () -> ({types})")
    if results:
        lines.append("%results = llvm.load %args : !llvm.ptr -> !llvm.ptr")
    whole = f"!llvm.struct<({', '.join(_struct(kind).removeprefix('!llvm.') for kind in results)})>"
    for n, kind in enumerate(results):
        lines += [
            f"%value{n} = builtin.unrealized_conversion_cast %result{n} : {kind} to {_struct(kind)}",
            f"%place{n} = llvm.getelementptr %results[0, {n}] : (!llvm.ptr) -> !llvm.ptr, {whole}",
            f"llvm.store %value{n}, %place{n} : {_struct(kind)}, !llvm.ptr",
        ]
    body = "\n".join("  " + line for line in lines)
    placeholder = f"func.func private @main_body() -> ({types})"
    return f"func.func @{ENTRY}(%args: !llvm.ptr) {{\n{body}\n  return\n}}\n{placeholder}"
