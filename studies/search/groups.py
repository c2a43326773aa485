"""Groups of contractions that share a choice: those of one layer, kind or role, or the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

from numc.numerics.policy.layer import Layer
from numc.support.errors import NumcError, did_you_mean, quoted, shortened

BY = ("layer", "kind", "role", "model")
_PATTERN = set('*?["\\')


@dataclass(frozen=True)
class Group:
    """Contractions that share a choice. rule: the part of a policy's rule that selects them."""

    name: str
    rule: str


def groups(layers: Sequence[Layer], by: str, only: Sequence[str] = ()) -> tuple[Group, ...]:
    """Return the groups of the contractions among `layers`, in program order.

    by: one of BY. only: names or patterns of the groups that are searched; all others stay in fp32.
    Raises NumcError for an unknown name, and for a model without contractions.
    """
    if by not in BY:
        raise NumcError(f"by {quoted(by)}: unknown{did_you_mean(str(by), BY)}: want {', '.join(BY)}")
    all_groups = tuple(dict.fromkeys(_group(layer, by) for layer in layers if layer.position is not None))
    if not all_groups:
        raise NumcError("search: the model has no contractions, and so no choice")
    names = [group.name for group in all_groups]
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            near, listed = did_you_mean(pattern, names), ", ".join(map(shortened, names[:12]))
            raise NumcError(f"only {quoted(pattern)}: no such {by}{near}: the model has {listed}")
    return tuple(g for g in all_groups if not only or any(fnmatchcase(g.name, pattern) for pattern in only))


def shares(layers: Sequence[Layer], among: Sequence[Group], by: str) -> dict[str, float]:
    """Return the share of the model's multiply-adds of each group, with sizes that the model leaves free set to 1."""
    fmas = dict.fromkeys((group.name for group in among), 0)
    total = 0
    for layer in layers:
        if layer.position is not None:
            count = prod(size or 0 for size in layer.fixed(1).sizes.values())
            total += count
            if (name := _group(layer, by).name) in fmas:
                fmas[name] += count
    return {name: count / max(1, total) for name, count in fmas.items()}


def _group(layer: Layer, by: str) -> Group:
    if by == "model":
        return Group("model", "default")
    if by == "kind":
        return Group(layer.kind, f"op {layer.kind}")
    if by == "role":
        return Group(layer.role, f"role {layer.role}")
    if not layer.name or not layer.name.isprintable() or _PATTERN & set(layer.name):
        return Group(f"layer {layer.position}", f"layer {layer.position}")  # a name that no rule can have as it is
    return Group(layer.name, f'layer "{layer.name}"')
