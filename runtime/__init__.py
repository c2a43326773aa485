"""Run compiled programs: `load("model.numc")` returns a Program. Needs only numpy and the shared library."""

from numc.runtime.abi import Abi, Input, SizeSymbol, TensorSpec, Weight
from numc.runtime.container import Contents, pack_ir, read_program, write_program
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
    "SizeSymbol",
    "TensorSpec",
    "Weight",
    "cpu_features",
    "default_threads",
    "feature_names",
    "include_folder",
    "library_folder",
    "load",
    "pack_ir",
    "read_program",
    "request_amx",
    "trim",
    "write_program",
]
