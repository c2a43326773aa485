"""What has to be measured in a separate process: compile time, start-up time and peak memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import numc.runtime
from benchmarks.cases import (
    COMPILE_SECONDS,
    FIRST_STEP_SECONDS,
    LARGE_STEP_MEMORY,
    MEMORY_FACTOR,
    PROCESSES,
    STARTUP_SECONDS,
    STEP_MEMORY,
)
from benchmarks.models import graphs
from benchmarks.models.zoo import MODELS

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits/mlp.onnx"
NUMC = (sys.executable, "-m", "numc")


def _run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> float:
    """Run a command and return how many seconds it took. Raises CalledProcessError if it fails."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    return time.perf_counter() - start


def compile_times(seconds: float, quick: bool) -> list[Row]:
    """Time ``numc compile`` with an empty cache, and again for the same model."""
    rows = []
    with graphs.folder() as folder:
        for name in ("light_resnet50",) if quick else MODELS:
            path, _ = MODELS[name](1, folder)
            with tempfile.TemporaryDirectory() as cache:
                where = {"XDG_CACHE_HOME": cache, "NUMC_CACHE_DIR": cache}
                command = (*NUMC, "compile", path, "--fma", "bf16_1_2", "-o", f"{folder}/out.numc")
                for state, bar in COMPILE_SECONDS.items():
                    bars = {"must": bar.must, "aim": bar.aim} if name == "light_resnet50" else {}
                    rows.append({"model": name, "cache": state, "seconds": _run(command, where), **bars})
    return rows


def startup(seconds: float, quick: bool) -> list[Row]:
    """Time a small compiled program from the command line and from C."""
    with graphs.folder() as folder:
        program, output = f"{folder}/mlp.numc", f"{folder}/y.npz"
        _run((*NUMC, "compile", DIGITS, "--fma", "bf16_1_1", "-o", program))
        commands: dict[str, Sequence[str | Path]] = {
            "numc run": (*NUMC, "run", program, "--random-input", "0", "--output", output),
            "C program": (c_program(folder), program),
            "python -c 'import numpy'": (sys.executable, "-c", "import numpy"),
        }
        rows = []
        for name, command in commands.items():
            times = [_run(command) for _ in range(5 if quick else 20)]
            row = {"command": name, "seconds": min(times), "median_seconds": statistics.median(times)}
            rows.append({**row, "must": STARTUP_SECONDS.get(name)})
    return rows


def c_program(folder: str) -> Path:
    """Build examples/c/run.c with the runtime in use; returns the executable."""
    library, built = numc.runtime.library_folder(), Path(folder) / "run"
    flags = (f"-I{numc.runtime.include_folder()}", f"-L{library}", "-lnumc_runtime", f"-Wl,-rpath,{library}")
    _run(("cc", "-O2", ROOT / "examples/c/run.c", *flags, "-o", built))
    return built


# Prints the peak memory of its process in KiB. The maximum of getrusage will not do: it includes the memory that the
# parent had at the fork.
_PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
_CHILDREN = {
    "numpy": "",
    "numc": "import numc.runtime; p = numc.runtime.load(sys.argv[1]); [p(x, threads=1) for _ in range(3)]",
    "onnxruntime": """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 1, 4
session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
[session.run(None, x) for _ in range(3)]""",
}


def memory(seconds: float, quick: bool) -> list[Row]:
    """Measure the peak resident memory of processes: three runs of a model on one thread, three steps of a training."""
    rows = _steps(quick)
    with graphs.folder() as folder:
        for name in ("transformer encoder",) if quick else MODELS:
            for batch in (1,) if quick else (1, 8):
                path, feeds = MODELS[name](batch, folder)
                _run((*NUMC, "compile", path, "-o", f"{folder}/model.numc"))
                np.savez(f"{folder}/x.npz", **feeds)
                peak = {what: _peak_mib(code, folder, path) for what, code in _CHILDREN.items()}
                row = {"model": name, "batch": batch, "mib": peak["numc"], "onnxruntime_mib": peak["onnxruntime"]}
                row |= {"numpy_mib": peak["numpy"], "ratio": peak["numc"] / peak["onnxruntime"], "must": MEMORY_FACTOR}
                rows.append(row)
    return rows


def _peak_mib(code: str, folder: str, model: Path) -> float:
    text = f"import sys, numpy as np; x = dict(np.load(sys.argv[3]))\n{code}\n{_PEAK}"
    command = (sys.executable, "-c", text, f"{folder}/model.numc", str(model), f"{folder}/x.npz")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


# The network without its weights is made first, which imports all that it needs.
_TRAINING = """
import json, sys, torch
from benchmarks.models.architectures import LARGE_STEPS, STEPS
from train_step import measured, peak
case = (STEPS | LARGE_STEPS)[sys.argv[1]]
with torch.device("meta"):
    case.model()
imports = peak()
print(json.dumps({"imports": imports, **measured(case, sys.argv[2], steps=int(sys.argv[3]))}))"""


def _steps(quick: bool) -> list[Row]:
    """Time the first step of a process with an empty cache and with a full one, and measure its peak memory."""
    from benchmarks.models.architectures import STEPS

    rows = []
    for name in STEPS:
        if not name.startswith(PROCESSES[-1:] if quick else PROCESSES):
            continue
        eager = _training(name, "eager", "")
        theirs = eager["peak_mib"] - eager["imports"]
        for operator, must in STEP_MEMORY.items():
            with tempfile.TemporaryDirectory() as cache:
                cold, warm = (_training(name, operator, cache) for _ in range(2))
            row = {"model": name, "operator": operator, "compilations": [cold["compilations"], warm["compilations"]]}
            row |= {f"{key}_seconds": run["first_seconds"] for key, run in (("cold", cold), ("warm", warm))}
            row |= {f"{key}mib": run["peak_mib"] - run["imports"] for key, run in (("cold_", cold), ("", warm))}
            row |= {"eager_mib": theirs, "imports_mib": eager["imports"], "ratio": row["mib"] / theirs}
            row |= {"time": warm["later_seconds"] / eager["later_seconds"], "seconds_must": FIRST_STEP_SECONDS}
            rows.append({**row, "must": must})
    return rows


def activations(seconds: float, quick: bool) -> list[Row]:
    """Measure the peak memory of two training steps whose activations take most of it, in a process of their own."""
    from benchmarks.models.architectures import LARGE_STEPS

    rows = []
    for name in list(LARGE_STEPS)[:1] if quick else LARGE_STEPS:
        eager = _training(name, "eager", "", steps=2)
        theirs = eager["peak_mib"] - eager["imports"]
        for operator, must in LARGE_STEP_MEMORY.items():
            with tempfile.TemporaryDirectory() as cache:
                training = _training(name, operator, cache, steps=2)  # other processes compile
            row = {"model": name, "operator": operator, "mib": training["peak_mib"] - training["imports"], "must": must}
            rows.append({**row, "eager_mib": theirs, "ratio": row["mib"] / theirs})
    return rows


def _training(name: str, operator: str, cache: str, steps: int = 3) -> Row:
    where = {"NUMC_CACHE_DIR": cache, "NUMC_CACHE_SIZE": "4G", "OMP_NUM_THREADS": "2"}
    command = (sys.executable, "-c", _TRAINING, name, operator, str(steps))
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **where})
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
