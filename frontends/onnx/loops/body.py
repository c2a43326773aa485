"""The body of a loop, prepared as a model of its own, whose inputs are what it reads of the graph around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, TypeProto, helper, numpy_helper

from numc.frontends.onnx.carriers.carried import CARRIED
from numc.frontends.onnx.reading.read import label
from numc.frontends.onnx.reading.structure import names_read
from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.support.errors import NumcError

Array = npt.NDArray[np.generic]
Prepare = Callable[[onnx.ModelProto, Mapping[str, Array]], Any]
"""Makes a Prepared of a model, given the values of initialisers that it has without data."""


@dataclass
class Body:
    """The body of a Loop or a Scan.

    number: the value that is the number of the step. states: the values that steps hand on, with their initial values.
    results: what they are after a step, then what each step gives. condition: the result that says whether there is
    another step; "" if there always is. true: the input that says that there is this one.
    """

    node: Node
    opsets: Sequence[onnx.OperatorSetIdProto]
    prepare: Prepare
    graph: onnx.GraphProto
    number: str = ""
    true: str = ""
    states: Mapping[str, str] = field(default_factory=dict)
    results: Sequence[str] = ()
    condition: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    emitted: dict[str, TypeProto] = field(default_factory=dict)

    def take(self, element: str, sequence: str, kind: TypeProto, axis: int, last: str) -> None:
        """Let a value be the element of the step of a sequence around the loop, which is of type `kind`.

        last: the number of the last element if the sequence is read backwards, else "".
        """
        self.emitted[sequence] = kind
        if last:
            self.emitted[last] = helper.make_tensor_type_proto(TensorProto.INT64, [])
        where, name = self.number, self._step(element)
        nodes = []
        if last:
            where = f"{element}#place"
            nodes.append(helper.make_node("Sub", [last, self.number], [where], name=f"{name}#place"))
        nodes.append(helper.make_node("Gather", [sequence, where], [element], name=name, axis=axis))
        inner = [*nodes, *self.graph.node]
        del self.graph.node[:]
        self.graph.node.extend(inner)

    def prepared(self) -> Ready:
        """Prepare the body for states of sizes that it also gives. Raises RefusedError or NumcError if that fails."""
        if any(value.type.WhichOneof("value") == "sequence_type" for value in self.graph.output):
            raise RefusedError("its steps hand on sequences, which only a loop does that is unrolled")
        types = {name: self._type(start) for name, start in self.states.items()}
        while True:  # each time, one size more is free
            model, read, large = self._model(types)
            try:
                done = self.prepare(model, large)
            except NumcError as error:
                raise RefusedError(f"in its steps, {error}") from None
            if not self._freer(types, done.outputs):
                self.words = done.nodes
                return self._ready(types, read, done)

    def _step(self, what: object) -> str:
        """The name of a node in the body that the model does not have."""
        return f"{self.node.proto.name}/step#{what}"

    def _type(self, name: str) -> TypeProto:
        """The type of a value around the loop, in which every free size has a name."""
        kind = TypeProto.FromString((self.emitted.get(name) or self.node.type_of(name)).SerializeToString())
        dtype = kind.tensor_type.elem_type
        if not dtype or not kind.tensor_type.HasField("shape"):
            raise RefusedError(f"'{name}' has no known rank: give shapes={{...}} or --shape for the inputs")
        if dtype in CARRIED:
            raise RefusedError(
                f"'{name}' is {CARRIED[dtype].name}, which only a loop takes that is unrolled: want another type, or a "
                "number of steps that is known, by values={...} or --value"
            )
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"{name}[{axis}]"
        return kind

    def _model(self, types: Mapping[str, TypeProto]) -> tuple[onnx.ModelProto, list[str], dict[str, Array]]:
        """The body as a model, the values around it that are its inputs behind the states, and its large constants."""
        graph = onnx.GraphProto(name="main")
        graph.node.extend(self.graph.node)
        graph.initializer.extend(self.graph.initializer)
        number = helper.make_tensor_type_proto(TensorProto.INT64, [])
        graph.input.append(onnx.ValueInfoProto(name=self.number, type=number))
        graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in types.items())
        large: dict[str, Array] = {}
        read = []
        if self.true:
            graph.initializer.append(numpy_helper.from_array(np.array(True), self.true))
        for name in self._around():
            if name in self.node.constants:
                value = self.node.constants[name]
                kind = int(helper.np_dtype_to_tensor_dtype(value.dtype))
                graph.initializer.append(TensorProto(name=name, data_type=kind, dims=value.shape))
                large[name] = value
            else:
                read.append(name)
                graph.input.append(onnx.ValueInfoProto(name=name, type=self._type(name)))
        declared = {value.name: value.type.tensor_type.elem_type for value in self.graph.output}
        for n, name in enumerate([*([self.condition] if self.condition else []), *self.results]):
            graph.node.append(helper.make_node("Identity", [name], [f"result#{n}"], name=self._step(n)))
            # The converter of opsets wants the types of outputs.
            graph.output.append(helper.make_tensor_value_info(f"result#{n}", declared[name], None))
        return helper.make_model(graph, opset_imports=list(self.opsets), ir_version=8), read, large

    def _around(self) -> list[str]:
        """The values around the loop that its body reads, in order."""
        own = {value.name for value in self.graph.initializer} | {self.number, self.true, *self.states}
        own |= {name for node in self.graph.node for name in node.output}
        names = [*(name for node in self.graph.node for name in names_read(node)), self.condition, *self.results]
        known = self.node.types.keys() | self.node.constants.keys() | self.emitted.keys()
        return [name for name in dict.fromkeys(names) if name in known and name not in own]

    def _freer(self, types: Mapping[str, TypeProto], outputs: Sequence[Any]) -> bool:
        """Make free what steps do not leave as it is, and return whether there was such a size."""
        changed = False
        first = 1 if self.condition else 0
        for (name, kind), output in zip(types.items(), outputs[first:], strict=False):
            dims = kind.tensor_type.shape.dim
            if helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type) != np.dtype(output.dtype):
                raise RefusedError(f"a step takes '{name}' in another type than it gives")
            if len(dims) != len(output.shape):
                raise RefusedError(f"a step takes '{name}' with {len(dims)} dimensions and gives {len(output.shape)}")
            for axis, (dim, size) in enumerate(zip(dims, output.shape, strict=True)):
                own = f"{name}#[{axis}]"  # of this step alone
                is_fixed = dim.HasField("dim_value")
                if dim.dim_value != size if is_fixed else dim.dim_param not in (own, output.symbols[axis]):
                    dim.dim_param, changed = own, True
        return changed

    def _ready(self, types: Mapping[str, TypeProto], read: Sequence[str], done: Any) -> Ready:
        graph = done.model.graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer} | done.weights
        reads = {name: name for name in read}
        for name, value in constants.items():
            is_around = name in self.node.constants and self.node.constants[name] is value
            reads[name] = name if is_around else self.node.constant(value, value.dtype)
        del graph.initializer[:]
        lasting = {dim.dim_param: (start, axis)
                   for name, start in [*self.states.items(), *zip(read, read, strict=True)]
                   for axis, dim in enumerate((types.get(name) or self._type(name)).tensor_type.shape.dim)
                   if dim.dim_param and not dim.dim_param.startswith(f"{name}#")}  # fmt: skip
        results = [value.name for value in graph.output]
        condition = results.pop(0) if self.condition else ""
        collected = [
            Collected(name, tuple(output.symbols[n] if size < 0 else size for n, size in enumerate(output.shape)),
                      int(helper.np_dtype_to_tensor_dtype(np.dtype(output.dtype))))
            for name, output in zip(results[len(types) :], done.outputs[-len(results) + len(types) :], strict=True)
        ] if len(results) > len(types) else []  # fmt: skip
        return Ready(
            node=self.node, graph=graph, condition=condition, starts=self.states, types=types,
            after=results[: len(types)], collected=collected, reads=reads, lasting=lasting,
        )  # fmt: skip


@dataclass(frozen=True)
class Collected:
    """A value of the body that each step gives, its sizes, of which free ones are names, and its type."""

    name: str
    sizes: tuple[int | str, ...]
    dtype: int


@dataclass(kw_only=True)
class Ready:
    """A prepared body, to which nodes can be added; the node of the loop is around it.

    condition: the result that says whether there is another step. starts, types: of the states, by name; after: in
    that order their names after the step. reads: the names in the body of values around it, with their names there.
    lasting: free sizes that no step changes, each with a value around the loop that has it, and the axis.
    """

    node: Node
    graph: onnx.GraphProto
    condition: str
    starts: Mapping[str, str]
    types: Mapping[str, TypeProto]
    after: Sequence[str]
    collected: Sequence[Collected]
    reads: dict[str, str]
    lasting: Mapping[str, tuple[str, int]]
    count: int = 0

    @property
    def is_growing(self) -> bool:
        """Whether steps hand on what has another size before and after a step."""
        sizes = {dim.dim_param for kind in self.types.values() for dim in kind.tensor_type.shape.dim}
        return bool(self.collected or sizes.difference(("", *self.lasting)))

    def fresh(self, name: str) -> str:
        """A new name for a value in the body."""
        self.count += 1
        return f"{name}#{self.count}"

    def read(self, around: str) -> str:
        """The name in the body of a value around it."""
        name = self.fresh("around")
        self.reads[name] = around
        return name

    def add(
        self, operator: str, inputs: Sequence[str], dtype: int, dims: Sequence[int | None], **attributes: Any
    ) -> str:
        """Add a node behind the others; return its result, which has a type."""
        name = self.fresh(operator.lower())
        where = f"{self.node.proto.name}/step#{name}"
        self.graph.node.append(helper.make_node(operator, inputs, [name], name=where, **attributes))
        self.graph.value_info.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def size(self, size: int | str) -> int | str:
        """A size of the body that lasts as one around it: a number, or the name of a list of one."""
        return size if isinstance(size, int) else self.node.size(*self.lasting[size])

    def around(self, kind: TypeProto) -> TypeProto:
        """The type that a value has around the loop, where only sizes that no step changes have names."""
        outer = TypeProto.FromString(kind.SerializeToString())
        for dim in outer.tensor_type.shape.dim:
            if dim.dim_param:
                name, axis = self.lasting.get(dim.dim_param, ("", 0))
                symbol = self.node.type_of(name).tensor_type.shape.dim[axis].dim_param if name else ""
                dim.Clear()
                if symbol:
                    dim.dim_param = symbol
        return outer


def body_of(node: Node, graph: onnx.GraphProto, opsets: Sequence[onnx.OperatorSetIdProto], prepare: Prepare) -> Body:
    """The body of a loop, a copy in which nodes have names below that of the loop."""
    graph = onnx.GraphProto.FromString(graph.SerializeToString())
    for number, inner in enumerate(graph.node):
        inner.name = f"{node.proto.name}/{label(inner) or number}"
    return Body(node=node, opsets=opsets, prepare=prepare, graph=graph)
