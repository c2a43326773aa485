"""Preparation of a checked ONNX model for the importer: named nodes, opset 18, known shapes, weights as inputs.

Weights become function arguments because large constants take minutes and gigabytes to compile. Runs in the worker.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from numc.frontends.imported import Argument
from numc.frontends.onnx.alone import contradiction, contradicts, model_of
from numc.frontends.onnx.carriers.carry import in_carriers
from numc.frontends.onnx.exported import exported_words, words_of
from numc.frontends.onnx.folding.fold import fold, is_weight
from numc.frontends.onnx.loops.emit import DOMAIN
from numc.frontends.onnx.loops.keep import bodies_of, keep
from numc.frontends.onnx.loops.write_loops import write_loops
from numc.frontends.onnx.old_opsets import convert_version, opset_of
from numc.frontends.onnx.reading.budget import Budget
from numc.frontends.onnx.reading.read import label, origin, unsupported
from numc.frontends.onnx.reading.structure import names_read
from numc.frontends.onnx.reading.tensors import MAX_ELEMENTS, check_tensor
from numc.frontends.onnx.rewrite import Rewriting
from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.frontends.onnx.rewrites.structure.control import REFUSED
from numc.frontends.onnx.rewrites.table import CONTROL, QUANTISED, RULES, Rules
from numc.frontends.onnx.sizes.broadcast import broadcast
from numc.frontends.onnx.sizes.symbolic_sizes import more_sizes
from numc.frontends.onnx.supported import check_nodes, check_types
from numc.support.errors import NumcError, did_you_mean, shortened

_ROUNDS = 3
"""How often what onnx finds of sizes and what follows of products of them are put together."""

_DATA_SHAPES = {"Compress", "NonMaxSuppression", "NonZero", "Unique"}
"""Operators whose output sizes depend on data and may be zero."""

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Prepared:
    """The prepared model. The inputs of its graph are `inputs`, then `weights`, in order.

    has_branches: whether a condition may be computed, so that results of two branches have to fit together.
    """

    model: onnx.ModelProto
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    weights: dict[str, Array]
    nodes: dict[str, str]
    has_branches: bool

    @property
    def no_broadcast(self) -> bool:
        """Whether dynamic sizes that have to fit together are equal: all are one symbol, and none depends on data."""
        symbols = [s for a in self.inputs for size, s in zip(a.shape, a.symbols, strict=True) if size < 0]
        is_one_symbol = len(set(symbols)) == 1 and (symbols[0] != "" or len(symbols) == 1) and not self.has_branches
        return is_one_symbol and not _DATA_SHAPES.intersection(node.op_type for node in self.model.graph.node)


def prepare(
    model: onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]],
    large: Mapping[str, Array] = MappingProxyType({}),
    values: Mapping[str, Any] = MappingProxyType({}),
) -> Prepared:
    """Return the prepared model; `model` is changed in place. Raises NumcError if it cannot be imported.

    large: the values of initialisers that the graph has without data (read.Read). values: of inputs, numbers or lists.
    """
    check_nodes(model)
    graph = model.graph
    graph.name = "main"
    _check_names(graph)
    _name_nodes(graph)
    exported = exported_words(graph)
    _note_origins(graph)
    _drop_empty_padding(graph)
    constants = _take_constants(graph, large)
    for value in graph.output:
        if value.name in constants:
            _compute(graph, value, constants)
    _free_sizes(graph)
    constants.update(fixed := _fixed_values(graph, values))
    _fix_shapes(graph, {**shapes, **{name: value.shape for name, value in fixed.items()}})
    _remove_inputs(graph, fixed)
    declared = {value.name: len(_shape(value)) for value in graph.output if value.type.tensor_type.HasField("shape")}
    _forget_shapes(graph)
    users = list(graph.input)
    budget = Budget()
    # The sizes alone first: what shape inference computes of values can take memory itself.
    _check_sizes(_infer_shapes(_with_constants(model, constants), values=False).graph, budget)
    rewriting = Rewriting({node.name: node.op_type for node in graph.node})
    # Before the conversion, which leaves the nodes inside of others as they are.
    model = _settled(model, constants, budget, rewriting, CONTROL)
    has_branches = any(node.op_type == "If" for node in model.graph.node)
    _write_elements(model.graph)
    opsets, bodies = list(model.opset_import), bodies_of(model.graph)
    model = convert_version(_with_constants(model, constants))
    # The converter turns attributes such as axes into new constants, on which shapes depend.
    constants.update(_take_constants(model.graph))
    model, inside = _keep_loops(model, constants, opsets, bodies, rewriting.kinds)
    has_branches = has_branches or any(node.domain == DOMAIN for node in model.graph.node)
    if any((node.domain, node.op_type) in QUANTISED for node in model.graph.node):
        # While the types are those of the file.
        model = _settled(model, constants, budget, rewriting, QUANTISED)
    constants.update(_take_constants(model.graph))
    _forget_shapes(model.graph)
    inferred = _infer_shapes(_with_constants(model, constants)).graph
    check_types(model.graph, inferred, constants, opset_of(model), rewriting.kinds)
    dtypes = in_carriers(model.graph, constants, opset_of(model), inferred)
    model = _settled(model, constants, budget, rewriting, RULES)
    if broadcast(model.graph, constants, opset_of(model), rewriting.kinds):
        _name_nodes(model.graph)
        _forget_shapes(model.graph)
        model = _infer_shapes(_with_constants(model, constants))
    _check_sizes(model.graph, budget)
    _check_ranks(model, declared)
    weights = {value.name: constants[value.name] for value in model.graph.input[len(users) :]}
    write_loops(model)
    budget.check_constants("the model", sum(value.nbytes for value in weights.values()))
    matrices = {name for name, value in constants.items() if value.ndim == 2}
    return Prepared(
        model=model,
        inputs=tuple(_argument(value, dtypes) for value in model.graph.input[: len(users)]),
        outputs=tuple(_argument(value, dtypes) for value in model.graph.output),
        weights=weights,
        nodes={
            node.name: words_of(
                node, rewriting.kinds.get(node.name, node.op_type), exported.get(node.name, ""), matrices
            )
            for node in model.graph.node
        }
        | inside,
        has_branches=has_branches,
    )


def _settled(
    model: onnx.ModelProto, constants: dict[str, Array], budget: Budget, rewriting: Rewriting, rules: Rules
) -> onnx.ModelProto:
    """Return the model with the shapes that follow, after all that can be folded and rewritten has been."""
    while True:
        _prune(model.graph)
        model = _infer_shapes(_with_constants(model, constants))
        if fold(model.graph, constants, model.opset_import, budget):
            continue
        _name_nodes(model.graph)
        if not rewriting.step(model.graph, constants, opset_of(model), rules, partial(_contradictions, model)):
            return model
        constants.update(_take_constants(model.graph))
        _forget_shapes(model.graph)


def _keep_loops(
    model: onnx.ModelProto,
    constants: dict[str, Array],
    opsets: Sequence[onnx.OperatorSetIdProto],
    bodies: Mapping[str, onnx.GraphProto],
    kinds: dict[str, str],
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return the model with the loops that could not be unrolled as they are kept, and the words for their nodes.

    bodies, opsets: those of the loops before the conversion, which changes some of their nodes; bodies by name of the
    loop. kinds: by name of a node, the operator of the source that it belongs to. A loop that cannot be kept has the
    attribute REFUSED, the reason.
    """
    words: dict[str, str] = {}
    if bodies:
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    kept = bool(bodies)
    while kept:  # the sizes of what one loop gives may be those that another takes
        model, kept = _infer_shapes(_with_constants(model, constants)), False
        graph, nodes, refused = model.graph, list[onnx.NodeProto](), dict[int, str]()
        check_types(graph, graph, constants, opset_of(model), kinds)  # of loops, which are none for rules from here on
        types = {value.name: value.type for value in [*graph.input, *graph.output, *graph.value_info]}
        taken = {*types, *constants, *(name for node in graph.node for name in node.output)}
        for proto in graph.node:
            node = Node(proto=proto, types=types, constants=constants, opset=opset_of(model), taken=taken, last=True)
            if proto.name in bodies and proto.domain != DOMAIN:
                try:
                    words |= keep(node, bodies[proto.name], opsets, lambda body, large: prepare(body, {}, large))
                    kept = True
                except RefusedError as why:
                    refused[len(nodes)] = str(why)
                except (LookupError, TypeError, ValueError) as error:
                    refused[len(nodes)] = f"it is not what ONNX defines: {error}"
                if len(nodes) in refused:
                    node.made.clear()
            for made in node.made:
                made.name = proto.name if made.domain == DOMAIN else next(iter(made.output))
                made.doc_string = origin(proto)
                kinds[made.name] = proto.op_type
            nodes += node.made or [onnx.NodeProto.FromString(proto.SerializeToString())]
        if not kept:
            for number, reason in refused.items():
                nodes[number].attribute.append(onnx.helper.make_attribute(REFUSED, reason))
        del graph.node[:]
        graph.node.extend(nodes)
        _name_nodes(graph)
        _forget_shapes(graph)
    return model, words


def _write_elements(graph: onnx.GraphProto) -> None:
    """Let the elements of a sequence ``y`` that is an output be outputs ``y[0]``, ``y[1]``, ....

    Raises NumcError if it is not known how many they are.
    """
    made = {name: node for node in graph.node for name in node.output}
    outputs: list[onnx.ValueInfoProto] = []
    for value in graph.output:
        type_field, node = value.type.WhichOneof("value"), made.get(value.name)
        if type_field in (None, "tensor_type"):
            outputs.append(value)
        elif node is not None and node.op_type == "SequenceConstruct":
            for n, element in enumerate(node.input):
                name = f"{value.name}[{n}]"
                graph.node.append(onnx.helper.make_node("Identity", [element], [name], name=name))
                outputs.append(onnx.ValueInfoProto(name=name))
        elif node is not None and node.op_type == "Identity" and type_field == "optional_type":
            outputs.append(onnx.ValueInfoProto(name=value.name))
        else:
            raise NumcError(f"the output '{value.name}' is a sequence or an optional, and what it holds depends on "
                            "data: only tensors and sequences of a length that is known are available")  # fmt: skip
    if not outputs:
        raise NumcError("its outputs are sequences without elements; nothing to compile")
    kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in outputs]
    del graph.output[:]
    graph.output.extend(kept)


def _check_names(graph: onnx.GraphProto) -> None:
    """Refuse a graph in which two inputs have one name: nothing tells which of them a node reads."""
    names = [value.name for value in graph.input]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise NumcError(f"{names.count(name)} inputs are called '{name}': every input needs a name of its own")


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a unique name, which becomes its location in the IR and the name of a layer."""
    seen: set[str] = set()
    for node in graph.node:
        name = label(node)
        if name in seen:
            name = next((output for output in node.output if output), name)
        count = 1
        base = name
        while name in seen:
            count += 1
            name = f"{base}#{count}"
        node.name = name
        seen.add(name)


def _note_origins(graph: onnx.GraphProto) -> None:
    """Write down in every node the name that users know it by, which what is made of it keeps for messages."""
    for node in graph.node:
        node.doc_string = label(node)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _note_origins(inner)


def _drop_empty_padding(graph: onnx.GraphProto) -> None:
    """Remove each auto_pad that is empty, which onnxruntime takes for NOTSET, and shape inference for padding."""
    for node in graph.node:
        for attribute in list(node.attribute):
            for inner in (attribute.g, *attribute.graphs):
                _drop_empty_padding(inner)
            if attribute.name == "auto_pad" and not attribute.s:
                node.attribute.remove(attribute)


def _take_constants(graph: onnx.GraphProto, large: Mapping[str, Array] = MappingProxyType({})) -> dict[str, Array]:
    """Remove every initialiser and Constant node from the graph; return their values by name.

    large: the values that the graph lacks.
    """
    constants: dict[str, Array] = {}
    for tensor in graph.initializer:
        constants[tensor.name] = large[tensor.name] if tensor.name in large else _value(tensor)
    del graph.initializer[:]
    # Before IR version 4, initialisers were listed as inputs too. A default value of an input counts as a weight.
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    rest = []
    for node in graph.node:
        value = _constant_node(node) if node.op_type == "Constant" else None
        if value is None:
            rest.append(node)
        else:
            constants[node.output[0]] = value
    del graph.node[:]
    graph.node.extend(rest)
    return constants


def _compute(graph: onnx.GraphProto, output: onnx.ValueInfoProto, constants: dict[str, Array]) -> None:
    """Let a node compute an output that is a constant."""
    name = f"{output.name}/value"
    constants[name] = constants.pop(output.name)
    for node in graph.node:
        node.input[:] = [name if read == output.name else read for read in node.input]
    graph.node.append(onnx.helper.make_node("Identity", [name], [output.name], name=output.name))


def _value(tensor: onnx.TensorProto) -> Array:
    try:
        value: Array = numpy_helper.to_array(tensor)
        return value
    except Exception as error:
        raise NumcError(f"constant '{tensor.name}' is damaged: {error}") from None


def _constant_node(node: onnx.NodeProto) -> Array | None:
    for attribute in node.attribute:
        if attribute.name == "value":
            check_tensor(attribute.t, f"constant '{node.name}'")
            return _value(attribute.t)
        if attribute.name in ("value_float", "value_floats"):
            return np.array(onnx.helper.get_attribute_value(attribute), dtype=np.float32)
        if attribute.name in ("value_int", "value_ints"):
            return np.array(onnx.helper.get_attribute_value(attribute), dtype=np.int64)
    return None


def _free_sizes(graph: onnx.GraphProto) -> None:
    """Make sizes of inputs free that converters write as -1, or as a question mark, which is no name."""
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == -1 or dim.dim_param == "?":
                dim.Clear()


def _fixed_values(graph: onnx.GraphProto, values: Mapping[str, Any]) -> dict[str, Array]:
    """Return the values of inputs as the graph has their types. Raises NumcError for those that do not fit."""
    inputs = {value.name: value for value in graph.input}
    arrays = {}
    for name, argument in values.items():
        if name not in inputs:
            allowed = ", ".join(inputs) or "none"
            raise NumcError(f"values: no input '{name}'{did_you_mean(name, inputs)}; the inputs are {allowed}")
        tensor_type, wide = inputs[name].type.tensor_type, np.asarray(argument)
        declared = _shape(inputs[name]) if tensor_type.HasField("shape") else wide.shape
        if wide.size == 1 and all(size in (-1, 1) for size in declared):
            wide = wide.reshape([1] * len(declared))
        if len(wide.shape) != len(declared) or any(
            d not in (-1, size) for d, size in zip(declared, wide.shape, strict=True)
        ):
            raise NumcError(f"values: '{name}': got the shape {list(wide.shape)}, want {list(declared)}")
        with np.errstate(all="ignore"):
            value = wide.astype(dtype := onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type))
        if dtype.kind in "biu" and not np.array_equal(value, wide):
            raise NumcError(f"values: '{name}' is of {dtype}, which does not have {shortened(wide.tolist())}")
        arrays[name] = value
    return arrays


def _remove_inputs(graph: onnx.GraphProto, names: Collection[str]) -> None:
    kept = [value for value in graph.input if value.name not in names]
    if names and not kept:
        raise NumcError("values: every input has a value; nothing is left to compute")
    del graph.input[:]
    graph.input.extend(kept)


def _fix_shapes(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the shapes given into the inputs, and into all sizes with the same symbolic name."""
    inputs = {value.name: value for value in graph.input}
    symbols: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            allowed = ", ".join(inputs) or "none"
            raise NumcError(f"shapes: no input '{name}'{did_you_mean(name, inputs)}; the inputs are {allowed}")
        if any(size < 1 for size in shape):
            raise NumcError(f"shapes: {name}={list(shape)}: sizes start at 1")
        tensor = inputs[name].type.tensor_type
        declared = _shape(inputs[name])
        if not tensor.HasField("shape"):
            tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in shape)
        elif len(shape) != len(declared):
            raise NumcError(f"shapes: '{name}' has {len(declared)} dimensions {list(declared)}, found {list(shape)}")
        for dim, size in zip(tensor.shape.dim, shape, strict=True):
            if dim.HasField("dim_value") and dim.dim_value not in (0, size):
                raise NumcError(f"shapes: '{name}' has the static shape {list(declared)}, found {list(shape)}; "
                                "only dynamic sizes (-1) can be set")  # fmt: skip
            if dim.dim_param:
                before, where = symbols.setdefault(dim.dim_param, (size, name))
                if before != size:
                    raise NumcError(f"shapes: '{dim.dim_param}' would be {before} (in '{where}') and {size} "
                                    f"(in '{name}'); give both the same size")  # fmt: skip
            dim.dim_value = size
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param][0]


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Drop what the file says of the shapes of results: exporters get it wrong, and it follows from the inputs."""
    del graph.value_info[:]
    for output in graph.output:
        if output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _forget_shapes(inner)


def _with_constants(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """Write the used constants back: large floats as graph inputs after the user's, the others as initialisers."""
    graph = model.graph
    used = {name for node in graph.node for name in names_read(node)} | {value.name for value in graph.output}
    users = [value for value in graph.input if value.name not in constants]
    hoisted, kept = [], []
    for name, value in constants.items():
        if name not in used:
            continue
        if is_weight(value):
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            hoisted.append(onnx.helper.make_tensor_value_info(name, elem_type, value.shape))
        else:
            kept.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
    del graph.input[:], graph.initializer[:]
    graph.input.extend([*users, *hoisted])
    graph.initializer.extend(kept)
    stale = [value for value in graph.value_info if value.name not in constants]
    del graph.value_info[:]
    graph.value_info.extend(stale)
    return model


def _infer_shapes(model: onnx.ModelProto, *, values: bool = True) -> onnx.ModelProto:
    """Return the model with the shapes that follow. values: also from values that are computed of sizes."""
    inferred = _infer_once(model, values)
    notes: dict[str, onnx.TypeProto] = {}
    for _ in range(_ROUNDS if values else 0):
        if not (more := more_sizes(inferred.graph)):
            break
        notes |= more
        noted = onnx.ModelProto.FromString(model.SerializeToString())
        _forget_shapes(noted.graph)
        outputs = {value.name: value for value in noted.graph.output}
        for name, type_proto in notes.items():
            if name in outputs:
                outputs[name].type.CopyFrom(type_proto)
            else:
                noted.graph.value_info.append(onnx.ValueInfoProto(name=name, type=type_proto))
        inferred = _infer_once(noted, values)
    return inferred


def _infer_once(model: onnx.ModelProto, values: bool) -> onnx.ModelProto:
    hidden = _products(model.graph)
    while True:
        inferred = _infer_named(model, values, hidden)
        if not (zeros := _zeros(inferred.graph, hidden)):
            return inferred
        hidden |= zeros


def _infer_named(model: onnx.ModelProto, values: bool, hidden: Mapping[tuple[int, int], str]) -> onnx.ModelProto:
    """Infer shapes but of the outputs of nodes that are hidden, which have their names again then."""
    _name_outputs(model.graph, dict.fromkeys(hidden, ""))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=values)
    except Exception as error:
        if "bad_alloc" in str(error):
            raise MemoryError from None
        raise NumcError(f"shapes of the model contradict each other: {_first_line(error)}") from None
    finally:
        _name_outputs(model.graph, hidden)
    _name_outputs(inferred.graph, hidden)
    return inferred


def _products(graph: onnx.GraphProto) -> dict[tuple[int, int], str]:
    """The products of queries and keys, by node and output: onnx infers 0 of a free number of keys."""
    nodes = [(n, node) for n, node in enumerate(graph.node) if node.op_type == "Attention" and len(node.output) > 3]
    return {(n, 3): node.output[3] for n, node in nodes}


def _zeros(graph: onnx.GraphProto, hidden: Collection[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """The results of attentions, by node and output, of which onnx infers 0 because sizes of the values are free."""
    shapes = {value.name: _shape(value) for value in [*graph.input, *graph.value_info]}
    return {
        (n, 0): node.output[0]
        for n, node in enumerate(graph.node)
        if node.op_type == "Attention" and (n, 0) not in hidden and shapes.get(node.input[2], ())[2:] == (-1,)
    }


def _name_outputs(graph: onnx.GraphProto, names: Mapping[tuple[int, int], str]) -> None:
    for (n, output), name in names.items():
        graph.node[n].output[output] = name


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _prune(graph: onnx.GraphProto) -> None:
    """Remove nodes that no output depends on, and results of recurrent nodes that nothing reads."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            if node.op_type in ("GRU", "LSTM", "RNN"):
                node.output[:] = [name if name in needed else "" for name in node.output]
            needed.update(names_read(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _check_sizes(graph: onnx.GraphProto, budget: Budget) -> None:
    for value in [*graph.input, *graph.output, *graph.value_info]:
        shape = list(_shape(value))
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim if dim.HasField("dim_value")]
        if any(size < 0 for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
            raise NumcError(f"'{value.name}' would have shape {shape}: sizes must not be negative and "
                            f"a tensor has at most {MAX_ELEMENTS} elements")  # fmt: skip
        if len(sizes) == len(shape) and value.type.tensor_type.elem_type:
            width = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
            budget.check_tensor(value.name, shape, width * math.prod(shape))


def _check_ranks(model: onnx.ModelProto, declared: Mapping[str, int]) -> None:
    """Raise NumcError unless all ranks are known. declared: those of outputs that nothing else may tell."""
    graph = model.graph
    for value in graph.output:
        tensor_type = value.type.tensor_type
        if not tensor_type.HasField("shape") and value.name in declared:
            tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(declared[value.name]))
            tensor_type.shape.SetInParent()
    for value in [*graph.input, *graph.output]:
        if not value.type.tensor_type.HasField("shape"):
            if refusals := _contradictions(model):
                raise unsupported(refusals)
            raise NumcError(f"'{value.name}' has no known rank; give shapes={{...}} for the inputs")


def _contradictions(model: onnx.ModelProto) -> list[tuple[str, str, int | None, str]]:
    """Return the nodes whose inputs, all of which are known, do not fit together, as `unsupported` takes them."""
    graph = model.graph
    refusals: list[tuple[str, str, int | None, str]] = []
    constants = {tensor.name: tensor for tensor in graph.initializer}
    values = [*graph.input, *graph.value_info, *graph.output]
    types = {value.name: value for value in values if value.type.tensor_type.HasField("shape")}
    for node in graph.node:
        known = all(name in types or name in constants for name in node.input if name)
        if (
            known
            and any(name not in types for name in node.output if name)
            and contradicts(model_of(node, types, constants, model))
        ):
            why = contradiction(node, types, constants)
            refusals.append((origin(node), node.op_type, opset_of(model), why))
    return refusals


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim)


def _argument(value: onnx.ValueInfoProto, dtypes: Mapping[str, str]) -> Argument:
    """An input or an output. dtypes: of those that have another type in the file, by name."""
    dtype = dtypes.get(value.name) or str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    symbols = tuple("" if dim.HasField("dim_value") else dim.dim_param for dim in value.type.tensor_type.shape.dim)
    return Argument(value.name, dtype, _shape(value), symbols)
