"""The contractions of a module with a forward pass, and those of its backward pass: names, roles and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch_mlir import ir

from numc.numerics.policy.layer import Layer
from numc.passes import facts, linalg
from numc.passes.explicit.layers_of import contracted, layers_of

# The gradient of A is G times B over the columns, that of B is G times A over the rows; G, the gradient of the result,
# comes first, as in every contraction of these roles.
_LOOPS: tuple[Mapping[str, str], Mapping[str, str]] = (
    {"b": "b", "m": "m", "n": "k", "k": "n"},
    {"b": "b", "m": "k", "n": "m", "k": "n"},
)


def contractions_of(module: ir.Operation) -> tuple[list[Layer], list[Layer]]:
    """Return the contractions of the forward pass, and those that give the gradients of all weights, the last first.

    A weight that is repeated for every part of a batch is one weight, so the batch is a part of the rows.

    A weight is an argument of ``@main`` that is called one, or what is made of such arguments alone. The gradient of a
    weight is a wgrad; that of an operand that depends on inputs and on weights is a dgrad; that of an operand without
    weights before it, as in the first layer, is not needed. A convolution's are contractions with as many multiply-adds
    as the convolution has, whatever its stride.
    """
    reach = _Reach(module)
    forward: list[Layer] = []
    backward: list[Layer] = []
    for generic, each in layers_of(module):
        operands = contracted(generic)
        if each.position is None or operands is None:
            continue
        layer = _with_one_weight(generic, each, operands)
        forward.append(layer)
        own: list[Layer] = []
        for side in (0, 1):
            inputs, weights = reach.of(generic.operands[operands[side]])
            if weights:
                role = "dgrad" if inputs else "wgrad"
                again = "_2" if any(gradient.role == role for gradient in own) else ""
                name = f"{layer.name}/{role}{again}"
                shapes = (layer.operands[2], layer.operands[1 - side], layer.operands[side])
                loops = tuple((_LOOPS[side][loop], size) for loop, size in layer.loops)
                own.append(replace(layer, name=name, role=role, loops=loops, operands=shapes))
        backward = own + backward
    return forward, [replace(layer, position=position) for position, layer in enumerate(backward)]


def _with_one_weight(generic: ir.Operation, layer: Layer, operands: tuple[int, int, int]) -> Layer:
    """Return the layer with loops over copies of an operand counted as loops over the other one."""
    loops, shapes = list(layer.loops), list(layer.operands)
    for side, other in ((0, "n"), (1, "m")):
        value = generic.operands[operands[side]]
        copies = _copied(value)
        exprs = linalg.indexing_maps(generic)[operands[side]].results
        for dim, expr in enumerate(exprs):
            if dim in copies and isinstance(expr, ir.AffineDimExpr) and loops[expr.position][0] == "b":
                loops[expr.position] = (other, loops[expr.position][1])
                shapes[side] = (*shapes[side][:dim], 1, *shapes[side][dim + 1 :])
    return replace(layer, loops=tuple(loops), operands=tuple(shapes))


def _copied(value: ir.Value) -> set[int]:
    """Return the dimensions along which a value is the same, because a linalg.generic has copied it along them."""
    made = linalg.maker(value)
    if made is None or made.name != "linalg.generic" or linalg.input_count(made) != 1:
        return set()
    if len(list(linalg.body(made).operations)) > 1:
        return set()
    source, result = linalg.indexing_maps(made)
    used = {expr.position for expr in source.results if isinstance(expr, ir.AffineDimExpr)}
    return {
        dim
        for dim, expr in enumerate(result.results)
        if isinstance(expr, ir.AffineDimExpr) and expr.position not in used
    }


class _Reach:
    """Which values depend on inputs of the model, and which on its weights."""

    def __init__(self, module: ir.Operation) -> None:
        main = linalg.main(module)
        names = facts.of_arguments(module, "numc.weight")
        self._found: dict[ir.Value, tuple[bool, bool]] = {
            value: (number not in names, number in names)
            for number, value in enumerate(main.regions[0].blocks[0].arguments)
        }
        self._visit(main.regions[0].blocks[0])

    def of(self, value: ir.Value) -> tuple[bool, bool]:
        """Return whether a value depends on inputs, and whether it depends on weights."""
        return self._found.get(value, (False, False))

    def _visit(self, block: ir.Block) -> None:
        for op in block.operations:
            known = [self.of(value) for value in (*op.operands, *linalg.captured(op.operation)[1])]
            if op.operation.name != "linalg.generic":
                for inner in (b for region in op.regions for b in region.blocks):
                    self._found |= dict.fromkeys(inner.arguments, _union(known))
                    self._visit(inner)
                    known += [self.of(value) for last in inner.operations for value in last.operation.operands]
            tensors = [value for value in op.results if not isinstance(value.type, ir.IndexType)]  # not their sizes
            self._found |= dict.fromkeys(tensors, _union(known))


def _union(known: list[tuple[bool, bool]]) -> tuple[bool, bool]:
    return any(inputs for inputs, _ in known), any(weights for _, weights in known)
