"""The optimisers of the domain ai.onnx.preview.training. Each has tensors, their gradients and their states."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import Node


def _groups(node: Node, kinds: int) -> list[list[str]]:
    """The inputs behind the learning rate and the number of the step, by tensor."""
    rest = list(node.proto.input[2:])
    count = len(rest) // kinds
    return [rest[n::count] for n in range(count)]


def _number(node: Node, name: str, default: float) -> str:
    return node.constant(node.attribute(name, default), np.float32)


def _regularized(node: Node, x: str, gradient: str) -> str:
    return node.op("Add", node.op("Mul", _number(node, "norm_coefficient", 0.0), x), gradient)


def adagrad(node: Node) -> None:
    """Adagrad."""
    op, groups = node.op, _groups(node, 3)
    decay = op("Mul", node.cast(node.input(1), 1), _number(node, "decay_factor", 0.0))
    rate = op("Div", node.input(0), op("Add", decay, node.constant(1, np.float32)))
    for n, (x, gradient, squares) in enumerate(groups):
        step = _regularized(node, x, gradient)
        total = op("Add", squares, op("Mul", step, step), to=node.output(len(groups) + n))
        scale = op("Add", op("Sqrt", total), _number(node, "epsilon", 1e-6))
        op("Sub", x, op("Div", op("Mul", rate, step), scale), to=node.output(n))


def adam(node: Node) -> None:
    """Adam."""
    op, groups = node.op, _groups(node, 4)
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    count = node.cast(node.input(1), 1)
    one, first, second = (node.constant(value, np.float32) for value in (1, alpha, beta))
    corrected = op("Sqrt", op("Sub", one, op("Pow", second, count)))
    corrected = op("Div", op("Mul", node.input(0), corrected), op("Sub", one, op("Pow", first, count)))
    rate = op("Where", op("Greater", node.input(1), node.constant(0, np.int64)), corrected, node.input(0))
    keep = op("Sub", one, _number(node, "norm_coefficient_post", 0.0))
    for n, (x, gradient, average, squares) in enumerate(groups):
        step = _regularized(node, x, gradient)
        mean = op("Add", op("Mul", first, average), op("Mul", node.constant(1 - alpha, np.float32), step),
                  to=node.output(len(groups) + n))  # fmt: skip
        square = op("Mul", op("Mul", node.constant(1 - beta, np.float32), step), step)
        spread = op("Add", op("Mul", second, squares), square, to=node.output(2 * len(groups) + n))
        scale = op("Add", op("Sqrt", spread), _number(node, "epsilon", 1e-6))
        moved = op("Sub", x, op("Div", op("Mul", rate, mean), scale))
        op("Mul", keep, moved, to=node.output(n))


def momentum(node: Node) -> None:
    """Momentum, standard or of Nesterov."""
    op, groups = node.op, _groups(node, 3)
    alpha = _number(node, "alpha", 0.0)
    one = node.constant(1, np.float32)
    later = op("Greater", node.input(1), node.constant(0, np.int64))
    beta = op("Where", later, _number(node, "beta", 0.0), one)
    for n, (x, gradient, velocity) in enumerate(groups):
        step = _regularized(node, x, gradient)
        speed = op("Add", op("Mul", alpha, velocity), op("Mul", beta, step), to=node.output(len(groups) + n))
        if node.attribute("mode", "standard") == "nesterov":
            speed = op("Add", step, op("Mul", alpha, speed))
        op("Sub", x, op("Mul", node.input(0), speed), to=node.output(n))
