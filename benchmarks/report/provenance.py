"""What results depend on: the class of the machine, the versions and the commit. Nothing names a particular machine."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from numc.runtime.library import cpu_features
from numc.support.processor import processor_name

PACKAGES = ("numpy", "torch", "torch-mlir", "onnxruntime", "apytypes")
ROOT = Path(__file__).resolve().parents[2]


def describe() -> dict[str, object]:
    """Return the processor, its instruction sets, the number of CPUs this process may use, and versions of packages."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(cpu family|model|flags)\s*: (.*)$", text, flags=re.MULTILINE))
    flags = set(fields["flags"].split())
    return {
        "processor": f"{processor_name()} (family {fields['cpu family']}, model {fields['model']})",
        "virtual": "hypervisor" in flags,
        "features": sorted({*cpu_features(), *(f for f in flags if f.startswith("amx") or f == "avx512_bf16")}),
        "cpus": len(os.sched_getaffinity(0)),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def commit() -> str:
    """Return the commit that is measured, followed by a + if files other than the results differ from it."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    name = git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
    changed = git("diff", "--quiet", "HEAD", "--", ".", ":!benchmarks/results.json", ":!docs").returncode
    return name + "+" * bool(changed)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
