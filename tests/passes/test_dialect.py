"""The numc dialect as Python sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from torch_mlir import ir

from numc.passes import dialect, linalg

TEXT = """
func.func @main(%x: f32) -> f32 {
  %y = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
  %z = "numc.fma"(%y, %x, %x) {fma = "fp32"} : (f32, f32, f32) -> f32
  return %z : f32
}
"""


def test_operations_are_those_of_the_dialect_and_nothing_is_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with dialect.context():
        module = ir.Module.parse(TEXT)
    list(linalg.main(module.operation).regions[0].blocks[0].operations)  # the modules of other dialects
    searched: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            searched.append(name)

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    first, second, _ = linalg.main(module.operation).regions[0].blocks[0].operations
    assert isinstance(first, dialect.RoundOp)
    assert isinstance(second, dialect.FmaOp)
    assert searched == []


_SEVERAL_THREADS = """
import threading
from numc.passes import dialect

threads = [threading.Thread(target=lambda: [dialect.context() for _ in range(150)]) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_contexts_are_made_on_several_threads():
    """A process of its own, which a module that another thread has freed would end."""
    done = subprocess.run([sys.executable, "-c", _SEVERAL_THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
