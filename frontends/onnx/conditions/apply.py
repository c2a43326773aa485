"""The conditions of a node (table.py): refused where they cannot hold, checked in each run where that depends on it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import onnx

from numc.frontends.formulas import decided, tensors_of
from numc.frontends.onnx.conditions.sized import Condition, known
from numc.frontends.onnx.conditions.table import CONDITIONS
from numc.frontends.onnx.rewrites.fits import listed
from numc.frontends.onnx.rewrites.node import Node, RefusedError

CHECKS = "numc.checks"
"""The attribute of an Identity with the conditions, and their messages, of its inputs. Its result is the first one."""


def check(node: Node) -> None:
    """Let a run check what a node asks of its inputs, by an Identity of one of them. Nothing is emitted if all holds.

    Raises RefusedError if something cannot hold, UnknownRankError if that is not known yet.
    """
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    conditions = CONDITIONS.get((domain, node.proto.op_type))
    if conditions is None:
        return
    names = list(node.proto.input)
    tensors = known(node)
    open_ones: list[Condition] = []
    for condition in conditions(node):
        used = tensors_of(condition[0])
        if any(not node.input(n) for n in used):
            continue
        holds = decided(condition[0], tensors)
        if holds is None:
            for n in used:
                node.rank(names[n])
            open_ones.append(condition)
        elif not holds:
            raise RefusedError(f"{condition[1]}: {_found(node, used)}")
    if open_ones:
        _emit(node, names, open_ones)


def _emit(node: Node, names: Sequence[str], conditions: Sequence[Condition]) -> None:
    used = set().union(*(tensors_of(condition) for condition, _ in conditions))
    carrier = next(n for n, name in enumerate(names) if name and name not in node.constants)
    # The tensors keep their numbers; one that no condition is about is not read.
    inputs = [names[carrier], *(name if n in used else names[carrier] for n, name in enumerate(names))]
    checked = node.op("Identity", *inputs, **{CHECKS: json.dumps(conditions)})
    node.made[-1].name = f"{node.proto.name}#0"  # the node itself keeps its name
    copy = onnx.NodeProto.FromString(node.proto.SerializeToString())
    copy.input[carrier] = checked
    node.made.append(copy)


def _found(node: Node, used: Collection[int]) -> str:
    """The names of inputs with their sizes, or with their values if those are a short list of numbers."""
    descriptions = []
    for n in sorted(used):
        name = node.input(n)
        value, sizes = node.constants.get(name), node.known_shape(name)
        if value is not None and value.ndim < 2 and value.size <= 8:
            descriptions.append(f"'{name}' is {value.tolist()}")
        else:
            descriptions.append(f"'{name}' has sizes {listed(sizes or ())}")
    return ", ".join(descriptions)
