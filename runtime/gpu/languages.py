"""Gluon for the text of a program: the package ``gluon`` and its language ``gl``, or stand-ins where it is emulated."""

from __future__ import annotations

from typing import Any

import triton


def __getattr__(name: str) -> Any:
    if name not in ("gl", "gluon"):
        raise AttributeError(name)
    if triton.knobs.runtime.interpret:
        from numc.runtime.gpu import emulated_gluon

        return emulated_gluon if name == "gl" else emulated_gluon.Decorators
    from triton.experimental import gluon
    from triton.experimental.gluon import language

    return language if name == "gl" else gluon
