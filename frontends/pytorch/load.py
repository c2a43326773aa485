"""The import of PyTorch modules by torch.export and torch-mlir; of files, what a worker does (file.py).

Importing this module imports torch, which numc itself does not need.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx
from torch._dynamo.convert_frame import compile_lock
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export import _trace as tracing
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.export.pt2_archive._package import load_pt2
from torch.utils import _pytree as pytree

from numc.frontends.imported import Argument, ConversionError, Imported, to_message
from numc.frontends.lowering.torch_mlir_passes import one_line, prepare
from numc.frontends.pytorch.archive import cleaned
from numc.frontends.pytorch.convert import diagnose, to_linalg
from numc.frontends.pytorch.decompositions import decomposition_table, listed_once
from numc.frontends.pytorch.graphs import guards
from numc.frontends.pytorch.graphs.complex_numbers import is_complex, without_complex
from numc.frontends.pytorch.graphs.containers import as_bytes
from numc.frontends.pytorch.graphs.empties import without_empties
from numc.frontends.pytorch.graphs.graph import (
    DTYPES,
    listed,
    names_of,
    refusals,
    tensor_problem,
    values_of,
    words_of,
)
from numc.frontends.pytorch.graphs.narrow import widened
from numc.frontends.pytorch.graphs.selections import by_places
from numc.frontends.pytorch.graphs.strides import with_eager_strides
from numc.frontends.pytorch.graphs.traced_first import traced_as_in_the_table
from numc.frontends.pytorch.places import place_in, place_of
from numc.frontends.pytorch.rewrites.images.boxes import any_number_kept
from numc.frontends.pytorch.rewrites.images.detectors import define, without_branches
from numc.frontends.pytorch.rewrites.images.responses import across_channels
from numc.frontends.pytorch.rewrites.views import any_size_split
from numc.frontends.words import together
from numc.frontends.workers import process
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.support.errors import NumcError
from numc.support.replaced import replaced

MAX_SIZE = 2**31 - 1
_QUANTISED = re.compile(r"torch\.ao\.nn\.(intrinsic\.)?quantized\b|torch\.ao\.nn\.sparse\.quantized\b")
# torch's words where a kind of tensor takes no operation that autograd has not seen yet.
_NO_SUBCLASS = "Unable to cast NotImplemented to Tensor"
_CACHE = re.compile(r"<class 'transformers\.cache_utils\.(\w+)'>")


def is_model(value: object) -> bool:
    """Whether `value` is a module or an exported program, which `load` takes."""
    return isinstance(value, (torch.nn.Module, ExportedProgram))


def load(
    module: torch.nn.Module | ExportedProgram,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
) -> Imported:
    """Import a module, traced with `example_inputs`, or an exported program. A torch.fx.GraphModule is a module too.

    example_inputs: a tensor, a tuple of the positional arguments, or a dict of the named ones. dynamic_shapes: as for
    torch.export; None fixes every size. The arguments of ``@main`` are the inputs, then the parameters, buffers and
    constants that are used. Buffers that forward changes are inputs, too. Raises NumcError if the module cannot be
    traced or has something that numc does not compile.
    """
    prepare()
    # torch traces in one thread at a time, and torch.compile waits for this lock, too.
    with compile_lock, any_number_kept(), without_branches(), any_size_split():
        return _loaded(module, example_inputs, dynamic_shapes)


def _loaded(module: torch.nn.Module | ExportedProgram, example_inputs: Any, dynamic_shapes: Any) -> Imported:
    if isinstance(module, ExportedProgram):
        if example_inputs is not None or dynamic_shapes is not None:
            raise NumcError("an exported program has its inputs and sizes: leave example_inputs and dynamic_shapes out")
        return _imported(module, "exported program", {})
    name = type(module).__name__
    if example_inputs is None:
        raise NumcError(f"{name}: a module is traced: give example_inputs, such as (torch.randn(1, 3, 224, 224),)")
    _check_modules(name, module)
    _check_tensors(name, module, example_inputs)
    args, kwargs = _arguments(_dense_and_apart(example_inputs))
    try:
        with _quiet(), torch.no_grad():
            program = _exported(module, args, kwargs, dynamic_shapes)
    except Exception as error:
        raise NumcError(f"{name}: cannot be exported: {_explained(error)}") from None
    return _imported(program, name, _dim_names(args, kwargs, dynamic_shapes), module, least=_least(dynamic_shapes))


def _dense_and_apart(example_inputs: Any) -> Any:
    """Return example inputs of which each is dense and an object of its own.

    A program takes dense arrays: torch would make conditions on sizes from other strides. Of a tensor that is given
    twice, torch.export would let all uses of both inputs read the last one.
    """
    seen: list[torch.Tensor] = []

    def one(tensor: torch.Tensor) -> torch.Tensor:
        dense = tensor.contiguous()
        seen.append(dense.clone() if any(dense is other for other in seen) else dense)
        return seen[-1]

    return pytree.tree_map_only(torch.Tensor, one, example_inputs)


def _exported(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    """Export a module: by running its Python, or, if that loses a buffer, by torch.compile's reading of its bytecode.

    Running it does not find out that an object which is no module, such as a cache, holds a buffer: a change of the
    buffer would be lost.
    """
    try:
        with across_channels():
            program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except RuntimeError as error:
        if str(error) != _NO_SUBCLASS:
            raise
        # So do the float8 tensors that torchao trains with. As torch.compile does, trace what they are made of.
        return tracing._export(module, args, kwargs, dynamic_shapes, strict=False, pre_dispatch=False)
    if _changes_constant(program, {buffer.data_ptr() for buffer in module.buffers() if buffer.numel()}):
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=True)
    return program


def _changes_constant(program: ExportedProgram, buffers: Collection[int]) -> bool:
    """Whether a program may change a constant that is also a buffer, of which `buffers` are the addresses."""
    specs = program.graph_signature.input_specs
    # A buffer that is not saved is among the constants, too, but known as a buffer.
    lifted = [spec for spec in specs if spec.kind == InputKind.CONSTANT_TENSOR]
    values = {spec.arg.name: program.constants.get(str(spec.target)) for spec in lifted}
    seen = {n for n, value in values.items() if isinstance(value, torch.Tensor) and value.data_ptr() in buffers}
    if not seen:
        return False
    # A buffer that changes may be such a constant under its other name.
    seen |= {spec.arg.name for spec in specs if spec.kind == InputKind.BUFFER}
    for node in program.graph.nodes:
        if node.op == "call_function" and any(operand.name in seen for operand in node.all_input_nodes):
            seen.add(node.name)
            known = isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.is_mutable
            if not known and node.target is not getitem:
                return True
    return False


def read_program(path: str) -> ExportedProgram:
    """Return what ``torch.export.save`` wrote into a file. Raises NumcError if it cannot be read."""
    archive = cleaned(Path(path))
    define()
    try:
        with _quiet():
            return load_pt2(archive).exported_programs["model"]
    except Exception as error:
        reason = one_line(f"{error}" or type(error).__name__, 120)
        raise NumcError(f"{path}: cannot read: {reason}: want a file that torch.export.save wrote") from None


def import_task(request: dict[str, Any], _: Parts, stage: Stage) -> Answer:
    """Import the file `path` of a request in a worker. Raises NumcError if it cannot be read or imported."""
    path = request["path"]
    stage("read")
    program = read_program(path)
    stage("convert")
    with any_number_kept():
        return to_message(_imported(program, path, {}))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's warnings about its own internals, and what it writes of failures that an error of numc tells."""
    logger, written = logging.getLogger("torch"), io.StringIO()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(written):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("ignore", "While compiling, we found certain side effects")
            yield
    finally:
        logger.setLevel(level)
    sys.stderr.write(written.getvalue())


def _arguments(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, Mapping):
        return (), dict(given)
    return (tuple(given) if isinstance(given, (tuple, list)) else (given,)), {}


def _check_tensors(name: str, module: torch.nn.Module, example_inputs: Any) -> None:
    named = [(f"parameter '{n}'", p) for n, p in module.named_parameters()]
    named += [(f"buffer '{n}'", b) for n, b in module.named_buffers()]
    named = [(what, tensor) for what, tensor in named if not is_complex(tensor)]
    for path, value in pytree.tree_flatten_with_path(example_inputs)[0]:
        if isinstance(value, torch.Tensor):
            named.append((f"example input {pytree.keystr(path) or '0'}", value))
    for what, tensor in named:
        if problem := tensor_problem(tensor):
            raise NumcError(f"{name}: {what} {problem[0]}; {problem[1]}")


def _check_modules(name: str, module: torch.nn.Module) -> None:
    """Refuse modules whose weights are in objects of C++, which torch.export cannot take."""
    quantised: dict[str, str] = {}
    for path, each in module.named_modules():
        if _QUANTISED.match(type(each).__module__) and not any(path.startswith(f"{outer}.") for outer in quantised):
            quantised[path] = f"'{path}' ({type(each).__name__})" if path else type(each).__name__
    if quantised:
        raise NumcError(
            f"{name}: quantised modules of torch.ao are not available: {', '.join(quantised.values())}; compile the "
            "module as it was before, in an arithmetic of integers such as fma='int8', or an ONNX file that "
            "onnxruntime has quantised"
        )


def _explained(error: Exception) -> str:
    """Return the reason that torch.export gives, in one line, and the user's line where it failed."""
    text, _, stack = str(error).strip().partition("Original traceback:")
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        text = "a size or branch depends on data; make it constant, with torch.where instead of an if"
    elif "DynamicOutputShape" in type(error).__name__:
        text = f"the size of what {text} makes depends on data; run it eagerly: torch.compile(backend='numc')"
    elif cache := _CACHE.search(text):
        text = (
            f"{cache[1]} of transformers is an argument or a result: call transformers.integrations.executorch."
            "register_dynamic_cache_export_support() first, or leave the cache out with use_cache=False"
        )
    else:
        paragraph = text.split("\n\n")[0] or type(error).__name__
        text = one_line(paragraph, 200)
    # Of an operation of a graph, to which no frame of Python belongs, torch writes the stack down.
    frames = ((frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
    location = place_in(stack) or place_of(frames)
    return f"{text} ({location})" if location else text


def _dim_names(args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> dict[tuple[int, int], str]:
    """Return the names that the user gave to sizes, by number of the input and dimension."""
    if dynamic_shapes is None:
        return {}
    values = list(dynamic_shapes.values() if isinstance(dynamic_shapes, Mapping) else dynamic_shapes)
    names: dict[tuple[int, int], str] = {}
    flat = all(isinstance(v, torch.Tensor) for v in (*args, *kwargs.values()))
    for number, sizes in enumerate(values if flat else ()):
        pairs = sizes.items() if isinstance(sizes, Mapping) else enumerate(sizes or ())
        for dim, size in pairs:
            name = getattr(size, "__name__", None)
            if isinstance(dim, int) and isinstance(name, str):
                names[number, dim] = name
    return names


def _imported(
    program: ExportedProgram,
    name: str,
    dims: Mapping[tuple[int, int], str],
    module: torch.nn.Module | None = None,
    *,
    least: int = 0,
) -> Imported:
    try:
        with _quiet(), torch.no_grad():
            program = _decomposed(with_eager_strides(program))
            if without_complex(program):
                program = _decomposed(program)
            as_bytes(program)
    except NumcError as error:
        raise NumcError(f"{name}: {error}") from None
    except Exception as error:
        raise NumcError(f"{name}: cannot be decomposed: {_explained(error)}") from None
    _check_weights(program, name)
    if module is not None:
        _check_mode(program, module)
    graph = program.graph
    by_places(graph)
    without_empties(graph)
    if refused := refusals(graph):
        # What cannot be lowered is found here, too, so that the message names all at once.
        raise NumcError(f"{name}: {listed(refused + [failure for _, failure in diagnose(graph.nodes)])}")
    symbols = _symbols(program, dims)
    inputs, weights = _order_arguments(program, name, symbols)
    outputs, updates = _order_outputs(program, name, inputs, symbols)
    names = names_of(graph)
    try:
        sizes = _sizes(graph, symbols)
        text = to_linalg(graph, names, lambda made: guards.check(made, guards.conditions(graph), sizes))
    except ConversionError as error:
        culprits = [failure for _, failure in diagnose(graph.nodes)]
        raise NumcError(
            f"{name}: {listed(culprits) if culprits else together(error.said, {'graph.txt': str(graph)})}"
        ) from None
    except process.LimitError as error:
        raise NumcError(f"{name}: {error}") from None
    return Imported(
        mlir=text,
        inputs=inputs,
        outputs=outputs,
        weights=weights,
        sources=(name,),
        nodes={names[node]: words_of(node) for node in graph.nodes if node in names},
        ranges=_ranges(program, symbols, least),
        updates=updates,
    )


def _decomposed(given: ExportedProgram) -> ExportedProgram:
    """Return an exported program in the operations that torch-mlir lowers, with the same names of inputs.

    Meanwhile it takes and returns a tuple of tensors: torch would trace how arguments and results are made from tensors
    once more, in a cache of transformers with constants that it does not keep.
    """
    program = given
    names = [spec.arg.name for spec in _inputs_of(program)]
    signature, examples = program.module_call_graph[0].signature, program._example_inputs
    assert signature is not None
    nested = replace(signature)
    signature.in_spec = pytree.tree_flatten(((0,) * nested.in_spec.num_leaves, {}))[1]
    signature.out_spec = pytree.tree_flatten((0,) * nested.out_spec.num_leaves)[1]
    signature.forward_arg_names = program._example_inputs = None
    try:
        with _all_constants(given), listed_once(), traced_as_in_the_table():
            program = program.run_decompositions(decomposition_table())
    finally:
        vars(signature).update(vars(nested))
        given._example_inputs = examples
    program.module_call_graph[0].signature = nested
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec, name in zip(_inputs_of(program), names, strict=True):
        for output in program.graph_signature.output_specs:
            if output.kind == OutputKind.USER_INPUT_MUTATION and output.target == spec.arg.name:
                output.target = name
        placeholders[spec.arg.name].name = spec.arg.name = name
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_tensor_metadata.default):
        program.graph.erase_node(node)  # torch has checked it when it traced the graph
    return program


@contextlib.contextmanager
def _all_constants(program: ExportedProgram) -> Iterator[None]:
    """Keep the tensors that operations of subclasses make while a program is decomposed: torch drops them."""
    lifted, stored = tracing._materialize_and_lift_constants, program._constants
    program._constants = {**stored}

    def lift(*args: Any) -> Any:
        constants = lifted(*args)
        program._constants.update({name: value for name, value in constants.items() if name not in stored})
        return constants

    try:
        with replaced(tracing, _materialize_and_lift_constants=lift):
            yield
    finally:
        program._constants = stored


def _inputs_of(program: ExportedProgram) -> list[InputSpec]:
    return [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]


def _ranges(program: ExportedProgram, symbols: Mapping[str, str], least: int) -> dict[str, tuple[int, int]]:
    """Return the limits of the free sizes, as given by the user or derived by torch from the module's code.

    least: the smallest size that the user asks for, or 0. torch takes a size for neither 0 nor 1 while it traces, and
    takes both when it runs: 2 is a limit only if the user has said so, with an end.
    """
    ranges = {}
    for symbol, limits in program.range_constraints.items():
        low, high = int(max(0, limits.lower)), int(min(MAX_SIZE, limits.upper))
        if low == 2 and (least != 2 or high == MAX_SIZE):
            low = 0
        if (low, high) != (0, MAX_SIZE):
            ranges[symbols.get(str(symbol), str(symbol))] = (low, high)
    return ranges


def _least(dynamic_shapes: Any) -> int:
    """Return 2 if a size is given as one from 2 on, else 0."""
    return 2 if any(getattr(size, "min", None) == 2 for size in pytree.tree_leaves(dynamic_shapes)) else 0


def _check_weights(program: ExportedProgram, name: str) -> None:
    """Raise NumcError if numc cannot take a weight, or if the program changes one."""
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.PARAMETER_MUTATION:
            raise NumcError(f"{name}: it changes parameter '{spec.target}' in place, which a program cannot keep: "
                            "train with torch.compile(backend='numc')")  # fmt: skip
    for what, tensor in [*program.state_dict.items(), *program.constants.items()]:
        if isinstance(tensor, torch.Tensor) and (problem := tensor_problem(tensor)):
            raise NumcError(f"{name}: weight '{what}' {problem[0]}; {problem[1]}")


def _check_mode(program: ExportedProgram, module: torch.nn.Module) -> None:
    """Raise NumcError if a module is in training mode and changes buffers, such as the statistics of a batch norm."""
    changed = [f"'{target}'" for target in _changed(program, OutputKind.BUFFER_MUTATION).values()]
    if changed and module.training:
        raise NumcError(f"{type(module).__name__}: it changes {', '.join(changed)} in place, which a program cannot "
                        "keep: call module.eval() first, or train with torch.compile(backend='numc')")  # fmt: skip


def _changed(program: ExportedProgram, *kinds: OutputKind) -> dict[int, str]:
    """Return, by position among all results, the inputs or buffers whose new values they are."""
    specs = enumerate(program.graph_signature.output_specs)
    return {n: str(spec.target) for n, spec in specs if spec.kind in kinds}


def _order_arguments(
    program: ExportedProgram, name: str, symbols: Mapping[str, str]
) -> tuple[tuple[Argument, ...], dict[int, tuple[str, npt.NDArray[np.float32]]]]:
    """Put the inputs before the weights in the graph and remove unused arguments.

    Returns the inputs, and the weights by position.
    """
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs: list[Argument] = []
    order: list[fx.Node] = []
    weights: list[tuple[str, npt.NDArray[Any]]] = []
    changed = _changed(program, OutputKind.BUFFER_MUTATION).values()
    # Buffers that the program changes are its last inputs.
    for spec in sorted(program.graph_signature.input_specs, key=lambda spec: spec.target in changed):
        node = placeholders.get(getattr(spec.arg, "name", ""))
        if node is None:
            continue
        if spec.target in changed:
            inputs.append(_argument(str(spec.target), values_of(node)[0], symbols))
            order.append(node)
        elif spec.kind == InputKind.USER_INPUT:
            (value,) = values_of(node)
            if not isinstance(value, torch.Tensor):
                if node.users:
                    type_name = type(value).__name__
                    raise NumcError(f"{name}: input '{node.name}' is of type {type_name}; only tensors may vary: "
                                    "make it an attribute of the module")  # fmt: skip
                program.graph.erase_node(node)
                continue
            if problem := tensor_problem(value):
                raise NumcError(f"{name}: input '{node.name}' {problem[0]}; {problem[1]}")
            for size in value.shape:
                if not isinstance(size, torch.SymInt) or size.node.expr.is_symbol:
                    continue
                if size.node.expr.is_number:
                    raise NumcError(
                        f"{name}: input '{node.name}' has a free size, of which torch traces an operation only as "
                        f"{size}: fix it, without an entry in dynamic_shapes"
                    )
                raise NumcError(f"{name}: input '{node.name}' has size {size}; a size is a number or free by itself")
            inputs.append(_argument(node.name, value, symbols))
            order.append(node)
        elif not node.users:
            program.graph.erase_node(node)
        else:
            stored = program.state_dict if spec.target in program.state_dict else program.constants
            tensor = stored[spec.target]
            if not isinstance(tensor, torch.Tensor):
                raise NumcError(f"{name}: constant '{spec.target}' is no tensor; only tensors are available")
            # A program holds every weight as its code reads it: a narrow one widened, to the same values.
            node.meta = {"val": widened(node.meta["val"])}
            weights.append((str(spec.target), widened(tensor.detach()).contiguous().numpy()))
    if not inputs:
        raise NumcError(f"{name}: it has no tensor inputs; nothing to compute")
    for node in reversed(order):
        first = next(iter(program.graph.nodes))
        if node is not first:
            first.prepend(node)
    return tuple(inputs), dict(enumerate(weights, start=len(inputs)))


def _symbols(program: ExportedProgram, dims: Mapping[tuple[int, int], str]) -> dict[str, str]:
    """Return the user's name of every symbol that has one."""
    names: dict[str, str] = {}
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for number, input_name in enumerate(program.graph_signature.user_inputs):
        for (position, dim), name in dims.items():
            if position == number and isinstance(input_name, str):
                (value,) = values_of(placeholders[input_name])
                names.setdefault(str(value.shape[dim]), name)
    return names


def _sizes(graph: fx.Graph, symbols: Mapping[str, str]) -> dict[Any, tuple[guards.Place, str]]:
    """Return where the free sizes of a graph are, and their names."""
    free_sizes: dict[Any, tuple[guards.Place, str]] = {}
    for number, node in enumerate(graph.find_nodes(op="placeholder")):
        for value in values_of(node):
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    free_sizes.setdefault(size.node.expr, ((number, dim), symbols.get(str(size), str(size))))
    return free_sizes


def _argument(name: str, value: torch.Tensor, symbols: Mapping[str, str]) -> Argument:
    sizes, texts = [], []
    for size in value.shape:
        symbolic = isinstance(size, torch.SymInt)
        sizes.append(-1 if symbolic else int(size))
        texts.append(symbols.get(str(size), str(size)) if symbolic else "")
    return Argument(name, DTYPES[value.dtype], tuple(sizes), tuple(texts))


def _order_outputs(
    program: ExportedProgram, name: str, inputs: Sequence[Argument], symbols: Mapping[str, str]
) -> tuple[tuple[Argument, ...], dict[int, int]]:
    """Put the results of forward before the new values of inputs, and leave those out that are None.

    Returns the outputs, named by their place in the result of forward or after their input, and by position of a new
    value that of its input.
    """
    output = next(node for node in reversed(program.graph.nodes) if node.op == "output")
    values = list(output.args[0])
    changed = _changed(program, OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    returned = [value for n, value in enumerate(values) if n not in changed]
    traced = [value.meta["val"] if isinstance(value, fx.Node) else value for value in returned]
    with detect_fake_mode(traced) or contextlib.nullcontext():  # a cache of transformers computes when it is made
        result = pytree.tree_unflatten(traced, program.call_spec.out_spec)
        labels = [_label(path) for path, _ in pytree.tree_flatten_with_path(result)[0]]
    labelled = [(label, node) for label, node in zip(labels, returned, strict=True) if node is not None]
    if not labelled and not changed:
        raise NumcError(f"{name}: it returns no tensor; nothing to compile")
    numbers = {argument.name: number for number, argument in enumerate(inputs)}
    updates = {len(labelled) + n: numbers[target] for n, target in enumerate(changed.values())}
    labelled += [(target + "_updated" * (target in labels), values[n]) for n, target in changed.items()]
    outputs: list[Argument] = []
    kept: list[fx.Node] = []
    for label, node in labelled:
        value = node.meta["val"] if isinstance(node, fx.Node) else node
        if not isinstance(value, torch.Tensor):
            raise NumcError(f"{name}: {label} is of type {type(value).__name__}; only tensors may be returned")
        if problem := tensor_problem(value):
            raise NumcError(f"{name}: {label} {problem[0]}; {problem[1]}")
        if node.op == "placeholder" or node in kept:  # the importer requires distinct results of operations
            with program.graph.inserting_before(output):
                copy = program.graph.call_function(torch.ops.aten.clone.default, (node,))
            copy.meta = {"val": value}
            node = copy
        kept.append(node)
        outputs.append(_argument(label, value, symbols))
    output.args = (tuple(kept),)
    return tuple(outputs), updates


def _label(path: Sequence[Any]) -> str:
    parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
    text = "_".join(parts)
    return f"output{'_' * bool(text)}{text}" if not text or text[0].isdigit() else text
