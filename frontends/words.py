"""Failures of the importer in words of users. The one way on which its diagnostics get into messages.

torch-mlir speaks of operations, types and attributes of MLIR, which a model does not have. What is not known here is
told by what the caller knows: the operator, the types of its operands, its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from numc.support.errors import FAULT, shortened
from numc.support.files import keep

CONTRADICTION = "its inputs contradict each other"
FIX_CONDITION = "fix what the condition depends on, with shapes={...} or --shape, or values={...} or --value"
NO_CONVERSION = "numc has no conversion of it"
_KNOWN: Mapping[str, str] = {
    "has shape's dimension|size mismatch|should have the same number of elements": CONTRADICTION,
    "becomes tm_tensor": NO_CONVERSION,
    "must be a static|must be constant|expected constant|only constant|non-constant": (
        "what says its sizes, axes or counts is computed: it has to be a constant"
    ),
    "unknown rank|unranked": "the rank of what it reads is not known",
    "torch.complex|complex<": "numc has no conversion of it for complex numbers",
    "torch.str\\b|tensor of strings": "it has strings: only tensors of numbers are available",
}  # fmt: skip
FOREIGN = re.compile(
    r"failed to legalize|explicitly marked illegal|error: \"-\"|unrealized|(?<![\w.])(builtin|func|linalg|tensor|arith|"
    r"math|scf|cf|tm_tensor|memref|llvm|affine|bufferization|mlir|index)\.(?!md\b)\w|!torch|torch\.(aten|prims?|operator|"
    r"onnx|constant|vtensor|valsem|prim)\b|\bsi\d+'|'(u?i|si|f)(1|8|16|32|64)'|tensor<|vtensor|memref<|dense<|"
    r"\bloc\(|torch_mlir|torch-mlir|unimplemented:"
)
"""Words of MLIR and of torch-mlir, which no message of a refusal holds."""


def in_words(said: str) -> str:
    """Return the known cause that a diagnostic tells, otherwise NO_CONVERSION."""
    return next((words for pattern, words in _KNOWN.items() if re.search(pattern, said)), NO_CONVERSION)


def with_operands(reason: str, kinds: Iterable[str], attributes: Mapping[str, Any] = {}) -> str:
    """Return a reason; NO_CONVERSION with the types of operands, and the attributes or numbers beside them."""
    if reason != NO_CONVERSION:
        return reason
    details = [*kinds, *(f"{name}={shortened(value, 40)}" for name, value in attributes.items())]
    return f"{reason} for {', '.join(details)}" if details else reason


def crashed(how: str) -> str:
    """Return the reason of a failure in which the importer crashed."""
    return f"the importer {how}: {FAULT}"


def together(said: str, texts: Mapping[str, str] = {}) -> str:
    """Return the words for a model that fails though each of its operations does not; keep what was said, and the IR.

    texts: by the name of a file, what else to keep.
    """
    try:
        where = f"; what it is about is in {keep({'importer.txt': said, **texts})}"
    except OSError:
        where = ""
    why = "" if (words := in_words(said)) == NO_CONVERSION else f": {words}"
    return f"cannot be compiled{why}, though each operation alone can: {FAULT}{where}"
