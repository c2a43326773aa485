"""The shared library of the runtime through ctypes: where it is, and the types of its functions."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import TypeVar

from numc.support.errors import NumcError

_Library = TypeVar("_Library", bound=ctypes.CDLL)  # ctypes.PyDLL is one

FILE_NAME = "libnumc_runtime.so"
MAX_RANK = 16

Observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32)


class Tensor(ctypes.Structure):
    """`numc_tensor` of numc.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MAX_RANK),
        ("owner", ctypes.c_void_p),
    )


class Width(ctypes.Structure):
    """`numc_width` of numc.h."""

    _fields_ = (("exponent", ctypes.c_int32), ("significand", ctypes.c_int32))


class Choice(ctypes.Structure):
    """`numc_choice` of numc.h."""

    _fields_ = (
        ("tensor", ctypes.c_int32),
        ("decided", ctypes.c_int32),
        ("epsilon", ctypes.c_double),
        ("ratio", ctypes.c_double),
        ("width", Width),
    )


class Span(ctypes.Structure):
    """`numc_span` of numc.h."""

    _fields_ = (
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("waited", ctypes.c_int64),
        ("fmas", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("part", ctypes.c_int32),
        ("thread", ctypes.c_int32),
    )


class RunOptions(ctypes.Structure):
    """`numc_run_options` of numc.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
        ("seeded", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("widths", ctypes.POINTER(Width)),
        ("choices", ctypes.POINTER(Choice)),
        ("profile", ctypes.c_void_p),
    )


_pointer, _text, _int, _size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_size_t
_error = ctypes.POINTER(ctypes.c_void_p)  # char **: c_void_p keeps the address, which has to be freed
# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "numc_version": (_text, ()),
    "numc_string_free": (None, (_pointer,)),
    "numc_program_load": (_pointer, (_text, _error)),
    "numc_program_load_memory": (_pointer, (_pointer, _size, _error)),
    "numc_program_from_parts": (_pointer, (_text, _pointer, _size, _pointer, _size, _pointer, _size, _error)),
    "numc_program_free": (None, (_pointer,)),
    "numc_expand": (_int, (_pointer, _size, _pointer, _size, _pointer, _size, _error)),
    "numc_width_count": (_int, (_pointer,)),
    "numc_width_at": (_int, (_pointer, _int, _pointer)),
    "numc_run": (_int, (_pointer, _pointer, _pointer, _int, _error)),
    "numc_run_with": (_int, (_pointer, _pointer, _pointer, _pointer, _error)),
    "numc_tensor_release": (None, (_pointer,)),
    "numc_set_observer": (None, (_pointer, _pointer, _pointer)),
    "numc_profile_new": (_pointer, ()),
    "numc_profile_spans": (_pointer, (_pointer, _pointer)),
    "numc_profile_free": (None, (_pointer,)),
    "numc_peaks": (_int, (_int, _pointer, _pointer, _error)),
    "numc_load_object": (_pointer, (_pointer, _size, _error)),
    "numc_object_symbol": (_pointer, (_pointer, _text)),
    "numc_object_call": (_int, (_pointer, _pointer, _pointer, _int, _error)),
    "numc_object_free": (None, (_pointer,)),
    "numc_count_values": (_int, (_pointer, _pointer, _pointer, _pointer, _pointer)),
    "numc_fp32_chains": (None, (_pointer, _pointer, _pointer, ctypes.c_int64, ctypes.c_int64, _pointer)),
    "numc_alloc": (_pointer, (_size,)),
    "numc_free": (None, (_pointer,)),
    "numc_trim": (None, ()),
    "numc_cpu_features": (ctypes.c_uint64, ()),
    "numc_feature_name": (_text, (_int,)),
    "numc_request_amx": (_int, ()),
    "numc_default_threads": (_int, ()),
}
# Those that hold Python's global lock, because they handle objects or the state of torch's generator.
_object = ctypes.py_object
_FUNCTIONS_OF_PYTHON: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "numc_bernoulli": (_int, (_pointer, ctypes.c_double, _int, _pointer, ctypes.c_int64)),
    "numc_memory_type": (_object, (_size,)),
    "numc_caller": (_object, (_pointer, _object)),
}


def _candidates() -> list[Path]:
    """The paths where the library may be: installed with the package, or built in the source tree."""
    # Looking for it as for a module makes an editable install compile changed C++ sources first.
    spec = importlib.util.find_spec("numc.runtime." + FILE_NAME.removesuffix(".so"))
    installed = [Path(spec.origin)] if spec is not None and spec.origin is not None else []
    return [*installed, Path(__file__).resolve().parent.parent / "build" / "runtime" / FILE_NAME]


def find_library() -> Path:
    """Return the path of the shared library: NUMC_RUNTIME_LIBRARY, or the first of the usual places.

    Raises NumcError where there is none.
    """
    override = os.environ.get("NUMC_RUNTIME_LIBRARY")
    if override:
        if not Path(override).is_file():
            raise NumcError(f"NUMC_RUNTIME_LIBRARY: no file '{override}': unset it or name a built {FILE_NAME}")
        return Path(override)
    for path in _candidates():
        if path.is_file():
            return path
    raise NumcError(
        f"{FILE_NAME} is not there: install numc with pip, or in the source tree run "
        "`cmake -B build && cmake --build build`"
    )


def library_folder() -> Path:
    """Return the folder to give a C linker as -L and -rpath. Raises NumcError where there is no library."""
    return find_library().resolve().parent


def include_folder() -> Path:
    """Return the folder of numc.h. Raises NumcError if it was not installed."""
    folders = [Path(folder) / "include" for folder in sys.modules["numc.runtime"].__path__]
    for folder in folders:
        if (folder / "numc.h").is_file():
            return folder.resolve()
    raise NumcError("numc.h is not there: install numc again")


def package_folder(name: str, file: str) -> Path:
    """Return the folder of what CMake or pkg-config reads, which has this file. Raises NumcError if it is not there."""
    folder = library_folder() / name
    if (folder / file).is_file():
        return folder
    raise NumcError(f"{folder / file} is not there: want numc installed by pip and not editable, or by cmake --install")


@functools.cache
def library() -> ctypes.CDLL:
    """Return the shared library with typed functions; it is loaded once. Raises NumcError if that fails."""
    return _loaded(ctypes.CDLL, _FUNCTIONS)


@functools.cache
def library_of_python() -> ctypes.PyDLL:
    """Return the same library with the functions that are called with Python's global lock."""
    return _loaded(ctypes.PyDLL, _FUNCTIONS_OF_PYTHON)


def _loaded(kind: type[_Library], functions: dict[str, tuple[type | None, tuple[type, ...]]]) -> _Library:
    path = find_library()
    try:
        loaded = kind(str(path))
        for name, (result, arguments) in functions.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise NumcError(f"'{path}' is not this version's numc runtime ({error}): build or install it again") from None
    return loaded


class ErrorText:
    """The text that one call stores through its argument `char **error`."""

    def __init__(self) -> None:
        self._address = ctypes.c_void_p()

    def reference(self) -> object:
        """Return what to pass as the `error` argument."""
        return ctypes.byref(self._address)

    def take(self) -> str:
        """Return the text and free it."""
        if not self._address.value:
            return "unknown error"
        text = ctypes.string_at(self._address.value).decode("utf-8", "replace")
        library().numc_string_free(self._address)
        self._address = ctypes.c_void_p()
        return text


@functools.cache
def feature_names() -> tuple[str, ...]:
    """Return the CPU features that numc knows, in the order of their bits in a program file."""
    names: list[str] = []
    while (name := library().numc_feature_name(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def cpu_features() -> frozenset[str]:
    """Return the features of this CPU that the operating system lets programs use."""
    bits = library().numc_cpu_features()
    return frozenset(name for bit, name in enumerate(feature_names()) if bits >> bit & 1)


def request_amx() -> bool:
    """Ask the operating system for AMX tile registers in this process; returns whether it may use them."""
    return bool(library().numc_request_amx())


def usable_features() -> frozenset[str]:
    """Return the features of this CPU that this process may use: those of AMX after asking for its registers."""
    granted = request_amx()
    return frozenset(name for name in cpu_features() if granted or not name.startswith("amx"))


def default_threads() -> int:
    """Return the default number of threads: NUMC_NUM_THREADS, else the number of CPUs that this process may use."""
    return int(library().numc_default_threads())


def trim() -> None:
    """Give the memory that the runtime keeps for reuse back to the operating system."""
    library().numc_trim()
