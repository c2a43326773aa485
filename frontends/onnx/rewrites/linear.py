"""Products of matrices."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import END, Node


def einsum(node: Node) -> None:
    """Einsum of scalars: torch-mlir runs out of memory. A result that is left out: torch-mlir takes it for a scalar.

    Nor does torch-mlir do an ellipsis that stands for no dimensions.
    """
    original = node.attribute("equation", "a")
    equation = original.replace("...", "") if _has_empty_ellipses(node, original) else original
    if any(character.isalpha() or character == "." for character in equation):
        if "->" not in equation:
            letters = sorted(c for c in set(equation) if c.isalpha() and equation.count(c) == 1)
            equation = f"{equation}->{'...' if '...' in equation else ''}{''.join(letters)}"
        if equation != original:
            node.copy(equation=equation)
        return
    product, *others = node.proto.input
    for other in others:
        product = node.op("Mul", product, other)
    node.op("Identity", product, to=node.output(0))


def _has_empty_ellipses(node: Node, equation: str) -> bool:
    """Whether the letters beside each ellipsis are all dimensions of its operand."""
    terms = equation.split("->")[0].split(",")
    counts = [(node.rank(name), sum(map(str.isalpha, term)))
              for name, term in zip(node.proto.input, terms, strict=False) if "..." in term]  # fmt: skip
    return bool(counts) and all(rank == letters for rank, letters in counts)


def letters_of(node: Node) -> list[list[str]]:
    """The letters of an Einsum for the dimensions of each operand; those of an ellipsis are ``...1`` for the last."""
    letters = []
    terms = node.attribute("equation", "").replace(" ", "").split("->")[0].split(",")
    for name, term in zip(node.proto.input, terms, strict=False):
        before, *after = term.split("...")
        count = node.rank(name) - len(term.replace("...", "")) if after else 0
        letters.append([*before, *(f"...{n}" for n in range(count, 0, -1)), *"".join(after)])
    return letters


def gemm(node: Node) -> None:
    """Gemm: torch-mlir ignores alpha where C is left out, and takes no empty name for it."""
    alpha = node.attribute("alpha", 1.0)
    if node.input(2) or not node.is_float(node.input(0)) or (alpha == 1 and len(node.proto.input) == 2):
        return
    product = node.copy(alpha=None, beta=None)
    del product.input[2:]
    if alpha != 1:
        product.output[0] = node.fresh()
        node.op("Mul", product.output[0], node.like(alpha, node.input(0)), to=node.output(0))


def mat_mul(node: Node) -> None:
    """MatMul of a vector and stacks of matrices, which torch-mlir does not do, and of integers (_integer_stacks)."""
    a, b = node.input(0), node.input(1)
    ranks = node.known_shape(a), node.known_shape(b)
    if None in ranks or node.rank(a) + node.rank(b) < 4:
        return
    if min(node.rank(a), node.rank(b)) > 1:
        _integer_stacks(node)
        return
    if node.rank(a) == 1:
        product = node.op("MatMul", node.op("Unsqueeze", a, node.ints(0)), b)
        node.op("Squeeze", product, node.ints(-2), to=node.output(0))
    else:
        product = node.op("MatMul", a, node.op("Unsqueeze", b, node.ints(1)))
        node.op("Squeeze", product, node.ints(-1), to=node.output(0))


def _integer_stacks(node: Node) -> None:
    """Write stacks of integers along several free dimensions as stacks along one: torch-mlir crashes on others."""
    operands = [node.input(0), node.input(1)]
    ranks = [node.rank(name) for name in operands]
    stacks: list[list[int | None]]
    stacks = [[*[1] * (max(ranks) - rank), *node.shape(name)[:-2]] for rank, name in zip(ranks, operands, strict=True)]
    if node.is_float(operands[0]) or sum(None in sizes for sizes in zip(*stacks, strict=True)) < 2:
        return
    rows, columns = node.size(operands[0], -2), node.size(operands[1], -1)
    sizes: list[int | str] = []
    for axis, pair in enumerate(zip(*stacks, strict=True)):
        fixed = [size for size in pair if size is not None]
        if len(fixed) == 2 or max(fixed, default=1) > 1:
            sizes.append(max(fixed))
        else:  # the other is 1, or a size that has to be the same
            n = pair.index(None)
            sizes.append(node.size(operands[n], axis - max(ranks) + ranks[n]))
    flat = []
    for name in operands:
        last = [node.size(name, -2), node.size(name, -1)]
        flat.append(node.reshape(node.op("Expand", name, node.list_of([*sizes, *last])), [-1, *last]))
    node.reshape(node.op("MatMul", *flat), [*sizes, rows, columns], to=node.output(0))


_BY_MINORS = 3
"""The largest number of rows of a matrix whose determinant is a sum of products."""


def _eliminated(node: Node, rows: int) -> str:
    """Emit determinants by elimination; in each column the largest magnitude of those below is the pivot."""
    op, source = node.op, node.input(0)
    value, total = source, ""
    for n in range(rows - 1):
        last = node.ints(-1)
        head = op("Squeeze", node.cut(value, -1, 0, 1), last)
        pivot = op("ArgMax", op("Abs", head), axis=-1, keepdims=1)
        top = op("Gather", value, node.constant(0, np.int64), axis=-2)
        # The pivot's row goes up, and the first one to its place, which the sign tells.
        numbers = node.constant(np.arange(rows - n), np.int64)
        chosen = op("Unsqueeze", op("Equal", numbers, pivot), last)
        zero = node.like(0, source)
        best = op("ReduceSum", op("Where", chosen, value, zero), node.ints(-2), keepdims=0)
        moved = op("Where", chosen, op("Unsqueeze", top, node.ints(-2)), value)
        first = op("Gather", best, node.constant(0, np.int64), axis=-1)
        kept = op("Equal", op("Squeeze", pivot, last), node.constant(0, np.int64))
        factor = op("Where", kept, first, op("Neg", first))
        total = op("Mul", total, factor) if total else factor
        below, rest = node.cut(moved, -2, 1, END), node.cut(op("Unsqueeze", best, node.ints(-2)), -1, 1, END)
        divisor = op("Unsqueeze", first, node.ints(-1, -2))
        left = node.cut(below, -1, 0, 1)
        # A pivot of 0 leaves zeros below it, and a determinant of 0.
        ratio = op("Where", op("Equal", divisor, zero), zero, op("Div", left, divisor))
        value = op("Sub", node.cut(below, -1, 1, END), op("Mul", ratio, rest))
    return op("Mul", total, op("Squeeze", value, node.ints(-1, -2)))


def determinant(node: Node) -> None:
    """Det: torch-mlir divides by what is on the diagonal, without an exchange of rows. They have to be square."""
    source, op = node.input(0), node.op
    rows = next((size for size in node.shape(source)[-2:] if size is not None), None)
    if not rows or not node.is_float(source):
        return
    if rows > _BY_MINORS:
        node.op("Identity", _eliminated(node, rows), to=node.output(0))
        return

    def element(row: int, column: int) -> str:
        line = op("Gather", source, node.constant(row, np.int64), axis=-2)
        return op("Gather", line, node.constant(column, np.int64), axis=-1)

    def minor(columns: tuple[int, int], first: int) -> str:
        (left, right), second = columns, first + 1
        return op("Sub", op("Mul", element(first, left), element(second, right)),
                  op("Mul", element(first, right), element(second, left)))  # fmt: skip

    if rows == 1:
        op("Identity", element(0, 0), to=node.output(0))
    elif rows == 2:
        op("Identity", minor((0, 1), 0), to=node.output(0))
    else:
        first_term, second_term, third_term = (
            op("Mul", element(0, n), minor(pair, 1)) for n, pair in enumerate(((1, 2), (0, 2), (0, 1)))
        )
        op("Add", op("Sub", first_term, second_term), third_term, to=node.output(0))
