"""Run compiled programs: `load("model.numc")` returns a Program. Needs only numpy and the shared library."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import what runs programs, and numpy with it, at its first use."""
        if name not in ("Callback", "Program", "load"):
            raise AttributeError(f"module 'numc.runtime' has no attribute {name!r}")
        from numc.runtime import program

        return getattr(program, name)
