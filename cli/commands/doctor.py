"""``numc doctor``: what numc finds on this machine, for reports of faults."""

from __future__ import annotations

import os
import platform
import shutil
from typing import Any

import click

from numc.cli import output
from numc.support.errors import NumcError, escaped
from numc.support.versions import ANY_TORCH_MLIR, TORCH_MLIR, check_torch_mlir, own_version, version_of

_EPILOG = """\b
Exit status: 0 if numc can compile and run a program here, 1 if it cannot.

\b
Examples:
  numc doctor
  numc doctor --json > doctor.json
"""

_NEEDED = ("torch-mlir", "onnx", "numpy", "click", "lark", "rich")
# A package or a program that numc does without: what is missing then, and how to get it.
_EXTRAS = {
    "torch": ("PyTorch modules, .pt2 files, torch.compile", "pip install torch"),
    "llvmlite": ("--target aarch64", "pip install 'numc[cross]'"),
    "onnxruntime": ("the check of fp32 in numc compare", "pip install onnxruntime"),
    "jinja2": ("numc compare --report", "pip install 'numc[report]'"),
    "matplotlib": ("numc compare --plots", "pip install 'numc[report]'"),
    "resvg-py": ("numc compare --plots", "pip install 'numc[report]'"),
    "tensorboard": ("Statistics.write_tensorboard", "pip install tensorboard"),
    "sacrebleu": ("numc.train.bleu", "pip install 'numc[bleu]'"),
    "distributed": ("numc search --workers and --scheduler", "pip install 'numc[search]'"),
    "optuna": ("numc search --sampler tpe and nsga2", "pip install 'numc[search]'"),
    "cryptography": ("signatures of program files", "pip install 'numc[sign]'"),
    "perf": ("profiles of the functions of a program (NUMC_PERF)", "the package of your Linux, such as linux-perf"),
    "gdb": ("debugging of the functions of a program (NUMC_GDB)", "the package of your Linux"),
}
VARIABLES = {
    "NUMC_CACHE_DIR": "the folder of the cache",
    "NUMC_CACHE_SIZE": "the largest size of the cache; default 2G, 0 is no cache",
    "NUMC_CHECK": "1: programs run in memory in which accesses beyond buffers and races show",
    "NUMC_COPY_WEIGHTS": "1: weights of program files are copied into memory, not mapped",
    "NUMC_DISABLE": "optimisations to leave out",
    "NUMC_GDB": "1: gdb is told the symbols of programs",
    "NUMC_IMPORT_MEMORY": "GiB that importing a model may take; default 4 and eight times the file",
    "NUMC_IMPORT_TIME": "seconds that importing a model may take; default 600",
    "NUMC_LINKER": "the linker of numc export; default ld.lld, then ld",
    "NUMC_MEMORY": "GiB that large buffers of a run may take; default the memory of the machine",
    "NUMC_NUM_THREADS": "threads of a run; default one for each CPU",
    "NUMC_PERF": "map or jitdump: perf is told the symbols of programs",
    "NUMC_RUNTIME_LIBRARY": "the file of the runtime library",
    ANY_TORCH_MLIR: f"any: another torch-mlir than {TORCH_MLIR}, at your own risk",
}
"""The variables that numc reads: name and meaning."""


@click.command("doctor", epilog=_EPILOG)
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor_command(context: click.Context, want_json: bool) -> None:
    """Print what numc finds on this machine: versions, processor, targets, cache, limits, and what is missing."""
    findings = _findings()
    if want_json:
        output.as_json(findings)
    else:
        for title, value in findings.items():
            _print(title, value)
    if findings["problems"]:
        context.exit(1)


def _findings() -> dict[str, Any]:
    problems: list[str] = []

    def tried(look: Any) -> Any:
        """Return the findings of `look`; a failure is a problem that the report lists, and does not end it."""
        try:
            return look()
        except Exception as error:
            problem = str(error) if isinstance(error, NumcError) else f"{type(error).__name__}: {error}"
            problems.append(escaped(problem))
            return None

    tried(check_torch_mlir)
    findings = {
        "versions": {"numc": own_version(), "Python": platform.python_version()}
        | {name: version_of(name) for name in (*_NEEDED, *(name for name in _EXTRAS if _is_package(name)))},
        "system": {"platform": platform.platform(), "C library": " ".join(platform.libc_ver())},
        "processor": tried(_processor),
        "targets": tried(_targets),
        "runtime": tried(_runtime),
        "cache": tried(_cache),
        "variables": _variables(),
        "missing": {name: f"{use}: {how}" for name, (use, how) in _EXTRAS.items() if not _is_there(name)},
    }
    tried(_product)
    return {**findings, "problems": problems}


def _is_package(name: str) -> bool:
    return name not in ("perf", "gdb")


def _is_there(name: str) -> bool:
    return (version_of(name) if _is_package(name) else shutil.which(name)) is not None


def _processor() -> dict[str, Any]:
    from numc.runtime.library import cpu_features, default_threads
    from numc.support.processor import processor_name

    return {
        "model": processor_name(),
        "CPUs": os.cpu_count(),
        "threads of a run": default_threads(),
        "features": sorted(cpu_features()),
    }


def _targets() -> dict[str, Any]:
    from numc.compiler.targets import TARGETS, resolve
    from numc.runtime.library import cpu_features

    features = cpu_features()
    runs = [name for name, target in TARGETS.items() if target.runs_with(features)]
    return {
        "host": resolve("host", features).name,
        "run here": runs,
        "compile only": [name for name in TARGETS if name not in runs],
    }


def _runtime() -> dict[str, Any]:
    from numc.runtime.library import find_library, library

    return {"library": str(find_library()), "version": library().numc_version().decode()}


def _cache() -> dict[str, Any]:
    from numc.compiler.cache import cache

    info = cache.info()
    return {**{key: info[key] for key in ("folder", "limit", "bytes")}, "programs": len(info["programs"])}


def _variables() -> dict[str, str | None]:
    """The values of the NUMC_ variables that numc reads, None for those not set, and of any others that are set."""
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith("NUMC_")}
    return {**dict.fromkeys(VARIABLES), **variables}


def _product() -> None:
    """Compile a product of two matrices and run it, without the cache. Raises an exception if that cannot be done."""
    import numpy as np

    from numc.compiler.options import Options
    from numc.compiler.programs.build import build
    from numc.frontends.imported import Imported
    from numc.runtime.program import Program

    matrix = "tensor<2x2xf32>"
    text = (
        f"func.func @main(%a: {matrix}, %b: {matrix}, %c: {matrix}) -> {matrix} {{\n"
        f"  %r = linalg.matmul ins(%a, %b : {matrix}, {matrix}) outs(%c : {matrix}) -> {matrix}\n"
        f"  return %r : {matrix}\n}}"
    )
    program = Program(build(Imported(mlir=text), Options()))
    a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8]], np.float32)
    result = np.asarray(program(a, b, np.zeros((2, 2), np.float32)))
    if not np.array_equal(result, [[19, 22], [43, 50]]):
        raise NumcError(f"a program that was compiled and run here gave {result.tolist()}, not the product")


def _print(title: str, value: Any) -> None:
    if isinstance(value, dict):
        click.echo(f"{title}:" if value else f"{title}: nothing")
        for name, fact in value.items():
            if title == "variables":
                fact = f"{'not set' if fact is None else repr(fact)} ({VARIABLES.get(name, 'numc does not read it')})"
            output.say(f"  {name}: {(', '.join(map(str, fact)) or 'none') if isinstance(fact, list) else fact}")
    else:
        lines = value or ["none" if title == "problems" else "not known"]
        output.say(f"{title}: {'; '.join(lines)}")
