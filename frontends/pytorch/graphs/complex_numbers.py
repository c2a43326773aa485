"""Graphs on complex numbers as graphs on their real and imaginary parts.

Inside of a model only: inputs and results are real. Views, sums, copies and other operations without products are done
on either part; a product is ``(ac - bd) + (ad + bc)i``, of matrices too, whose four products are contractions. A
Fourier transform is the product with the matrix of its cosines and sines. What is not in the table below is refused,
as complex numbers are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import getitem
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, TensorArgument
from torch.fx.node import map_aggregate

from numc.frontends.lowering.fourier import of_half, transform
from numc.frontends.pytorch.graphs.graph import IN_PARTS, path_of, source_of
from numc.support.errors import NumcError

aten, prims = torch.ops.aten, torch.ops.prims

#: The real numbers of a dimension that a Fourier transform may have at most: a matrix of 64 MiB.
MOST = 4096

Real: TypeAlias = fx.Node | float


class Parts(NamedTuple):
    """A complex number or tensor: nodes, or numbers. Without an imaginary part it is real."""

    real: Real
    imaginary: Real | None


def is_complex(value: Any) -> bool:
    """Whether a value is a complex tensor."""
    return isinstance(value, torch.Tensor) and value.is_complex()


def without_complex(program: ExportedProgram) -> bool:
    """Replace the complex numbers in the graph of a program, in place; whether there were some, and none are left.

    Weights that are complex become real ones with a last dimension of 2.
    """
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    if not any(is_complex(node.meta.get("val")) for node in nodes):
        return False
    split = _Split(program)
    for node in nodes:
        split.replace(node)
    for node in reversed(nodes):
        if node.op == "call_function" and not node.users and IN_PARTS in node.meta:
            program.graph.erase_node(node)
    program.graph_module.recompile()
    return not any(is_complex(node.meta.get("val")) for node in program.graph.nodes)


class _Split:
    """A graph, and the parts of its complex nodes so far."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program, self._graph = program, program.graph
        program._state_dict, program._constants = dict(program.state_dict), dict(program.constants)
        self._weights = {spec.arg.name: str(spec.target) for spec in program.graph_signature.input_specs if spec.target}
        changed = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        outputs = program.graph_signature.output_specs
        self._changed = {str(spec.target) for spec in outputs if spec.kind in changed}
        self._parts: dict[fx.Node, Parts] = {}
        self._matrices: dict[tuple[Any, ...], fx.Node] = {}
        self._at: fx.Node
        fake = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
        assert fake is not None
        self._fake = fake

    def replace(self, node: fx.Node) -> None:
        """Compute what a node does by real numbers, if it yields or reads complex ones and there is a rule for it."""
        self._at = node
        if node.op == "placeholder":
            if is_complex(node.meta.get("val")) and self._weights.get(node.name) not in (None, *self._changed):
                self._split_weight(node)
            return
        operands = node.all_input_nodes
        rule = _RULES.get(getattr(node.target, "overloadpacket", node.target))
        if rule is None or any(is_complex(n.meta.get("val")) and n not in self._parts for n in operands):
            return
        if not (is_complex(node.meta.get("val")) or any(n in self._parts for n in operands)):
            return
        with self._graph.inserting_before(node):
            made = rule(self, node)
            if isinstance(made, Parts):
                self._parts[node] = self._of_one_shape(made)
            elif made is not None:
                node.replace_all_uses_with(made)
        if made is not None:
            node.meta = {**node.meta, IN_PARTS: True}

    def _of_one_shape(self, parts: Parts) -> Parts:
        """Parts of which neither has fewer elements than the other: in a sum with a real tensor one may."""
        real, imaginary = parts
        if all(isinstance(n, fx.Node) and isinstance(n.meta["val"], torch.Tensor) for n in parts):
            assert isinstance(real, fx.Node)
            assert isinstance(imaginary, fx.Node)
            a, b = real.meta["val"].shape, imaginary.meta["val"].shape
            if a != b and torch.broadcast_shapes(a, b) == a:
                return Parts(real, self.call(aten.expand_as.default, imaginary, real))
            if a != b:
                return Parts(self.call(aten.expand_as.default, real, imaginary), imaginary)
        return parts

    def _split_weight(self, node: fx.Node) -> None:
        target = self._weights[node.name]
        stored = self._program._state_dict if target in self._program._state_dict else self._program._constants
        value = torch.view_as_real(stored[target].detach().resolve_conj())
        stored[target] = torch.nn.Parameter(value, False) if isinstance(stored[target], torch.nn.Parameter) else value
        complex_value = node.meta["val"]
        node.meta = {"val": torch.view_as_real(complex_value)}
        with self._graph.inserting_before(next(n for n in self._graph.nodes if n.op != "placeholder")):
            self._parts[node] = self.halves(node)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Append an operation, which takes the place and the name of the node that is replaced."""
        made = self._graph.call_function(target, args, kwargs)
        arguments, named = map_aggregate((args, kwargs), lambda n: n.meta["val"] if isinstance(n, fx.Node) else n)
        with self._fake:
            value = target(*arguments, **named)
        made.meta = {key: what for key, what in self._at.meta.items() if key != "tensor_meta"} | {"val": value}
        return made

    def halves(self, node: fx.Node) -> Parts:
        """The parts that lie in the last dimension of a real tensor, which is 2."""
        last = node.meta["val"].dim() - 1
        return Parts(*(self.call(aten.select.int, node, last, n) for n in (0, 1)))

    def is_split(self, node: fx.Node) -> bool:
        """Whether a node is complex."""
        return node in self._parts

    def parts(self, value: Any) -> Parts:
        """The parts of an argument."""
        if isinstance(value, fx.Node):
            return self._parts.get(value, Parts(value, None))
        return Parts(value.real, value.imag) if isinstance(value, complex) else Parts(value, None)

    def zeros(self, like: fx.Node) -> fx.Node:
        """Zeros of the shape of a real node."""
        return self.call(aten.zeros_like.default, like)

    def imaginary(self, parts: Parts) -> fx.Node:
        """The imaginary part of a tensor, as a node."""
        if isinstance(parts.imaginary, fx.Node):
            return parts.imaginary
        assert isinstance(parts.real, fx.Node)
        zeros = self.zeros(parts.real)
        return zeros if parts.imaginary is None else self.call(aten.add.Tensor, zeros, parts.imaginary)

    def fixed(self, size: Any, parts: int) -> int:
        """The size of a Fourier transform, of `parts` parts each. Raises NumcError if there is no matrix for it."""
        if isinstance(size, int) and size <= MOST // parts:
            return size
        path = path_of(self._at)
        location = ", ".join(filter(None, (path and f"module '{path}'", source_of(self._at))))
        problem = f"is {size}: transform shorter pieces" if isinstance(size, int) else "is free: fix it"
        raise NumcError(
            f"a Fourier transform ({location}) is the product with a matrix, along dimensions of at most "
            f"{MOST // parts} {'complex' if parts == 2 else 'real'} numbers; here the size {problem}"
        )

    def matrix(self, key: tuple[Any, ...], make: Callable[[], npt.NDArray[np.float64]], dtype: torch.dtype) -> fx.Node:
        """A constant as a node: equal ones are one."""
        if (key, dtype) not in self._matrices:
            name = f"numc.fourier_{len(self._matrices)}"
            value = torch.from_numpy(make()).to(dtype)
            fake = self._fake.from_tensor(value)
            with self._graph.inserting_before(next(iter(self._graph.nodes))):
                node = self._graph.placeholder(name.replace(".", "_"))
            node.meta = {"val": fake}
            signature = self._program.graph_signature
            spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name)
            signature.input_specs.insert(0, spec)
            self._program._constants[name] = value
            self._matrices[key, dtype] = node
        return self._matrices[key, dtype]


def _arithmetic(s: _Split, target: Any, one: Real | None, other: Real | None) -> Real | None:
    """A sum or difference, where None is zero."""
    if one is None or other is None:
        if other is None:
            return one
        if target is aten.add.Tensor:
            return other
        return s.call(aten.neg.default, other) if isinstance(other, fx.Node) else -other
    if not isinstance(one, fx.Node) and not isinstance(other, fx.Node):
        return one + other if target is aten.add.Tensor else one - other
    return s.call(target, one, other)


def _times(s: _Split, one: Real | None, other: Real | None, target: Any = aten.mul.Tensor) -> Real | None:
    """A product, where None is zero."""
    if one is None or other is None:
        return None
    if not isinstance(one, fx.Node):
        one, other = other, one
    return s.call(target, one, other) if isinstance(one, fx.Node) else one * other


def _product(s: _Split, x: Parts, y: Parts, target: Any = aten.mul.Tensor) -> Parts:
    (a, b), (c, d) = x, y
    real = _arithmetic(s, aten.sub.Tensor, _times(s, a, c, target), _times(s, b, d, target))
    imaginary = _arithmetic(s, aten.add.Tensor, _times(s, a, d, target), _times(s, b, c, target))
    assert real is not None
    return Parts(real, imaginary)


def _magnitude(s: _Split, x: Parts) -> fx.Node:
    return s.call(aten.hypot.default, x.real, s.imaginary(x))


def _partwise(s: _Split, node: fx.Node) -> Parts:
    """The operation on either part. A real tensor or number among complex ones has the imaginary part 0."""
    target = getattr(node.target, "overloadpacket", node.target)
    pads = target is aten.constant_pad_nd

    def given(n: Any, imaginary: bool) -> Any:
        if isinstance(n, torch.dtype):
            return n.to_real() if n.is_complex else n
        if isinstance(n, complex):
            return n.imag if imaginary else n.real
        if not isinstance(n, fx.Node):
            return n
        if s.is_split(n):
            return s.imaginary(s.parts(n)) if imaginary else s.parts(n).real
        value = n.meta["val"]  # indices and masks are for both parts
        is_number = isinstance(value, torch.Tensor) and (value.is_floating_point() or target in (aten.cat, aten.stack))
        return s.zeros(n) if imaginary and is_number else n

    def done(imaginary: bool) -> fx.Node:
        args, kwargs = map_aggregate((node.args, node.kwargs), lambda n: given(n, imaginary))
        if pads and imaginary and len(args) > 2 and not isinstance(node.args[2], complex):
            args = (*args[:2], 0)
        # Torch cannot trace that view of prims once more.
        return s.call(aten.squeeze.dims if target is prims.squeeze else node.target, *args, **kwargs)

    return Parts(done(imaginary=False), done(imaginary=True))


def _sum(s: _Split, node: fx.Node) -> Parts:
    left, right = (s.parts(n) for n in node.args[:2])
    alpha = node.kwargs.get("alpha", 1)
    if alpha != 1:
        right = _product(s, right, s.parts(alpha))
    target = aten.add.Tensor if node.target.overloadpacket is aten.add else aten.sub.Tensor
    real = _arithmetic(s, target, left.real, right.real)
    assert real is not None
    return Parts(real, _arithmetic(s, target, left.imaginary, right.imaginary))


def _quotient(s: _Split, node: fx.Node) -> Parts | None:
    if node.kwargs:
        return None
    x, y = (s.parts(n) for n in node.args[:2])
    return _divided(s, x, y)


def _divided(s: _Split, x: Parts, y: Parts) -> Parts:
    if y.imaginary is None:
        real, imaginary = (n if n is None else s.call(aten.div.Tensor, n, y.real) for n in x)
        assert real is not None
        return Parts(real, imaginary)
    over = _product(s, x, Parts(y.real, _arithmetic(s, aten.sub.Tensor, None, y.imaginary)))
    square = _arithmetic(s, aten.add.Tensor, _times(s, y.real, y.real), _times(s, y.imaginary, y.imaginary))
    return Parts(*(s.call(aten.div.Tensor, n, square) for n in over if n is not None))


def _conjugate(s: _Split, node: fx.Node) -> Parts:
    x = s.parts(node.args[0])
    return Parts(x.real, s.call(aten.neg.default, s.imaginary(x)))


def _exponential(s: _Split, node: fx.Node) -> Parts:
    x = s.parts(node.args[0])
    return _polar(s, s.call(aten.exp.default, x.real), s.imaginary(x))


def _polar(s: _Split, size: fx.Node, angle: fx.Node) -> Parts:
    return Parts(*(s.call(aten.mul.Tensor, size, s.call(f, angle)) for f in (aten.cos.default, aten.sin.default)))


def _power(s: _Split, node: fx.Node) -> Parts | None:
    x, exponent = s.parts(node.args[0]), node.args[1]
    if not isinstance(exponent, (int, float)) or exponent not in (2, 3):
        return None
    square = _product(s, x, x)
    return square if exponent == 2 else _product(s, square, x)


def _converted(s: _Split, node: fx.Node) -> Parts | fx.Node:
    x, dtype = s.parts(node.args[0]), node.meta["val"].dtype
    assert isinstance(x.real, fx.Node)
    if not dtype.is_complex:
        return s.call(prims.convert_element_type.default, x.real, dtype)
    both = (x.real, s.imaginary(x))
    return Parts(*(s.call(prims.convert_element_type.default, n, dtype.to_real()) for n in both))


def _filled(s: _Split, node: fx.Node) -> Parts:
    like, value = node.args[0], s.parts(node.args[1] if len(node.args) > 1 else 0)  # what is empty is filled later
    shape = s.parts(like).real if isinstance(like, fx.Node) else like
    kwargs = {**node.kwargs, "dtype": node.meta["val"].dtype.to_real()}
    target = aten.full_like.default if isinstance(like, fx.Node) else aten.full.default
    return Parts(*(s.call(target, shape, n or 0, **kwargs) for n in value))


def _pair(s: _Split, node: fx.Node) -> fx.Node:
    x = s.parts(node.args[0])
    assert isinstance(x.real, fx.Node)
    return s.call(aten.stack.default, [x.real, s.imaginary(x)], x.real.meta["val"].dim())


def _angle(s: _Split, node: fx.Node) -> fx.Node:
    x = s.parts(node.args[0])
    return s.call(aten.atan2.default, s.imaginary(x), x.real)


def _matrices(s: _Split, node: fx.Node) -> Parts:
    return _product(s, s.parts(node.args[0]), s.parts(node.args[1]), node.target)


def _product_and_sum(s: _Split, node: fx.Node) -> Parts | None:
    if node.kwargs:
        return None
    added, left, right = map(s.parts, node.args)
    product = _product(s, left, right, aten.mm.default)
    sums = [_arithmetic(s, aten.add.Tensor, *both) for both in zip(product, added, strict=True)]
    assert sums[0] is not None
    return Parts(sums[0], sums[1])


def _real_transform(s: _Split, node: fx.Node) -> Parts:
    parts = Parts(node.args[0], None)
    for n, dim in enumerate(reversed(node.kwargs["dim"])):
        parts = _transformed(s, parts, dim, forward=True, half=node.kwargs["onesided"] and n == 0)
    return parts


def _transform(s: _Split, node: fx.Node) -> Parts:
    parts = s.parts(node.args[0])
    for dim in node.kwargs["dim"]:
        parts = _transformed(s, parts, dim, forward=node.kwargs["forward"])
    return parts


def _half_transform(s: _Split, node: fx.Node) -> fx.Node:
    *dims, last = node.kwargs["dim"]
    parts = s.parts(node.args[0])
    for dim in dims:
        parts = _transformed(s, parts, dim, forward=False)
    assert isinstance(parts.real, fx.Node)
    value = parts.real.meta["val"]
    bins, length = s.fixed(value.shape[last], 2), s.fixed(node.kwargs["last_dim_size"], 1)
    matrix = s.matrix(("half", bins, length), lambda: of_half(bins, length).reshape(2 * bins, length), value.dtype)
    return _along(s, parts, last, matrix, None)


def _transformed(s: _Split, x: Parts, dim: int, *, forward: bool, half: bool = False) -> Parts:
    """A transform, not normalised, along a dimension of fixed size."""
    assert isinstance(x.real, fx.Node)
    value = x.real.meta["val"]
    parts = 1 if x.imaginary is None else 2
    size = s.fixed(value.shape[dim], parts)
    bins = size // 2 + 1 if half else size

    def make() -> npt.NDArray[np.float64]:
        return transform(size, bins, parts, size, inverse=not forward).reshape(size * parts, bins * 2)

    return s.halves(_along(s, x, dim, s.matrix((size, bins, parts, forward), make, value.dtype), bins))


def _along(s: _Split, x: Parts, dim: int, matrix: fx.Node, bins: int | None) -> fx.Node:
    """The product of numbers along a dimension, real and imaginary parts in turn, and a matrix.

    The result has complex numbers, in a last dimension of 2, in the place of `bins`, or real ones.
    """
    columns = [s.call(aten.movedim.int, n, dim, -1) for n in x if isinstance(n, fx.Node)]
    rows = columns[0]
    if len(columns) == 2:
        rows = s.call(aten.flatten.using_ints, s.call(aten.stack.default, columns, -1), -2, -1)
    product = s.call(aten.matmul.default, rows, matrix)
    if bins is None:
        return s.call(aten.movedim.int, product, -1, dim)
    pairs = s.call(aten.unflatten.int, product, -1, [bins, 2])
    return s.call(aten.movedim.int, pairs, -2, dim)


_PARTWISE = (
    *(aten.view, aten._unsafe_view, aten.reshape, aten.unsqueeze, aten.squeeze, aten.select, aten.slice, aten.expand),
    *(aten.permute, aten.transpose, aten.t, aten.clone, aten.cat, aten.stack, aten.index, aten.index_select, aten.flip),
    *(aten.gather, aten.roll, aten.repeat, aten.constant_pad_nd, aten.sum, aten.mean, aten.cumsum, aten.neg),
    *(aten.slice_scatter, aten.select_scatter, aten.diagonal, aten.unfold, aten.as_strided, aten.alias, aten.detach),
    *(aten.where, aten.index_put, aten.contiguous, aten.lift_fresh_copy, aten.copy),
    *(aten.split, aten.split_with_sizes, aten.unbind, getitem, prims.squeeze),
)

_Rule = Callable[[_Split, fx.Node], Parts | fx.Node | None]
_RULES: Mapping[Any, _Rule] = MappingProxyType({
    **dict.fromkeys(_PARTWISE, _partwise),
    **dict.fromkeys((aten.mm, aten.bmm, aten.matmul, aten.mv, aten.dot), _matrices),
    **dict.fromkeys((aten._conj, aten.conj, aten.conj_physical, aten._conj_physical), _conjugate),
    **dict.fromkeys((aten.add, aten.sub), _sum),
    **dict.fromkeys((aten.resolve_conj, aten.resolve_neg), lambda s, node: s.parts(node.args[0])),
    **dict.fromkeys((aten._to_copy, prims.convert_element_type), _converted),
    **dict.fromkeys((aten.full, aten.full_like, aten.empty, aten.empty_like), _filled),
    aten.mul: lambda s, node: _product(s, s.parts(node.args[0]), s.parts(node.args[1])),
    aten.addmm: _product_and_sum,
    aten.div: _quotient,
    aten.reciprocal: lambda s, node: _divided(s, Parts(1, None), s.parts(node.args[0])),
    aten.pow: _power,
    aten.exp: _exponential,
    aten.polar: lambda s, node: _polar(s, node.args[0], node.args[1]),
    aten.complex: lambda s, node: Parts(*node.args[:2]),
    aten.view_as_complex: lambda s, node: s.halves(node.args[0]),
    aten.view_as_real: _pair,
    aten.abs: lambda s, node: _magnitude(s, s.parts(node.args[0])),
    aten.angle: _angle,
    aten.real: lambda s, node: s.parts(node.args[0]).real,
    aten.imag: lambda s, node: s.imaginary(s.parts(node.args[0])),
    prims.fft_r2c: _real_transform,
    prims.fft_c2c: _transform,
    prims.fft_c2r: _half_transform,
})  # fmt: skip
