"""Gluon for the text of a program: the package ``gluon``, its language ``gl``, the ``barrier`` of all its threads, and
``at_least`` (gpu_instructions.py).

They are stand-ins where kernels are emulated.
"""

from __future__ import annotations

from typing import Any

import triton


def __getattr__(name: str) -> Any:
    if name not in ("at_least", "barrier", "gl", "gluon"):
        raise AttributeError(name)
    language, package = _emulated() if triton.knobs.runtime.interpret else _compiled()
    if name == "at_least":
        return getattr(language, name, None) or _compiled_at_least()
    if name == "barrier":  # Triton 3.6 calls it thread_barrier
        return getattr(language, "barrier", None) or language.thread_barrier
    return language if name == "gl" else package


def _emulated() -> tuple[Any, Any]:
    from numc.runtime.gpu import emulated_gluon

    return emulated_gluon, emulated_gluon.Decorators


def _compiled_at_least() -> Any:
    from numc.runtime.gpu.gpu_instructions import at_least

    return at_least


def _compiled() -> tuple[Any, Any]:
    from triton.experimental import gluon
    from triton.experimental.gluon import language

    return language, gluon
