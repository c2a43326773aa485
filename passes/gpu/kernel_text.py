"""The text of one kernel while it is written: its lines, the names of values, its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.gpu.tile_operations import UnknownError, cast, constant, full, text_of
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: a memref's memory, one of its strides or sizes, a number of the host, or a table.

    what: ``memory``, ``stride``, ``size``, ``number`` or ``table``. value: of a table its symbol, the name of an
    ``llvm.mlir.global`` of i32 words. dimension: of a stride or a size.
    """

    what: str
    value: ir.Value | str
    dimension: int = 0


@dataclass
class Writing:
    """A kernel of ``tl`` or ``gl`` while it is written. mask: of the elements that a tile has, where it has not all."""

    language: str
    mask: str = ""
    lines: list[str] = field(default_factory=list)
    arguments: dict[Argument, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    depth: int = 1
    count: int = 0

    def line(self, text: str) -> None:
        """Append a line."""
        self.lines.append("    " * self.depth + text)

    def let(self, text: str, stem: str = "t") -> str:
        """Append ``name = text``; returns the name, which is new."""
        name = f"{stem}{self.count}"
        self.count += 1
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Lines of the block that `head` begins."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fixed(self, text: str) -> str:
        """The name of a constant, which stands at the top of the kernel."""
        return self.constants.setdefault(text, f"c{len(self.constants)}")

    def kernel(self, arguments: Sequence[str], numbers: Sequence[str], *, shape: str = "[]") -> str:
        """The kernel, named ``{name}``, of these arguments, and of `numbers` that are constant when it is compiled.

        shape: of the constants at its top.
        """
        decorator = {"tl": "triton.jit", "gl": "gluon.jit"}[self.language]
        told = [*arguments, *(f"{number}: {self.language}.constexpr" for number in numbers)]
        fixed = [(name, text.replace("tl.full([],", f"tl.full({shape},")) for text, name in self.constants.items()]
        constants = [f"    {name} = {text}" for name, text in fixed]
        return "\n".join([f"@{decorator}", f"def {{name}}({', '.join(told)}):", *constants, *self.lines])

    def argument(self, what: str, value: ir.Value, dimension: int = 0) -> str:
        """The name of an argument of the kernel, which it now has."""
        key = Argument(what, value, dimension)
        stem = {"memory": "m", "stride": "s", "size": "n", "number": "x"}[what]
        return self.arguments.setdefault(key, f"{stem}{len(self.arguments)}")

    def table(self, symbol: str, definition: str) -> str:
        """The name of a table, an argument of the kernel; `definition`: its operation as text, for the module."""
        self.tables[symbol] = definition
        return self.arguments.setdefault(Argument("table", symbol), symbol)

    def stride(self, value: ir.Value, dimension: int) -> str | int:
        """The stride of a memref along a dimension: the number, where it is known."""
        memref = ir.MemRefType(value.type)
        stride = memref.get_strides_and_offset()[0][dimension]
        return self.argument("stride", value, dimension) if stride == _DYNAMIC else int(stride)

    def size(self, value: ir.Value, dimension: int) -> str | int:
        """The size of a memref along a dimension: the number, where it is known."""
        memref = ir.MemRefType(value.type)
        if memref.is_dynamic_dim(dimension):
            return self.argument("size", value, dimension)
        return int(memref.get_dim_size(dimension))

    def place(self, value: ir.Value, indices: Sequence[str]) -> str:
        """Where an element of a memref is, in elements from its first one."""
        terms = []
        for dimension, index in enumerate(indices):
            stride = self.stride(value, dimension)
            if index == "0" or stride == 0:
                continue
            terms.append(f"({index})" if stride == 1 else f"({index}) * {stride}")
        return " + ".join(terms) or "0"

    def known(self, value: ir.Value, names: Mapping[ir.Value, str]) -> str:
        """The text of a value that a body uses: one of `names`, a constant, or a number that the host computes."""
        if value in names:
            return names[value]
        made = linalg.maker(value)
        if made is not None and made.name == "arith.constant":
            return self.fixed(constant(made.attributes["value"], self.language))
        if isinstance(value.type, ir.MemRefType):
            return self.argument("memory", value)
        return self._number(value)

    def _number(self, value: ir.Value) -> str:
        """A number of the host in its own type: Triton takes integers in 32 bits where they fit, and floats as f32."""
        dtype = str(value.type)
        if dtype in ("i64", "i32", "index"):
            return self.fixed(f"{full('0', dtype, self.language)} + {self.argument('number', value)}")
        if dtype == "f64":  # comes as its bits: Triton takes floats as f32
            bits = f"({full('0', 'i64', self.language)} + {self.argument('number', value)})"
            return self.fixed(cast(bits, dtype, self.language, bits=True))
        if dtype not in ("f32", "i1"):
            raise UnknownError(f"a number of the host in {dtype}")
        return self.argument("number", value)

    def arithmetic(self, op: ir.Operation, names: dict[ir.Value, str]) -> None:
        """Append an operation of arith or math. Raises UnknownError for others."""
        if len(op.results) != 1:
            raise UnknownError(op.name)
        if op.name == "arith.constant":
            names[op.results[0]] = self.fixed(constant(op.attributes["value"], self.language))
            return
        if op.name in _OF_TABLES:
            self._table(op, names)
            return
        operands = [self.known(v, names) for v in op.operands]
        names[op.results[0]] = self.let(text_of(op, operands, self.language, self.let), "v")

    def _table(self, op: ir.Operation, names: dict[ir.Value, str]) -> None:
        """Append an operation on a table of words: its address, that of a word, or that word."""
        (result,) = op.results
        if op.name == "llvm.mlir.addressof":
            symbol = ir.FlatSymbolRefAttr(op.attributes["global_name"]).value
            names[result] = self.arguments.setdefault(Argument("table", symbol), symbol)
        elif op.name == "llvm.getelementptr" and len(op.operands) == 2:
            base, index = (self.known(v, names) for v in op.operands)
            names[result] = f"{base} + {index}"
        elif op.name == "llvm.load" and str(result.type) == "i32":
            mask = f", mask={self.mask}, other=0" if self.mask else ""
            names[result] = self.let(f"{self.language}.load({names[op.operands[0]]}{mask})", "v")
        else:
            raise UnknownError(op.name)


def layer_of(op: ir.Operation) -> str:
    """The name of the layer that an operation is of, or its own."""
    quoted = str(op.location).split('"')
    return quoted[1] if len(quoted) > 1 else op.name


def no_kernel(unknown: Iterable[str]) -> NumcError:
    """The error of a module with operations that have no kernel."""
    return NumcError(f"target 'cuda' has no kernel for {'; '.join(unknown)}: compile for another target")


_OF_TABLES = ("llvm.mlir.addressof", "llvm.getelementptr", "llvm.load")
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def affine_text(expr: ir.AffineExpr, dims: Sequence[str], symbols: Sequence[str] = ()) -> str:
    """An affine expression of numbers that are not negative, as text. Raises UnknownError for symbols without names."""
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr) and expr.position < len(symbols):
        return symbols[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return str(expr.value)
    for expression, sign in _AFFINE:
        if isinstance(expr, expression):
            left, right = (affine_text(side, dims, symbols) for side in (expr.lhs, expr.rhs))
            if sign == "+" and "0" in (left, right):
                return right if left == "0" else left
            return f"({left} {sign} {right})"
    raise UnknownError(f"index {expr}")


def uses(expr: ir.AffineExpr, dim: int) -> bool:
    """Whether an affine expression depends on a dimension."""
    if isinstance(expr, ir.AffineDimExpr):
        return bool(expr.position == dim)
    return isinstance(expr, ir.AffineBinaryExpr) and (uses(expr.lhs, dim) or uses(expr.rhs, dim))


_AFFINE = (
    (ir.AffineAddExpr, "+"),
    (ir.AffineMulExpr, "*"),
    (ir.AffineModExpr, "%"),
    (ir.AffineFloorDivExpr, "//"),
)
