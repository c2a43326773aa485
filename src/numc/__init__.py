"""numc, the arithmetic compiler: neural networks as native code that computes in the number formats you choose.

    program = numc.compile("model.onnx", fma="bf16_1_2")
    y = program(x)
    program.save("model.numc")

`__all__` lists the public names; each is described where it is defined. A name is imported when it is first used, so
that running a saved program imports neither MLIR nor ONNX, and only the names for training import PyTorch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numc import circuits as circuits
    from numc import train as train
    from numc.compiler import onnx_backend as onnx_backend
    from numc.compiler.arrays.arrays import fma as fma
    from numc.compiler.arrays.arrays import matmul as matmul
    from numc.compiler.arrays.arrays import round as round
    from numc.compiler.arrays.pack import Packed as Packed
    from numc.compiler.arrays.pack import pack as pack
    from numc.compiler.arrays.pack import unpack as unpack
    from numc.compiler.arrays.statistics import Histogram as Histogram
    from numc.compiler.arrays.statistics import LayerStatistics as LayerStatistics
    from numc.compiler.arrays.statistics import Statistics as Statistics
    from numc.compiler.arrays.statistics import TensorStatistics as TensorStatistics
    from numc.compiler.deploy.shared_object import export_shared as export_shared
    from numc.compiler.lower import lower as lower
    from numc.compiler.opt import opt as opt
    from numc.compiler.programs.compile import compile as compile
    from numc.compiler.torch_compile.backend import arithmetic as arithmetic
    from numc.compiler.torch_compile.backend import backend as backend
    from numc.compiler.torch_compile.backend import counters as counters
    from numc.compiler.torch_compile.loss_scale import DynamicLossScale as DynamicLossScale
    from numc.compiler.torch_compile.open_widths import widths as widths
    from numc.numerics import reference as reference
    from numc.numerics.defined.decorators import operator as operator
    from numc.numerics.defined.decorators import reduction as reduction
    from numc.numerics.defined.value_lists import format_of as format_of
    from numc.numerics.formats import FORMATS as formats  # noqa: F401, N811
    from numc.numerics.kinds import GROUP_FORMATS as group_formats  # noqa: F401, N811
    from numc.numerics.operators import FMAS as fmas  # noqa: F401, N811
    from numc.numerics.policy.presets import PRESETS as presets  # noqa: F401, N811
    from numc.numerics.units import UNITS as units  # noqa: F401, N811
    from numc.runtime.program import Program as Program
    from numc.runtime.program import load as load
    from numc.runtime.widths import WidthByRatio as WidthByRatio
    from numc.studies.bisect import bisect as bisect
    from numc.studies.compare import compare as compare
    from numc.studies.comparison import Comparison as Comparison
    from numc.studies.cost import cost as cost
    from numc.studies.diff import diff as diff
    from numc.studies.explain import explain as explain
    from numc.studies.language.tokens import token_windows as token_windows
    from numc.studies.model_graph.model_graph import ModelGraph as ModelGraph
    from numc.studies.model_graph.model_graph import graph as graph
    from numc.studies.observe.collect import collect_stats as collect_stats
    from numc.studies.observe.verify import verify as verify
    from numc.studies.observe.verify_training import verify_training as verify_training
    from numc.studies.profile.profile import Profile as Profile
    from numc.studies.profile.record import profile as profile
    from numc.studies.schedule.schedule import Schedule as Schedule
    from numc.studies.search.found import Search as Search
    from numc.studies.search.search import search as search
    from numc.studies.sensitivity.sensitivity import Sensitivity as Sensitivity
    from numc.studies.sensitivity.sensitivity import sensitivity as sensitivity
    from numc.studies.sensitivity.training import training_sensitivity as training_sensitivity
    from numc.support.errors import CompilerBug as CompilerBug
    from numc.support.errors import NumcError as NumcError

    __version__: str

# Public name -> the module that defines it and the name it has there; "" stands for the module itself.
_PUBLIC = {
    "Comparison": ("numc.studies.comparison", "Comparison"),
    "CompilerBug": ("numc.support.errors", "CompilerBug"),
    "DynamicLossScale": ("numc.compiler.torch_compile.loss_scale", "DynamicLossScale"),
    "Histogram": ("numc.compiler.arrays.statistics", "Histogram"),
    "LayerStatistics": ("numc.compiler.arrays.statistics", "LayerStatistics"),
    "ModelGraph": ("numc.studies.model_graph.model_graph", "ModelGraph"),
    "NumcError": ("numc.support.errors", "NumcError"),
    "Packed": ("numc.compiler.arrays.pack", "Packed"),
    "Profile": ("numc.studies.profile.profile", "Profile"),
    "Program": ("numc.runtime.program", "Program"),
    "Schedule": ("numc.studies.schedule.schedule", "Schedule"),
    "Search": ("numc.studies.search.found", "Search"),
    "Sensitivity": ("numc.studies.sensitivity.sensitivity", "Sensitivity"),
    "Statistics": ("numc.compiler.arrays.statistics", "Statistics"),
    "TensorStatistics": ("numc.compiler.arrays.statistics", "TensorStatistics"),
    "WidthByRatio": ("numc.runtime.widths", "WidthByRatio"),
    "arithmetic": ("numc.compiler.torch_compile.backend", "arithmetic"),
    "backend": ("numc.compiler.torch_compile.backend", "backend"),
    "bisect": ("numc.studies.bisect", "bisect"),
    "circuits": ("numc.circuits", ""),
    "collect_stats": ("numc.studies.observe.collect", "collect_stats"),
    "compare": ("numc.studies.compare", "compare"),
    "compile": ("numc.compiler.programs.compile", "compile"),
    "cost": ("numc.studies.cost", "cost"),
    "counters": ("numc.compiler.torch_compile.backend", "counters"),
    "diff": ("numc.studies.diff", "diff"),
    "export_shared": ("numc.compiler.deploy.shared_object", "export_shared"),
    "explain": ("numc.studies.explain", "explain"),
    "fma": ("numc.compiler.arrays.arrays", "fma"),
    "fmas": ("numc.numerics.operators", "FMAS"),
    "units": ("numc.numerics.units", "UNITS"),
    "format_of": ("numc.numerics.defined.value_lists", "format_of"),
    "formats": ("numc.numerics.formats", "FORMATS"),
    "graph": ("numc.studies.model_graph.model_graph", "graph"),
    "group_formats": ("numc.numerics.kinds", "GROUP_FORMATS"),
    "load": ("numc.runtime.program", "load"),
    "lower": ("numc.compiler.lower", "lower"),
    "matmul": ("numc.compiler.arrays.arrays", "matmul"),
    "onnx_backend": ("numc.compiler.onnx_backend", ""),
    "operator": ("numc.numerics.defined.decorators", "operator"),
    "opt": ("numc.compiler.opt", "opt"),
    "pack": ("numc.compiler.arrays.pack", "pack"),
    "presets": ("numc.numerics.policy.presets", "PRESETS"),
    "profile": ("numc.studies.profile.record", "profile"),
    "reduction": ("numc.numerics.defined.decorators", "reduction"),
    "reference": ("numc.numerics.reference", ""),
    "round": ("numc.compiler.arrays.arrays", "round"),
    "search": ("numc.studies.search.search", "search"),
    "sensitivity": ("numc.studies.sensitivity.sensitivity", "sensitivity"),
    "token_windows": ("numc.studies.language.tokens", "token_windows"),
    "train": ("numc.train", ""),
    "training_sensitivity": ("numc.studies.sensitivity.training", "training_sensitivity"),
    "unpack": ("numc.compiler.arrays.pack", "unpack"),
    "verify": ("numc.studies.observe.verify", "verify"),
    "verify_training": ("numc.studies.observe.verify_training", "verify_training"),
    "widths": ("numc.compiler.torch_compile.open_widths", "widths"),
}
_NEED_MLIR = ("bisect", "compare", "cost", "explain", "export_shared", "graph", "lower", "opt", "search", "sensitivity")
_NEED_TORCH = (
    "DynamicLossScale",
    "arithmetic",
    "backend",
    "counters",
    "training_sensitivity",
    "verify_training",
    "widths",
)

__all__ = sorted([*_PUBLIC, "__version__"])


def _check_torch(name: str) -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        from numc.support.errors import NumcError

        raise NumcError(f"numc.{name}: PyTorch is not installed: pip install torch")


def __dir__() -> list[str]:
    """Return the public names only, and not the submodules that happen to be imported."""
    return list(__all__)


if not TYPE_CHECKING:  # a type checker knows the names above, and reports any other

    def __getattr__(name: str) -> object:
        """Import a public name at its first use. Raises NumcError if it needs PyTorch or MLIR and that is not there."""
        from importlib import import_module

        if name == "__version__":
            from numc.support.versions import own_version

            value: object = own_version()
        elif name in _PUBLIC:
            module, attribute = _PUBLIC[name]
            if name in _NEED_TORCH:
                _check_torch(name)
            if name in (*_NEED_MLIR, *_NEED_TORCH):
                from numc.support.versions import check_torch_mlir

                check_torch_mlir()
            value = import_module(module)
            if attribute:
                value = getattr(value, attribute)
        else:
            raise AttributeError(f"module 'numc' has no attribute {name!r}")
        globals()[name] = value
        return value


del TYPE_CHECKING
