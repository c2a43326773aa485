"""Run compiled programs: `load("model.numc")` returns a Program. Needs only numpy and the shared library."""

from numc.runtime.container import Abi, Contents, Input, TensorSpec, Weight, read_program, write_program
from numc.runtime.library import (
    cpu_features,
    default_threads,
    feature_names,
    include_folder,
    library_folder,
    request_amx,
    trim,
)
from numc.runtime.program import Callback, Program, load

__all__ = [
    "Abi",
    "Callback",
    "Contents",
    "Input",
    "Program",
    "TensorSpec",
    "Weight",
    "cpu_features",
    "default_threads",
    "feature_names",
    "include_folder",
    "library_folder",
    "load",
    "read_program",
    "request_amx",
    "trim",
    "write_program",
]
