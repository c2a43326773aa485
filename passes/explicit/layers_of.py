"""The operations of a module as a policy sees them, before any arithmetic is in it, and what the policy decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch_mlir import ir

from numc.numerics.policy.layer import SWAPPED, Layer, kinds_of, role_of
from numc.numerics.policy.policy import Decision, Policy
from numc.passes import facts, linalg


def decide(module: ir.Operation, policy: Policy) -> list[tuple[ir.Operation, Decision]]:
    """Return every linalg.generic of `module` in program order, with the arithmetic that `policy` chooses for it.

    Raises NumcError for a policy that does not fit the model.
    """
    layers = layers_of(module)
    decisions = policy.decide([layer for _, layer in layers])
    return [(generic, decision) for (generic, _), decision in zip(layers, decisions, strict=True)]


def layers_of(module: ir.Operation) -> list[tuple[ir.Operation, Layer]]:
    """Return every linalg.generic of `module` in program order, with what it is.

    The module's `numc.nodes` are the operators that names of operations have in the model. `numc.roles` say what an
    operation of a name is for; a model without any is one that is not trained.
    """
    nodes, roles = (facts.get(module, name, {}) for name in ("numc.nodes", "numc.roles"))
    layers: list[tuple[ir.Operation, Layer]] = []  # no dict: the hash of an operation changes with its attributes
    position = 0
    for generic in linalg.operations(module, "linalg.generic"):
        layer = _layer(generic, nodes, roles)
        if layer.position is not None:
            layer = replace(layer, position=position)
            position += 1
        layers.append((generic, layer))
    return layers


def _layer(generic: ir.Operation, nodes: Mapping[str, str], roles: Mapping[str, str]) -> Layer:
    name = linalg.name_of(generic)
    own, operator = (kinds_of(words) for words in (nodes.get(name, ""), nodes.get(name, "").partition(" ")[0]))
    operands = contracted(generic)
    if operands is None:
        kinds = own or (("reduction",) if linalg.reduces(generic) else ("elementwise",))
        role, swapped = _role(name, kinds, roles)
        return Layer(name, kinds, role, swapped, computes=_computes(generic), multiplies=_multiplies(generic))
    maps = [linalg.indexing_maps(generic)[n] for n in operands]
    slides = any(not isinstance(e, ir.AffineDimExpr) for m in maps for e in m.results)
    family = "conv" if slides or "conv" in operator or "convolution" in operator else "matmul"
    kinds = tuple(dict.fromkeys((family, *own)))
    role, swapped = _role(name, kinds, roles)
    used = [set(_dims(m)) for m in maps]
    groups = []
    for dim, (iterator, size) in enumerate(
        zip(linalg.iterator_types(generic), linalg.loop_sizes(generic), strict=True)
    ):
        in_a, in_b = dim in used[0], dim in used[1]
        group = "k" if iterator == "reduction" else "m" if in_a and not in_b else "n" if in_b and not in_a else "b"
        groups.append((group, size))
    shapes = tuple(_shape(generic.operands[n]) for n in operands)
    return Layer(name=name, kinds=kinds, role=role, swapped=swapped, position=0, loops=tuple(groups), operands=shapes)


def _role(name: str, kinds: tuple[str, ...], roles: Mapping[str, str]) -> tuple[str, bool]:
    if not roles:
        return role_of(kinds), False
    role, swapped, _ = roles.get(name, "").partition(SWAPPED)
    return role, bool(swapped)


def contracted(generic: ir.Operation) -> tuple[int, int, int] | None:
    """The numbers of A, B and the accumulator among the operands of a contraction; None for anything else."""
    if not linalg.reduces(generic):
        return None
    inputs = linalg.input_count(generic)
    for add in linalg.body(generic).operations:
        for multiply, addend in linalg.multiply_adds(add.operation):
            total = _argument(generic, addend)
            a, b = (_argument(generic, factor) for factor in multiply.operands)
            if total is not None and total >= inputs and a is not None and b is not None and max(a, b) < inputs:
                return a, b, total
    return None


def _argument(generic: ir.Operation, value: ir.Value) -> int | None:
    """The operand of a generic that a value of its body is; None if it was computed there."""
    if not isinstance(value.owner, ir.Block) or value.owner != linalg.body(generic):
        return None
    return int(ir.BlockArgument(value).arg_number)


def _dims(map_: ir.AffineMap) -> list[int]:
    """The loops that an operand depends on."""
    linear_forms = [linalg.linear(e) for e in map_.results]
    return [d for x in linear_forms if x is not None for d in x[0]]


def _shape(value: ir.Value) -> tuple[int | None, ...]:
    shaped_type = ir.ShapedType(value.type)
    return tuple(
        None if shaped_type.is_dynamic_dim(n) else shaped_type.get_dim_size(n) for n in range(shaped_type.rank)
    )


def _multiplies(generic: ir.Operation) -> bool:
    """Whether a body has a multiply-add: a product that is used once, in an addition."""
    return any(linalg.multiply_adds(op.operation) for op in linalg.body(generic).operations)


def _computes(generic: ir.Operation) -> bool:
    """Whether a body has a float operation that `ops` rounds, or a multiply-add."""
    return any(linalg.computes(op.operation) for op in linalg.body(generic).operations)
