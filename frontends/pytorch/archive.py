"""Files of torch.export.save without the code that they can hold.

``torch.export.load`` runs what such a file says: it unpickles example inputs, some weights and custom objects, loads
compiled code, evaluates the texts of sizes as Python, calls any function below ``torch`` that a graph names, and makes
Python source of the graph's names. `cleaned` copies what numc needs, the graph and the plain tensors, into a new
archive, and lets only texts through that have one of a few known forms.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numc.support.errors import NumcError
from numc.support.json_values import parsed

_MODEL = "models/model.json"
_EXAMPLE_INPUTS = "data/sample_inputs/model.pt"
_TENSORS = (
    ("data/weights/", "model_weights_config.json", "model.pt", r"weight_\d+"),
    ("data/constants/", "model_constants_config.json", "model.pt", r"tensor_\d+"),
)
_FORMAT = ("archive_format", "archive_version", "byteorder", ".data/version")
_AGAIN = "load it with torch.export.load, if you trust it, and save it again"

# Names: nothing that Python would call, assign or import.
_NAME = re.compile(r"[\w.\-/ ]*")
_OPERATION = re.compile(
    r"torch\.ops\.(aten|prims)\.(?!(from_file|save)\.)((?!__)\w+|__i?(and|or|xor|lshift|rshift)__)\.(?!_)\w+"
    r"|torch\.ops\.torchvision\.(nms|roi_align)\.default"
    r"|torch\.ops\.higher_order\.(cond|while_loop|wrap_with_autocast|wrap_with_set_grad_enabled)"
    r"|torch\.sym_(float|int|ite|max|min|not|sqrt)"
    r"|math\.(ceil|floor|trunc)"
    r"|_operator\.(add|and_|eq|floordiv|ge|getitem|gt|le|lshift|lt|mod|mul|ne|neg|or_|pos|pow|rshift|sub|truediv)"
)
_EXPRESSION = re.compile(r"[\w+\-*/%(),.<>=&|~' ]*")
_WORD = re.compile(r"[^\W\d]\w*")
_SYMBOL = re.compile(r"z?[su]f?\d+")
_FUNCTIONS = re.compile(
    "Abs|Add|And|CeilDiv|CeilToInt|CleanDiv|Equality|False|Float|FloatPow|FloatTrueDiv|FloorDiv|FloorToInt|GreaterThan"
    "|Identity|IntTrueDiv|Integer|LShift|LessThan|Max|Min|Mod|ModularIndexing|Mul|Not|Or|Pow|PowByNatural|PythonMod"
    "|RShift|Rational|RoundDecimal|RoundToInt|StrictGreaterThan|StrictLessThan|Symbol|ToFloat|True|TruncToFloat"
    "|TruncToInt|Unequality|Where|ceiling|false|floor|integer|nonnegative|positive|precision|real|true"
)
_CONTAINERS = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_FRAME = re.compile(r'File "[^"\\\s]+", line \d+')


def cleaned(path: Path) -> io.BytesIO:
    """Return the archive `path` without anything that torch would run. Raises NumcError if it needs such a thing."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _cleaned(path, archive)
    except OSError as error:
        reason = error.strerror
    except zipfile.BadZipFile as error:
        reason = f"no archive, or truncated or damaged ({error})"
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, struct.error) as error:
        reason = f"damaged ({type(error).__name__}: {' '.join(str(error).split())[:100]})"
    raise NumcError(f"{path}: cannot read: {reason}: want a file that torch.export.save wrote")


def _cleaned(path: Path, archive: zipfile.ZipFile) -> io.BytesIO:
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("compressed entries")
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise ValueError("entries that overlap")
    names = archive.namelist()
    if "serialized_exported_program.json" in names:
        raise NumcError(f"{path}: was written by an old PyTorch, with pickled weights, which are code: {_AGAIN}")
    top = next((name.removesuffix(_MODEL) for name in names if name.endswith(f"/{_MODEL}")), None)
    if top is None:
        raise NumcError(f"{path}: holds no exported program: want a file that torch.export.save wrote")

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as copy:

        def write(name: str, data: bytes) -> None:
            copy.writestr(f"model/{name}", data)

        for name in _FORMAT:
            if top + name in names:
                write(name, archive.read(top + name))
        write(_EXAMPLE_INPUTS, b"")
        write(_MODEL, json.dumps(_program(path, parsed(archive.read(top + _MODEL)))).encode())
        for folder, config, pickled, file in _TENSORS:
            if top + folder + pickled in names:
                raise NumcError(
                    f"{path}: was written by an old PyTorch, with pickled tensors, which are code: {_AGAIN}"
                )
            tensors = parsed(archive.read(top + folder + config))["config"]
            for name, about in tensors.items():
                if about["use_pickle"] or not re.fullmatch(file, about["path_name"], re.ASCII):
                    raise NumcError(
                        f"{path}: '{_shown(name)}' is stored as a pickle, which is code: numc reads plain tensors "
                        "only; make it a torch.Tensor, not one of a class derived from it, and export again"
                    )
            write(folder + config, json.dumps({"config": _checked(path, tensors, "config")}).encode())
            for stored in sorted({about["path_name"] for about in tensors.values()}):
                write(folder + stored, archive.read(top + folder + stored))
    made.seek(0)
    return made


def _program(path: Path, program: dict[str, Any]) -> Any:
    """Return the exported program with its graph and ranges checked, and without what numc does not use."""
    program |= {"guards_code": [], "torch_version": ""}
    program["graph_module"]["metadata"] = {}
    program["graph_module"]["treespec_namedtuple_fields"] = {}
    return _checked(path, program, "")


def _checked(path: Path, value: Any, key: str) -> Any:
    """Return a value of JSON in which every text has the form that belongs to its key. Raises NumcError otherwise."""
    if isinstance(value, dict):
        if key == "metadata":
            return _metadata(value)
        return {_text(path, "name", k): _checked(path, v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_checked(path, each, key) for each in value]
    return _text(path, key, value) if isinstance(value, str) else value


def _text(path: Path, key: str, text: str) -> str:
    if not _FORMS.get(key, _is_name)(text):
        raise NumcError(
            f"{path}: the {_CALLED.get(key, 'name')} '{_shown(text)}' is not one that numc reads: it could be code; "
            "numc takes operations of aten, nms and roi_align of torchvision, names of letters, digits and _.-/, and "
            "lists, tuples and dicts of tensors"
        )
    return text


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _is_operation(text: str) -> bool:
    return _OPERATION.fullmatch(text) is not None


def _is_expression(text: str) -> bool:
    words = _WORD.findall(text)
    return _EXPRESSION.fullmatch(text) is not None and all(
        _FUNCTIONS.fullmatch(w) or _SYMBOL.fullmatch(w) for w in words
    )


def _is_tree(text: str, *, key: Callable[[str], bool] = lambda key: True) -> bool:
    """Whether a text describes nested containers of the usual types; others have code that reads their text.

    key: what has to hold for the keys of dicts.
    """

    def usual(tree: Any) -> bool:
        keys = parsed(tree["context"]) if tree["context"] is not None else None
        if keys is not None and not all(isinstance(k, (str, int)) and key(str(k)) for k in keys):
            return False
        return tree["type"] in _CONTAINERS and all(map(usual, tree["children_spec"]))

    return usual(parsed(text)[1])


def _metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return what names a layer: the path of its module, and the lines of the source that made it."""
    lines = ", in f\n".join(_FRAME.findall(metadata.get("stack_trace") or ""))
    modules = " ".join((metadata.get("nn_module_stack") or "").split())
    return {name: text for name, text in (("stack_trace", lines), ("nn_module_stack", modules)) if text}


def _shown(text: str) -> str:
    """Return a text of a file as a message may quote it."""
    return text[:60].encode("unicode_escape").decode() + "..." * (len(text) > 60)


_FORMS: Mapping[str, Callable[[str], bool]] = {
    "target": _is_operation,
    "as_operator": _is_operation,
    "expr_str": _is_expression,
    "in_spec": lambda text: _is_tree(text, key=_is_name),  # its keys become names of arguments
    "out_spec": _is_tree,
    "as_string": lambda text: True,  # an argument of an operation, which does not run it
}
_CALLED = {
    "target": "operation",
    "as_operator": "operation",
    "expr_str": "size",
    "in_spec": "structure of the inputs",
    "out_spec": "structure of the outputs",
}
