"""numc.train: recipes that say when to use which arithmetic, and what they need to see of a training.

`__all__` lists the public names. A name is imported when it is first used, because `numc report` draws what a training
left behind where PyTorch is not installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numc.studies.hardware.area import StepPasses as StepPasses
    from numc.studies.hardware.area import step_passes as step_passes
    from numc.train.measures.extrapolation import speed_up as speed_up
    from numc.train.measures.metrics import bleu as bleu
    from numc.train.measures.metrics import ndcg as ndcg
    from numc.train.measures.metrics import perplexity as perplexity
    from numc.train.measures.metrics import top_k as top_k
    from numc.train.measures.time_to_accuracy import Spent as Spent
    from numc.train.measures.time_to_accuracy import TimeToAccuracy as TimeToAccuracy
    from numc.train.observe.denormal_monitor import DenormalMonitor as DenormalMonitor
    from numc.train.observe.denormal_monitor import Peak as Peak
    from numc.train.observe.epoch_statistics import EpochStatistics as EpochStatistics
    from numc.train.observe.epoch_statistics import StepStatistics as StepStatistics
    from numc.train.observe.epoch_statistics import read_statistics as read_statistics
    from numc.train.optimizer_state import OptimizerState as OptimizerState
    from numc.train.published.accuracy_booster import AccuracyBooster as AccuracyBooster
    from numc.train.published.narrow_accumulators import NarrowAccumulators as NarrowAccumulators
    from numc.train.published.unit_scaling import UnitScaling as UnitScaling
    from numc.train.recipes.decision import Decision as Decision
    from numc.train.recipes.delayed_scaling import DelayedScaling as DelayedScaling
    from numc.train.recipes.dynamic_precision import DynamicPrecision as DynamicPrecision
    from numc.train.recipes.dynamic_precision import average_drop as average_drop
    from numc.train.recipes.fast import Fast as Fast
    from numc.train.recipes.one_shot_search import OneShotSearch as OneShotSearch
    from numc.train.recipes.recipe import Recipe as Recipe
    from numc.train.recipes.schedule import Schedule as Schedule
    from numc.train.recipes.static import Static as Static
    from numc.train.runs.folder import RunFolder as RunFolder
    from numc.train.runs.report import TrainingReport as TrainingReport
    from numc.train.runs.report import report as report
    from numc.train.trainbf.cr_norm import CRNorm as CRNorm
    from numc.train.trainbf.errors import layer_errors as layer_errors
    from numc.train.trainbf.loss_scale import RangeLossScale as RangeLossScale
    from numc.train.trainbf.recipe import TrainBF as TrainBF
    from numc.train.trainbf.weights import RangeWeight as RangeWeight
    from numc.train.trainers.huggingface_callback import huggingface as huggingface
    from numc.train.trainers.lightning_callback import lightning as lightning
    from numc.train.trainers.tracker import Tracker as Tracker

# Public name -> the module that defines it.
_PUBLIC = {
    "AccuracyBooster": "numc.train.published.accuracy_booster",
    "CRNorm": "numc.train.trainbf.cr_norm",
    "Decision": "numc.train.recipes.decision",
    "DelayedScaling": "numc.train.recipes.delayed_scaling",
    "DenormalMonitor": "numc.train.observe.denormal_monitor",
    "DynamicPrecision": "numc.train.recipes.dynamic_precision",
    "EpochStatistics": "numc.train.observe.epoch_statistics",
    "Fast": "numc.train.recipes.fast",
    "NarrowAccumulators": "numc.train.published.narrow_accumulators",
    "OneShotSearch": "numc.train.recipes.one_shot_search",
    "OptimizerState": "numc.train.optimizer_state",
    "Peak": "numc.train.observe.denormal_monitor",
    "RangeLossScale": "numc.train.trainbf.loss_scale",
    "RangeWeight": "numc.train.trainbf.weights",
    "Recipe": "numc.train.recipes.recipe",
    "RunFolder": "numc.train.runs.folder",
    "Schedule": "numc.train.recipes.schedule",
    "Static": "numc.train.recipes.static",
    "Spent": "numc.train.measures.time_to_accuracy",
    "StepPasses": "numc.studies.hardware.area",
    "StepStatistics": "numc.train.observe.epoch_statistics",
    "TimeToAccuracy": "numc.train.measures.time_to_accuracy",
    "Tracker": "numc.train.trainers.tracker",
    "TrainBF": "numc.train.trainbf.recipe",
    "TrainingReport": "numc.train.runs.report",
    "UnitScaling": "numc.train.published.unit_scaling",
    "average_drop": "numc.train.recipes.dynamic_precision",
    "bleu": "numc.train.measures.metrics",
    "huggingface": "numc.train.trainers.huggingface_callback",
    "layer_errors": "numc.train.trainbf.errors",
    "lightning": "numc.train.trainers.lightning_callback",
    "ndcg": "numc.train.measures.metrics",
    "perplexity": "numc.train.measures.metrics",
    "read_statistics": "numc.train.observe.epoch_statistics",
    "report": "numc.train.runs.report",
    "speed_up": "numc.train.measures.extrapolation",
    "step_passes": "numc.studies.hardware.area",
    "top_k": "numc.train.measures.metrics",
}

__all__ = sorted(_PUBLIC)


def __dir__() -> list[str]:
    """Return the public names only."""
    return list(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use. Raises NumcError if it needs PyTorch and that is not there."""
        from importlib import import_module

        from numc.support.errors import NumcError

        if name not in _PUBLIC:
            raise AttributeError(f"module 'numc.train' has no attribute {name!r}")
        try:
            value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise NumcError(f"numc.train.{name}: PyTorch is not installed: pip install torch") from None
        return value


del TYPE_CHECKING
