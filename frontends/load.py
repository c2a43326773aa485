"""Loading of models: from a file, from ONNX or from PyTorch to linalg text with weights."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from numc.frontends import mlir
from numc.frontends.imported import Imported
from numc.frontends.onnx import load as onnx
from numc.frontends.pytorch import file as exported
from numc.support.arguments import Fixed, checked_fixed
from numc.support.errors import NumcError
from numc.support.files import checked_path, is_language_model
from numc.support.versions import check_torch_mlir


def load(
    model: Any, example_inputs: Any = None, *, dynamic_shapes: Any = None, shapes: Fixed | None = None, purpose: str
) -> Imported:
    """Import a model: a file (see `load_file`), an onnx.ModelProto, or a module or exported program of PyTorch.

    The last are for `load_module`. An Imported is returned as it is. Raises NumcError if the model, or an argument
    beside it, is not of these kinds.
    """
    if isinstance(model, Imported):
        return model
    if isinstance(model, (str, os.PathLike)):
        check_alone(model, example_inputs, dynamic_shapes)
        return load_file(model, shapes)
    if onnx.is_proto(model):
        check_alone(model, example_inputs, dynamic_shapes)
        return onnx.load_proto(model, fixed=checked_fixed(shapes))
    return load_module(model, example_inputs, dynamic_shapes=dynamic_shapes, shapes=shapes, purpose=purpose)


def has_inputs(model: object) -> bool:
    """Whether a model says what its inputs are: a file, an onnx.ModelProto or an Imported, and no module."""
    return isinstance(model, (str, os.PathLike, Imported)) or onnx.is_proto(model)


def title_of(model: object) -> str:
    """The name of a model in messages and reports: its file, or its type."""
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__


def check_alone(model: object, example_inputs: Any, dynamic_shapes: Any) -> None:
    """Raise NumcError if a model that has its inputs is given with the arguments of a PyTorch module."""
    if example_inputs is not None or dynamic_shapes is not None:
        raise NumcError(
            f"{title_of(model)}: example_inputs and dynamic_shapes are for PyTorch modules, files have their inputs"
        )


def load_file(path: str | os.PathLike[str], shapes: Fixed | None = None) -> Imported:
    """Import a file: an exported program of PyTorch (``.pt2``), linalg text (``.mlir``), or otherwise an ONNX model.

    It may also be a language model: a folder of transformers, or a GGUF file (frontends/pytorch/folder.py).
    shapes: what is fixed of the inputs; for ONNX and folders only. Raises NumcError if the file cannot be read or
    imported.
    """
    suffix, shapes = checked_path(path).suffix, checked_fixed(shapes)
    if is_language_model(path):
        need_pytorch(str(path))
        from numc.frontends.pytorch import folder

        return folder.load(path, shapes)
    if suffix == ".mlir":
        if shapes:
            raise NumcError(
                f"{path}: shapes are part of MLIR text: change the types there, leave --shape and --value out"
            )
        return mlir.load(path)
    if suffix == ".pt2":
        if shapes:
            raise NumcError(
                f"{path}: shapes are part of an exported program: export it again, leave --shape and --value out"
            )
        need_pytorch(str(path))
        return exported.load(path)
    return onnx.load(path, fixed=shapes)


def load_module(
    module: Any, example_inputs: Any, *, dynamic_shapes: Any = None, shapes: Fixed | None = None, purpose: str
) -> Imported:
    """Import a torch.nn.Module, traced with `example_inputs`, or an exported program of PyTorch.

    purpose: the verb of the error message, such as "compile". Raises NumcError if `module` is something else, if it
    cannot be traced, or if PyTorch is not installed.
    """
    type_name = type(module).__name__
    frontend = pytorch(type_name)
    if not frontend.is_model(module):
        raise NumcError(
            f"cannot {purpose} a {type_name}: want a file name, an onnx.ModelProto, "
            "a torch.nn.Module or an ExportedProgram"
        )
    if shapes:
        raise NumcError(
            f"{type_name}: shapes and values are for files: example_inputs and dynamic_shapes say what sizes are"
        )
    loaded: Imported = frontend.load(module, example_inputs, dynamic_shapes=dynamic_shapes)
    return loaded


def pytorch(what: str) -> ModuleType:
    """Return the front end for PyTorch, which is imported only when it is needed.

    what: the name of the model, for the message. Raises NumcError if PyTorch is not installed.
    """
    need_pytorch(what)
    return import_module("numc.frontends.pytorch.load")


def need_pytorch(what: str) -> None:
    """Raise NumcError if PyTorch is not installed. what: the name of the model, for the message."""
    if find_spec("torch") is None:
        raise NumcError(f"{what}: PyTorch is not installed: pip install torch")
    check_torch_mlir()
