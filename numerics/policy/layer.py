"""The operations of a model as policies see them: name, kinds, role, position and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

SIZES = ("m", "n", "k")
"""The sizes of a contraction: m rows of A, n columns of B, and k products in each sum."""

# A kind that operators have besides their own name, and the pattern of their names in ONNX and in PyTorch.
_FAMILIES = (
    ("batch_norm", r"batch_?norm"),
    ("layer_norm", r"layer_?norm"),
    ("group_norm", r"group_?norm"),
    ("instance_norm", r"instance_?norm"),
    ("rms_norm", r"rms_?norm|simplified_layer"),
    ("softmax", r"softmax|logsumexp"),
    ("max_pool", r"max_?pool"),
    ("avg_pool", r"(avg|average)_?pool"),
)
KINDS = ("matmul", "conv", *(name for name, _ in _FAMILIES))
"""The kinds that are called the same in ONNX and in PyTorch."""
ROLES = ("forward", "dgrad", "wgrad", "update", "norm", "softmax")
"""The purposes of an operation.

forward: the forward pass. dgrad: gradients of activations. wgrad: gradients of parameters. update: the optimizer. norm
and softmax: normalisation and softmax, in both directions. In contractions of dgrad and wgrad, the operator's A is the
gradient and its B the weight or the activation, in whatever order the graph has them.
"""
SWAPPED = ":ba"
"""The suffix of a role that says that the gradient is the contraction's second operand."""
_NORMS = frozenset(name for name, _ in _FAMILIES if name.endswith("_norm"))


@dataclass(frozen=True)
class Layer:
    """One operation of a model.

    name: the name that the source gives it. kinds: the words for what it is, the most common one first. role: one of
    ROLES, or "" if it is not known. swapped: whether the operator's A is the second operand. position: its number among
    the contractions in program order; None for other operations.
    loops: the loops of a contraction, each as the size that it is part of (m, n, k, or b for batches) and its length,
    which is None where the model leaves it free. operands: the shapes of A, B and the result.
    computes: whether it has float operations that round. multiplies: whether it has multiply-adds.
    """

    name: str
    kinds: tuple[str, ...]
    role: str = ""
    swapped: bool = False
    position: int | None = None
    loops: tuple[tuple[str, int | None], ...] = ()
    operands: tuple[tuple[int | None, ...], ...] = ()
    computes: bool = True
    multiplies: bool = True

    @property
    def kind(self) -> str:
        """The most common word for what it is."""
        return self.kinds[0]

    @property
    def sizes(self) -> Mapping[str, int | None]:
        """The sizes b (the number of products), m, n and k of a contraction; None for a free one."""
        sizes: dict[str, int | None] = {}
        for group in ("b", *SIZES):
            values = [size for name, size in self.loops if name == group]
            known = [size for size in values if size is not None]
            sizes[group] = math.prod(known) if len(known) == len(values) else None
        return sizes

    def fixed(self, free: int) -> Layer:
        """Return the same operation with every free size set to `free`."""
        loops = tuple((name, free if size is None else size) for name, size in self.loops)
        operands = tuple(tuple(free if size is None else size for size in shape) for shape in self.operands)
        return replace(self, loops=loops, operands=operands)

    @property
    def shape(self) -> str:
        """The sizes as text: ``64 x 10 x 512`` (m, n, k), or ``8 * (16 x 16 x 64)``; ``?`` stands for a free size."""
        if self.position is None:
            return ""
        sizes = {name: "?" if size is None else str(size) for name, size in self.sizes.items()}
        product = " x ".join(sizes[name] for name in SIZES)
        return product if sizes["b"] == "1" else f"{sizes['b']} * ({product})"


def kinds_of(words: str) -> tuple[str, ...]:
    """Return the kinds of an operator of ONNX (``BatchNormalization``) or PyTorch (``aten._softmax.default``).

    Behind it there may be other words, each after a space: the function that was called, the class of the module.
    """
    first, *others = words.split(" ")
    called = [_small(word) for word in others if word[:1].islower()]
    classes = [_small(word) for word in others if not word[:1].islower()]
    operator = _small(first)
    families = [
        family
        for family, pattern in _FAMILIES
        # A class that ends so is one, such as LlamaRMSNorm, and SoftmaxAttention is none.
        if re.search(pattern, operator) or any(re.search(rf"({pattern})(\dd)?$", name) for name in (*called, *classes))
    ]
    # A linear layer is called so in PyTorch, whatever operation it becomes.
    linear = "linear" if operator in ("gemm", "addmm") else ""
    return tuple(dict.fromkeys(filter(None, [*families, *called, operator, *classes, linear])))


def _small(word: str) -> str:
    """The name of an operator or a class in small letters: ``layer_normalization``."""
    name = word.removeprefix("aten.").split(".")[0]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def same_kind(word: str, other: str) -> bool:
    """Whether two words for a kind differ in nothing but capitals and underscores: ``ReLU`` is ``relu``."""
    return word.replace("_", "").lower() == other.replace("_", "").lower()


def role_of(kinds: tuple[str, ...]) -> str:
    """Return the role of an operation outside of training."""
    if _NORMS.intersection(kinds):
        return "norm"
    return "softmax" if "softmax" in kinds else "forward"


def pattern_of(name: str) -> str:
    """The place of a policy that is a name, whose characters may have a meaning in patterns; with its quotes."""
    return '"' + re.sub(r'["\\]', "?", re.sub(r"[*?[]", r"[\g<0>]", name)) + '"'
