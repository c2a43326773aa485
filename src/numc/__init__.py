"""numc, the arithmetic compiler: neural networks as x86-64 code that computes in the number formats you choose.

    program = numc.compile("model.onnx", fma="bf16_1_2")
    y = program(x)
    program.save("model.numc")

The public names are loaded at first use: running a saved program imports neither MLIR nor ONNX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numc.compiler.arithmetic import reference as reference
    from numc.compiler.arithmetic.formats import FORMATS as formats  # noqa: F401, N811
    from numc.compiler.arithmetic.groups import GROUP_FORMATS as group_formats  # noqa: F401, N811
    from numc.compiler.arithmetic.operators import FMAS as fmas  # noqa: F401, N811
    from numc.compiler.arithmetic.policy.presets import PRESETS as presets  # noqa: F401, N811
    from numc.compiler.arrays import fma as fma
    from numc.compiler.arrays import matmul as matmul
    from numc.compiler.arrays import round as round
    from numc.compiler.build import lower as lower
    from numc.compiler.compile import compile as compile
    from numc.compiler.pack import Packed as Packed
    from numc.compiler.pack import pack as pack
    from numc.compiler.pack import unpack as unpack
    from numc.compiler.statistics import Histogram as Histogram
    from numc.compiler.statistics import LayerStatistics as LayerStatistics
    from numc.compiler.statistics import Statistics as Statistics
    from numc.compiler.statistics import TensorStatistics as TensorStatistics
    from numc.compiler.studies.bisect import bisect as bisect
    from numc.compiler.studies.compare import compare as compare
    from numc.compiler.studies.comparison import Comparison as Comparison
    from numc.compiler.studies.cost import cost as cost
    from numc.compiler.studies.diff import diff as diff
    from numc.compiler.studies.explain import explain as explain
    from numc.compiler.studies.observe.collect import collect_stats as collect_stats
    from numc.compiler.studies.observe.verify import verify as verify
    from numc.compiler.studies.observe.verify_training import verify_training as verify_training
    from numc.compiler.support.errors import CompilerBug as CompilerBug
    from numc.compiler.support.errors import NumcError as NumcError
    from numc.frontends.training.backend import arithmetic as arithmetic
    from numc.frontends.training.backend import backend as backend
    from numc.frontends.training.backend import counters as counters
    from numc.frontends.training.loss_scale import DynamicLossScale as DynamicLossScale
    from numc.runtime.program import Program as Program
    from numc.runtime.program import load as load

    __version__: str

# Public name -> the module that has it, and what it is called there ("" is the module itself).
_PUBLIC = {
    "Comparison": ("numc.compiler.studies.comparison", "Comparison"),
    "CompilerBug": ("numc.compiler.support.errors", "CompilerBug"),
    "NumcError": ("numc.compiler.support.errors", "NumcError"),
    "Packed": ("numc.compiler.pack", "Packed"),
    "Histogram": ("numc.compiler.statistics", "Histogram"),
    "LayerStatistics": ("numc.compiler.statistics", "LayerStatistics"),
    "Statistics": ("numc.compiler.statistics", "Statistics"),
    "TensorStatistics": ("numc.compiler.statistics", "TensorStatistics"),
    "arithmetic": ("numc.frontends.training.backend", "arithmetic"),
    "backend": ("numc.frontends.training.backend", "backend"),
    "counters": ("numc.frontends.training.backend", "counters"),
    "DynamicLossScale": ("numc.frontends.training.loss_scale", "DynamicLossScale"),
    "verify_training": ("numc.compiler.studies.observe.verify_training", "verify_training"),
    "explain": ("numc.compiler.studies.explain", "explain"),
    "presets": ("numc.compiler.arithmetic.policy.presets", "PRESETS"),
    "Program": ("numc.runtime.program", "Program"),
    "bisect": ("numc.compiler.studies.bisect", "bisect"),
    "collect_stats": ("numc.compiler.studies.observe.collect", "collect_stats"),
    "compare": ("numc.compiler.studies.compare", "compare"),
    "compile": ("numc.compiler.compile", "compile"),
    "cost": ("numc.compiler.studies.cost", "cost"),
    "diff": ("numc.compiler.studies.diff", "diff"),
    "fma": ("numc.compiler.arrays", "fma"),
    "fmas": ("numc.compiler.arithmetic.operators", "FMAS"),
    "formats": ("numc.compiler.arithmetic.formats", "FORMATS"),
    "group_formats": ("numc.compiler.arithmetic.groups", "GROUP_FORMATS"),
    "load": ("numc.runtime.program", "load"),
    "lower": ("numc.compiler.build", "lower"),
    "matmul": ("numc.compiler.arrays", "matmul"),
    "pack": ("numc.compiler.pack", "pack"),
    "reference": ("numc.compiler.arithmetic.reference", ""),
    "round": ("numc.compiler.arrays", "round"),
    "unpack": ("numc.compiler.pack", "unpack"),
    "verify": ("numc.compiler.studies.observe.verify", "verify"),
}

_OF_TORCH = ("DynamicLossScale", "arithmetic", "backend", "counters", "verify_training")

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        if name in _OF_TORCH:
            _need_torch(name)
        value = import_module(module)
        if attribute:
            value = getattr(value, attribute)
    else:
        raise AttributeError(f"module 'numc' has no attribute {name!r}")
    globals()[name] = value
    return value


def _need_torch(name: str) -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        from numc.compiler.support.errors import NumcError

        raise NumcError(f"numc.{name}: PyTorch is not installed: pip install torch")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("numc")
    except PackageNotFoundError:
        return "unknown"  # run from a source tree that is not installed
