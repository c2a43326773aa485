"""@main as Python: memory as tensors of torch, sizes as integers, every linalg.generic as the launch of a kernel.

Numbers of the host are Python's: integers wrap where MLIR's do. What is read out of memory on the host makes it wait
for the device; the memory of sizes, which only the host uses, is a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.gpu.kernel_text import Argument, affine_text, layer_of
from numc.passes.gpu.loop_kernels import Kernel, loop_kernel
from numc.passes.gpu.scalar_nests import is_nest, nest_kernel
from numc.passes.gpu.tile_operations import DTYPES, UnknownError
from numc.passes.gpu.tiles.tile_contractions import CONTRACTION

TENSOR_TYPES = {element: name for element, name in DTYPES.items() if element != "index"} | {"i1": "bool"}
"""Element types of memory, and torch's names of them."""

_INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.shli": "<<",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
    "arith.shrsi": ">>",
    "arith.floordivsi": "//",
    "arith.divui": "//",
    "arith.remui": "%",
}
_CALLS = {
    "arith.divsi": "quotient",
    "arith.remsi": "remainder",
    "arith.ceildivsi": "ceiling",
    "arith.ceildivui": "ceiling",
    "arith.maxsi": "max",
    "arith.minsi": "min",
    "arith.maxui": "max",
    "arith.minui": "min",
}
_COMPARED = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_LONG = 48  # lines of a kernel
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui")


@dataclass
class Written:
    """The text of a program: kernels by their text, the host's lines, constants, and what failures say.

    unknown: what has no kernel, each with the layer.
    """

    kernels: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    messages: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)


class Host:
    """Writes a function of the host."""

    def __init__(self, globals_: Mapping[str, ir.Operation]) -> None:
        """globals_: the constants of the module."""
        self.written = Written()
        self.names: dict[ir.Value, str] = {}
        self._globals = globals_
        self._globals_seen: dict[str, str] = {}
        self._lists: set[ir.Value] = set()
        self._depth = 1

    def function(self, main: ir.Operation) -> Written:
        """Write @main."""
        block = main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            self.names[argument] = f"a{number}"
        self._find_lists(main)
        self._block(block)
        return self.written

    # Text

    def line(self, text: str) -> None:
        """Append a line."""
        self.written.lines.append("    " * self._depth + text)

    def let(self, value: ir.Value, text: str) -> str:
        """Append ``name = text`` for a value."""
        name = self.names[value] = f"v{len(self.names)}"
        self.line(f"{name} = {text}")
        return name

    def launch(self, kernel: Kernel, where: str) -> None:
        """Append the launch of a kernel."""
        name = self._kernel(kernel.text)
        told = [self.told(argument) for argument in kernel.arguments]
        if kernel.checks:
            told.insert(0, "run.failed")
        total = " * ".join(str(self.size(s)) for s in kernel.total if s != 1) or "1"
        # Of long sequences, as of elementary functions, registers hold one element of a thread.
        block = ", block=128" if kernel.text.count("\n") > _LONG else ""
        self.line(f"run.launch({name}, ({', '.join(told)},), {total}{block})  # {where}")

    def _kernel(self, text: str) -> str:
        """The name of a kernel, which is written once."""
        return self.written.kernels.setdefault(text, f"k{len(self.written.kernels)}")

    def _contract(self, op: ir.Operation) -> None:
        """Append the launches of a contraction."""
        record, operands = facts.get(op, CONTRACTION), list(op.operands)

        def size(known: int | list[int]) -> int | tuple[ir.Value, int]:
            return known if isinstance(known, int) else (operands[known[0]], known[1])

        def kernel(name: str) -> str:
            told = [
                self.told(Argument(what, n if what == "table" else operands[n], d))
                for what, n, d in record["arguments"][name]
            ]
            return f"({self._kernel(record['kernels'][name])}, {_tuple(told)})"

        sizes = [
            " * ".join(self.size(size(n)) for n in record["sizes"][name] if n != 1) or "1"
            for name in ("batch", "rows", "lanes", "k")
        ]
        run = record["run"]
        length = f"run_length({sizes[3]}, {run[0]}, {run[1]})" if isinstance(run, list) else str(run)
        self.line(f"# {layer_of(op)}: {record['operator']}")
        if record["random"] is not None:
            self.line(f"random = run.stream({record['random']})")
        with self._inside("run.contract("):
            for name, about in zip(("rows", "lanes"), record["operands"], strict=True):
                told = {"kernel": kernel(name), "shared": about["shared"], "parts": about["parts"]}
                if "planes" in about:
                    told |= {"groups": f"Groups({self._groups(kernel(f'{name}_scales'), about, operands)})"}
                self.line(f"{name}=Operand({_named(told)}),")
            self.line(f"product={kernel('product')},")
            self.line(f"sizes={_tuple(sizes)},")
            known = {name: record[name] for name in ("block", "deep")}
            if record["draws"]:
                known |= {"random": "random"}
            known |= {"tile": _tuple(map(str, record["tile"])), "run": length}
            self.line(f"{_named(known)},")
        self.line(")")

    def _groups(self, kernel: str, about: Mapping[str, object], operands: Sequence[ir.Value]) -> str:
        """The text of what a run needs to know of an operand's groups."""
        told: dict[str, object] = {"kernel": kernel, "steps": about["group"], "planes": about["planes"]}
        if "largest" in about:
            largest, finite = about["largest"], about["finite"]
            number = int(str(largest))
            told["largest"] = (
                f"run.number({number})"
                if about["known"]
                else f"largest_magnitude({self.of(operands[number])}, finite={finite})"
            )
        if "width" in about:
            told["width"] = f"run.width({about['width']})"
        if about["draws"]:
            told["random"] = "random"
        return _named(told)

    def told(self, argument: Argument) -> str:
        """The text of what a kernel is values."""
        if isinstance(argument.value, str):
            return self._known(argument.value)
        name = self.of(argument.value)
        if argument.what == "stride":
            return f"{name}.stride({argument.dimension})"
        if argument.what == "number" and str(argument.value.type) == "f64":
            return f"float64_bits({name})"
        return f"{name}.shape[{argument.dimension}]" if argument.what == "size" else name

    def size(self, size: int | tuple[ir.Value, int]) -> str:
        """The text of a size: a number, or that of a dimension of a memref."""
        return str(size) if isinstance(size, int) else f"{self.of(size[0])}.shape[{size[1]}]"

    def of(self, value: ir.Value) -> str:
        """The name of a value."""
        return self.names[value]

    def message(self, text: str) -> int:
        """The number of a failure, by its words."""
        return self.written.messages.setdefault(text, len(self.written.messages) + 1)

    # Operations

    def _block(self, block: ir.Block) -> list[str]:
        """Append a block; returns what its last operation gives."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "func.return", "scf.condition"):
                values = [self.of(v) for v in op.operands]
                if op.name == "func.return":
                    self.line(f"return ({', '.join(values)}{',' if values else ''})")
                return values
            try:
                self._operation(op)
            except UnknownError as unknown:
                self.written.unknown[f"{layer_of(op)}: {unknown}"] = None
                for result in op.results:
                    self.names.setdefault(result, "None")
        return []

    def _operation(self, op: ir.Operation) -> None:
        if op.name == "linalg.generic":
            self.launch(loop_kernel(op, self.message), layer_of(op))
        elif op.name == "arith.constant":
            self.names[op.results[0]] = _constant(op.attributes["value"])
        elif op.name.startswith("arith."):
            self.let(op.results[0], self._number(op))
        elif op.name.startswith("memref."):
            self._memory(op)
        elif op.name == "affine.apply":
            map_ = ir.AffineMapAttr(op.attributes["map"]).value
            names = [self.of(v) for v in op.operands]
            text = affine_text(map_.results[0], names[: map_.n_dims], names[map_.n_dims :])
            self.let(op.results[0], text)
        elif op.name == "math.ctlz":
            bits = str(op.results[0].type)[1:]
            self.let(op.results[0], f"leading_zeros({self.of(op.operands[0])}, {bits})")
        elif op.name == "cf.assert":
            message = ir.StringAttr(op.attributes["msg"]).value
            self.line(f"check({self.of(op.operands[0])}, {message!r})")
        elif op.name == "scf.execute_region":
            values = self._block(op.regions[0].blocks[0])
            self.names |= dict(zip(op.results, values, strict=True))
        elif op.name == "scf.if":
            self._choice(op)
        elif is_nest(op) and not self._reads_lists(op):
            self.launch(nest_kernel(op, self.message), layer_of(op))
        elif op.name == "scf.for":
            self._loop(op)
        elif op.name == "scf.while":
            self._while(op)
        elif op.name == "func.call":
            if CONTRACTION in op.attributes:
                self._contract(op)
                return
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            if callee not in ("numc_stream", "numc_width_of"):
                raise UnknownError(f"call of {callee}")
            method = "stream" if callee == "numc_stream" else "width"
            self.let(op.results[0], f"run.{method}({self.of(op.operands[0])})")
        else:
            raise UnknownError(op.name)

    def _number(self, op: ir.Operation) -> str:
        x = [self.of(v) for v in op.operands]
        dtype = str(op.results[0].type)
        if op.name in _SAME:
            return x[0] if op.name != "arith.extsi" or str(op.operands[0].type) != "i1" else f"-int({x[0]})"
        if op.name == "arith.cmpi":
            return f"{x[0]} {_COMPARED[int(ir.IntegerAttr(op.attributes['predicate']).value)]} {x[1]}"
        if op.name == "arith.select":
            return f"{x[1]} if {x[0]} else {x[2]}"
        if op.name in _CALLS:
            return f"{_CALLS[op.name]}({', '.join(x)})"
        if dtype in ("f32", "f64") and (text := _float_text(op, x)):
            return f"float32({text})" if dtype == "f32" else text
        if op.name == "arith.cmpf":
            return f"compared({int(ir.IntegerAttr(op.attributes['predicate']).value)}, {x[0]}, {x[1]})"
        if op.name == "arith.trunci":
            return f"wrapped({x[0]}, {dtype[1:]})"
        if op.name in _INFIX:
            text = f"{x[0]} {_INFIX[op.name]} {x[1]}"
            wraps = (
                dtype.startswith("i")
                and dtype[1:].isdigit()
                and dtype != "i1"
                and _INFIX[op.name] in ("+", "-", "*", "<<")
            )
            return f"wrapped({text}, {dtype[1:]})" if wraps else text
        raise UnknownError(f"{op.name} on the host")

    def _memory(self, op: ir.Operation) -> None:
        name = op.name.removeprefix("memref.")
        x = [self.of(v) for v in op.operands] if name != "get_global" else []
        if name in ("alloc", "alloca"):
            memref = ir.MemRefType(op.results[0].type)
            if op.results[0] in self._lists:
                self.let(op.results[0], f"[0] * {memref.shape[0]}")
                return
            self.let(op.results[0], f"run.empty({_tuple(_filled(memref.shape, x))}, {self._element(memref)})")
        elif name == "dealloc":
            if x[0].startswith("v"):  # neither an argument nor a constant
                self.line(f"del {x[0]}")
        elif name == "get_global":
            self._global(op)
        elif name == "dim":
            is_list = op.operands[0] in self._lists
            self.let(op.results[0], f"len({x[0]})" if is_list else f"{x[0]}.shape[{x[1]}]")
        elif name == "extract_aligned_pointer_as_index":
            self.let(op.results[0], f"{x[0]}.data_ptr()")
        elif name == "load":
            where = f"{x[0]}[{', '.join(x[1:])}]" if x[1:] else x[0]
            self.let(op.results[0], where if op.operands[0] in self._lists else f"{where}.item()")
        elif name == "store":
            self.line(f"{x[1]}[{', '.join(x[2:]) or '()'}] = {x[0]}")
        elif name == "copy":
            self.line(f"{x[1]}.copy_({x[0]})")
        elif name == "cast":
            self.names[op.results[0]] = x[0]
        elif name == "reshape":
            self.let(op.results[0], f"{x[0]}.view(tuple({x[1]}))")
        elif name in ("expand_shape", "collapse_shape"):
            self.let(op.results[0], f"{x[0]}.view({self._shape(op, x)})")
        elif name == "extract_strided_metadata":
            self._metadata(op, x[0])
        elif name == "subview":
            self.let(op.results[0], self._subview(op, x))
        else:
            raise UnknownError(op.name)

    def _metadata(self, op: ir.Operation, memory: str) -> None:
        """Where a buffer is, and its sizes and strides: what frees it asks for them."""
        base, offset, *rest = op.results
        rank = len(rest) // 2
        self.names[base] = memory
        self.names[offset] = f"{memory}.storage_offset()"
        self.names |= {r: f"{memory}.shape[{n}]" for n, r in enumerate(rest[:rank])}
        self.names |= {r: f"{memory}.stride({n})" for n, r in enumerate(rest[rank:])}

    def _element(self, memref: ir.MemRefType) -> str:
        element = str(memref.element_type)
        if element not in TENSOR_TYPES:
            raise UnknownError(f"memory of {element}")
        return f"torch.{TENSOR_TYPES[element]}"

    def _global(self, op: ir.Operation) -> None:
        self._element(ir.MemRefType(op.results[0].type))
        self.names[op.results[0]] = self._known(ir.FlatSymbolRefAttr(op.attributes["name"]).value)

    def _known(self, symbol: str) -> str:
        """The text of a constant of the module: of a memref, or a table of words."""
        if symbol not in self._globals_seen:
            made = self._globals[symbol]
            value = ir.DenseElementsAttr(made.attributes["initial_value" if made.name == "memref.global" else "value"])
            shape = ir.ShapedType(value.type).shape
            array = np.array(value)
            array = np.full(shape, array.reshape(-1)[0]) if value.is_splat else array.reshape(shape)
            self._globals_seen[symbol] = f"run.constants[{len(self.written.constants)}]"
            self.written.constants.append(array)
        return self._globals_seen[symbol]

    def _shape(self, op: ir.Operation, x: Sequence[str]) -> str:
        shape = list(ir.MemRefType(op.results[0].type).shape)
        if op.name == "memref.expand_shape":
            return _tuple(_filled(shape, x[1:]))
        groups = [[int(n) for n in group] for group in ir.ArrayAttr(op.attributes["reassociation"])]
        sizes = [
            str(size) if size >= 0 else " * ".join(f"{x[0]}.shape[{n}]" for n in group)
            for size, group in zip(shape, groups, strict=True)
        ]
        return _tuple(sizes)

    def _subview(self, op: ir.Operation, x: Sequence[str]) -> str:
        values = iter(x[1:])
        offsets, sizes, steps = (
            [str(n) if n != _DYNAMIC else next(values) for n in ir.DenseI64ArrayAttr(op.attributes[f"static_{what}"])]
            for what in ("offsets", "sizes", "strides")
        )
        kept, left = [], list(ir.MemRefType(op.results[0].type).shape)
        for n, size in enumerate(sizes):
            spare = len(sizes) - n > len(left)
            if left and (not spare or size != "1") and (str(left[0]) == size or left[0] < 0):
                kept.append(n)
                left.pop(0)
        return f"subview({x[0]}, {_tuple(offsets)}, {_tuple(sizes)}, {_tuple(steps)}, {_tuple(map(str, kept))})"

    # Control flow

    @contextmanager
    def _inside(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        at = len(self.written.lines)
        yield
        if len(self.written.lines) == at:
            self.line("pass")
        self._depth -= 1

    def _choice(self, op: ir.Operation) -> None:
        results = [self.names.setdefault(r, f"v{len(self.names)}") for r in op.results]
        for head, region in zip((f"if {self.of(op.operands[0])}:", "else:"), op.regions, strict=True):
            if not len(region.blocks):
                continue
            with self._inside(head):
                for name, values in zip(results, self._block(region.blocks[0]), strict=True):
                    self.line(f"{name} = {values}")

    def _loop(self, op: ir.Operation) -> None:
        start, end, step, *initial = (self.of(v) for v in op.operands)
        block = op.regions[0].blocks[0]
        index, *carried = block.arguments
        for argument, value in zip(carried, initial, strict=True):
            self.let(argument, value)
        self.names[index] = f"v{len(self.names)}"
        with self._inside(f"for {self.names[index]} in range({start}, {end}, {step}):"):
            values = self._block(block)
            if values:
                self.line(f"{', '.join(self.of(c) for c in carried)} = {', '.join(values)}")
        self.names |= {r: self.of(c) for r, c in zip(op.results, carried, strict=True)}

    def _while(self, op: ir.Operation) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        for argument, value in zip(before.arguments, op.operands, strict=True):
            self.let(argument, self.of(value))
        with self._inside("while True:"):
            going, *forwarded = self._block(before)
            for result, argument, text in zip(op.results, after.arguments, forwarded, strict=True):
                self.names[argument] = self.let(result, text)
            self.line(f"if not {going}:")
            self.line("    break")
            values = self._block(after)
            if values:
                self.line(f"{', '.join(self.of(a) for a in before.arguments)} = {', '.join(values)}")

    def _reads_lists(self, op: ir.Operation) -> bool:
        """Whether a loop loads or stores memory of the host."""
        return any(v in self._lists for inner in linalg.operations(op) for v in inner.operands)

    def _find_lists(self, main: ir.Operation) -> None:
        """The memory that only the host loads and stores: sizes, of which reshapes read, and what buffers are freed."""
        for op in linalg.operations(main, "memref.alloc"):
            memref, result = ir.MemRefType(op.results[0].type), op.results[0]
            if (
                memref.rank != 1
                or memref.is_dynamic_dim(0)
                or str(memref.element_type) not in ("i64", "i32", "index", "i1")
            ):
                continue
            views = [result, *(use.owner.results[0] for use in result.uses if use.owner.name == "memref.cast")]
            if all(_is_of_host(use.owner.operation, view) for view in views for use in view.uses):
                self._lists.update(views)


def _is_of_host(user: ir.Operation, memory: ir.Value) -> bool:
    if user.name in ("memref.load", "memref.store"):
        inside = user
        while inside.parent is not None and inside.parent.name != "func.func":
            inside = inside.parent.operation
            if inside.name == "linalg.generic":
                return False
        return True
    return user.name in ("memref.cast", "memref.dealloc", "memref.dim") or (
        user.name == "memref.reshape" and user.operands[1] == memory
    )


def _float_text(op: ir.Operation, x: Sequence[str]) -> str:
    """An operation on floats in binary64, which rounds a result in binary32 once more to the right one; or nothing."""
    signs = {"arith.addf": "+", "arith.subf": "-", "arith.mulf": "*"}
    if op.name in signs:
        return f"{x[0]} {signs[op.name]} {x[1]}"
    if op.name == "arith.negf":
        return f"-{x[0]}"
    if op.name == "arith.divf":
        return f"divided({x[0]}, {x[1]})"
    if op.name in ("arith.sitofp", "arith.uitofp", "arith.extf", "arith.truncf"):
        return f"float({x[0]})"
    if op.name in ("arith.maximumf", "arith.minimumf"):
        return f"{op.name.removeprefix('arith.').removesuffix('f')}({x[0]}, {x[1]})"
    return ""


def _constant(value: ir.Attribute) -> str:
    if isinstance(value, ir.FloatAttr):
        return f"float({str(value.value)!r})"
    if isinstance(value, (ir.IntegerAttr, ir.BoolAttr)):
        return str(value.value)
    raise UnknownError(f"constant {value}")


def _named(told: Mapping[str, object]) -> str:
    """Arguments of a call, by name."""
    return ", ".join(f"{name}={value}" for name, value in told.items())


def _filled(shape: Sequence[int], values: Sequence[str]) -> list[str]:
    """Sizes, those that are not known taken from `values`, in order."""
    rest = iter(values)
    return [str(size) if size >= 0 else next(rest) for size in shape]


def _tuple(texts: Sequence[str] | Iterator[str]) -> str:
    listed = list(texts)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


_DYNAMIC = ir.ShapedType.get_dynamic_size()
