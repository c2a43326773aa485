"""numc as a backend of ONNX: ``numc.onnx_backend`` has the interface ``onnx.backend.base.Backend``.

    rep = numc.onnx_backend.prepare(onnx.load("model.onnx"), fma="bf16_1_2")
    (y,) = rep.run([x])

ONNX's own tests run through it: ``onnx.backend.test.BackendTest(numc.onnx_backend, __name__)``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.backend import base

from numc.compiler.programs.compile import compile
from numc.frontends.onnx.reading.structure import structural_inputs
from numc.runtime.program import Program
from numc.runtime.tensors import as_array
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened

Array = npt.NDArray[Any]

_COMPARISON = ("rtol", "atol")  # BackendTest hands the tolerances of its own comparison to the backend, too


@in_default_environment
class Prepared(base.BackendRep):  # type: ignore[misc]
    """A model that is ready to run.

    Some inputs say what the shapes of results are, or which part of the model runs: axes, new shapes, trip counts. A
    program is compiled for each set of their values, when it is first met; without such inputs there is one program.
    A sequence is a list of arrays, and an optional that holds nothing is None: a program is compiled for each length
    and the shapes of the elements.
    """

    def __init__(self, model: onnx.ModelProto, options: Mapping[str, Any]) -> None:
        """Compile the model, unless that needs values of inputs. Raises NumcError if it cannot be compiled."""
        stored = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in stored]
        self._model, self._options = model, dict(options)
        self._structural = structural_inputs(model)
        self._held = [
            v.name for v in model.graph.input if v.type.WhichOneof("value") in ("sequence_type", "optional_type")
        ]
        self._programs: dict[tuple[bytes, ...], Program] = {}
        if not self._structural and not self._held:
            self._program({}, {})

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Return the outputs in order. inputs: a sequence in the order of the graph, arrays by name, or one array.

        Raises NumcError for inputs that do not fit the model.
        """
        named_inputs = self._by_name(inputs)
        held = {name: named_inputs.pop(name) for name in self._held}
        program = self._program({name: named_inputs.pop(name) for name in self._structural}, held)
        for name, value in held.items():
            named_inputs |= {f"{name}[{n}]": element for n, element in enumerate(_elements(value))}
        outputs = program.by_name(named_inputs)
        return tuple(_output(outputs, value.name) for value in self._model.graph.output)

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            named_inputs = dict(inputs)
            if sorted(map(str, named_inputs)) != sorted(self._names):
                raise NumcError(f"inputs: got {_listed(named_inputs)}, want {_listed(self._names)}")
        else:
            values = [inputs] if not isinstance(inputs, Sequence) or isinstance(inputs, str) else list(inputs)
            if len(values) != len(self._names):
                raise NumcError(f"inputs: got {len(values)}, want {len(self._names)} ({_listed(self._names)})")
            named_inputs = dict(zip(self._names, values, strict=True))
        return {
            name: _held(name, value) if name in self._held else as_array(f"input {quoted(name)}", value)
            for name, value in named_inputs.items()
        }

    def _program(self, structure: Mapping[str, Array], held: Mapping[str, Any]) -> Program:
        """Return the program for these values of the inputs that shapes depend on, and of sequences and optionals."""
        tensors = [numpy_helper.from_array(value, name) for name, value in structure.items()]
        inputs, nodes = [], []
        for name, value in held.items():
            elements = [
                helper.make_tensor_value_info(
                    f"{name}[{n}]", helper.np_dtype_to_tensor_dtype(element.dtype), element.shape
                )
                for n, element in enumerate(_elements(value))
            ]
            inputs += elements
            maker = ("SequenceConstruct" if value else "SequenceEmpty") if isinstance(value, list) else "Optional"
            nodes.append(helper.make_node(maker, [element.name for element in elements], [name]))
        key = tuple(each.SerializeToString() for each in (*tensors, *inputs, *nodes))
        if key not in self._programs:
            model = onnx.ModelProto()
            model.CopyFrom(self._model)
            model.graph.initializer.extend(tensors)
            kept = [value for value in model.graph.input if value.name not in (*structure, *held)]
            del model.graph.input[:]
            model.graph.input.extend([*kept, *inputs])
            rest = [*nodes, *model.graph.node]
            del model.graph.node[:]
            model.graph.node.extend(rest)
            self._programs[key] = compile(model, **self._options)
        return self._programs[key]


def _held(name: str, value: Any) -> Any:
    """Return what a sequence or an optional holds: a list of arrays, an array, or None."""
    if isinstance(value, list | tuple):
        return [as_array(f"input {quoted(name)}", element) for element in value]
    return None if value is None else as_array(f"input {quoted(name)}", value)


def _elements(value: Any) -> list[Array]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _output(found: Mapping[str, Array], name: str) -> Any:
    """Return an output: an array, or the list of those of a sequence."""
    if name in found:
        return found[name]
    return [
        found[each] for each in itertools.takewhile(found.__contains__, (f"{name}[{n}]" for n in itertools.count()))
    ]


def _listed(names: Any) -> str:
    return ", ".join(map(quoted, names)) or "none"


@in_default_environment
class Backend(base.Backend):  # type: ignore[misc]
    """The interface of ONNX. Options are those of `numc.compile`, such as ``fma="bf16_1_2"``."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """Compile a model, of which weights in other files have been loaded, as onnx.load does.

        options: those of numc.compile. Raises NumcError for another device than the CPU, and if the model cannot be
        compiled.
        """
        if not isinstance(model, onnx.ModelProto):
            raise NumcError(f"model: got {shortened(type(model).__name__)}, want an onnx.ModelProto: use onnx.load")
        if not cls.supports_device(device):
            raise NumcError(f"device: got {shortened(device)}, want CPU: programs run on the CPU")
        return Prepared(model, {name: value for name, value in options.items() if name not in _COMPARISON})

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
        """Compile a model and run it once. Raises NumcError as `prepare` and Prepared.run do."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """Run one node. inputs: an array for each input that the node has, in order.

        outputs_info: the types of outputs are inferred, so it is not used. options: those of numc.compile, and
        ``opset_version``, of which the default is the newest that onnx has. Raises NumcError as `run_model` does.
        """
        opset = options.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(filter(None, node.input)))
        values = [inputs] if not isinstance(inputs, Sequence) else list(inputs)
        if len(values) != len(names):
            raise NumcError(f"inputs: got {len(values)}, want {len(names)} ({_listed(names)})")
        arrays = {name: as_array(f"input {quoted(name)}", value) for name, value in zip(names, values, strict=True)}
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in arrays.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", declared, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        if node.domain:
            model.opset_import.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return cls.run_model(inferred, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether programs run on a device: on the CPU only."""
        return device.partition(":")[0] == "CPU"


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
