"""Operations that torch decomposes while it traces a graph, before it reads numc's table of decompositions.

torch gives some operations kernels in Python for automatic differentiation, which run first. What the table says of
such operations has to stand in for these kernels, or it is never read.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from numc.frontends.pytorch.rewrites.embeddings import one_hot
from numc.frontends.pytorch.rewrites.images.resizing import cubic_of_bytes, linear
from numc.frontends.pytorch.rewrites.losses import multi_margin_loss, multilabel_margin_loss_forward

KEYS = {torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd}
DECOMPOSED: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss_forward,
    torch.ops.aten.multi_margin_loss.default: multi_margin_loss,
    torch.ops.aten.one_hot.default: one_hot,
    **{
        operation: resized
        for operation, resized in {**linear(), **cubic_of_bytes()}.items()
        if operation.py_kernels.keys() & KEYS
    },
}
"""What torch decomposes in other ways than these."""
WHOLE = (torch.ops.aten.softshrink.default, torch.ops.aten.hardshrink.default)
"""What has another gradient in eager torch than what torch decomposes it to: it stays one operation, as the table reads
it."""
_lock = threading.Lock()
_users = 0
_theirs: dict[torch._ops.OpOverload, dict[Any, Any]] = {}


@contextlib.contextmanager
def traced_as_in_the_table() -> Iterator[None]:
    """Let torch trace these operations as numc's table has them, in all threads."""
    global _users
    with _lock:
        if _users == 0:
            _replace()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _restore()


def _replace() -> None:
    for operation in (*DECOMPOSED, *WHOLE):
        theirs = {key: operation.py_kernels[key] for key in KEYS & operation.py_kernels.keys()}
        _theirs[operation] = theirs
        for key, kernel in theirs.items():
            if operation in DECOMPOSED:
                operation.py_kernels[key] = _instead(DECOMPOSED[operation], kernel)
            else:
                del operation.py_kernels[key]
        operation._dispatch_cache.clear()  # torch has the kernel of an earlier call there


def _restore() -> None:
    for operation, theirs in _theirs.items():
        operation.py_kernels.update(theirs)
        operation._dispatch_cache.clear()
    _theirs.clear()


def _instead(decomposed: Callable[..., Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        result = decomposed(*args, **kwargs)
        return kernel(*args, **kwargs) if result is NotImplemented else result

    return traced
