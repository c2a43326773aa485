"""``python -m killed_compiles FOLDER COUNT``: compiles a model in a child that is killed at a random moment.

Prints, as JSON, what was wrong: nothing where the program file is complete or absent, the cache serves the next
compilation, and that one leaves no temporary file in the cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numc.compiler.programs.build
import numc.compiler.programs.compile  # noqa: F401 - what a child needs is imported before it is made
from numc.cli import main as command
from numc.runtime import load
from numc.support.errors import NumcError
from numc.support.files import TEMPORARY

MODEL = """
func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %c: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%c : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
"""


def compile_in_child(folder: Path, fma: str, delay: float | None) -> int:
    """Compile in a child, kill it after so many seconds, and return its status."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException), open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            os.setpgid(0, 0)
            os.chdir(folder)
            status = command(["compile", "model.mlir", "--fma", fma, "-o", "out.numc"])
        os._exit(status)
    if delay is not None:
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def temporary_files(cache: Path) -> set[str]:
    return {path.name for path in cache.rglob("*") if TEMPORARY.fullmatch(path.name)}


def main(folder: Path, count: int) -> dict[str, object]:
    cache = folder / "cache"
    os.environ["NUMC_CACHE_DIR"] = str(cache)
    (folder / "model.mlir").write_text(MODEL)
    out = folder / "out.numc"
    rng = random.Random(0)
    wrong, killed, complete = [], 0, 0
    began = time.monotonic()
    if compile_in_child(folder, "mp", None) != 0:
        return {"wrong": ["the model does not compile"], "killed": 0, "complete": 0}
    whole = time.monotonic() - began
    for number in range(count):
        out.unlink(missing_ok=True)
        fma = f"fmac(e{2 + number % 6}m{1 + number // 6 % 10})"  # another one, so that it is not in the cache
        killed += compile_in_child(folder, fma, rng.random() * whole * 1.1) == signal.SIGKILL
        if out.exists():
            complete += 1
            try:
                load(out)
            except NumcError as error:
                wrong.append(f"{number}: {error}")
        before = temporary_files(cache)  # of the child that was killed
        if compile_in_child(folder, fma, None) != 0:
            wrong.append(f"{number}: the cache is not usable")
        load(out)
        wrong += [f"{number}: {name} is left in the cache" for name in sorted(temporary_files(cache) - before)]
    return {"wrong": wrong, "killed": killed, "complete": complete}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
