"""Two builds of a program are the same bytes, whatever the folder, the hash seed, the threads and the locale are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from numc.compiler.options import Options
from numc.compiler.programs.compile import contents
from numc.runtime.container import write_program

EXAMPLES = Path(__file__).parents[2] / "examples"
# Model, options. The code of the first has several parts, which are compiled in parallel.
QUICK = [("digits/mlp.onnx", {"fma": "bf16_1_2", "pack_weights": True})]
MORE = [
    ("digits/cnn.onnx", {"fma": "fmac(e4m5)", "ops": "bf16", "statistics": True}),
    ("digits/cnn.onnx", {"fma": "mp", "target": "portable"}),
    ("models/lstm.onnx", {"fma": "bf16_2_2{3}"}),
    ("models/transformer.onnx", {"fma": "highbfp"}),
    ("models/transformer.onnx", {"fma": "fma(a=bf16,acc=fp32:sr8,datapath=exact)"}),
]

# Compiles in a process of its own what standard input lists, into 0.numc, 1.numc, ...
ELSEWHERE = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_reproducible import compile_all
compile_all(json.load(sys.stdin))
"""


def compile_all(programs) -> None:
    for number, (model, options) in enumerate(programs):
        write_program(f"{number}.numc", contents(Path(model).name, Options(**options), cache=False)[0])


def folder_with(models, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for model in models:
        shutil.copy(EXAMPLES / model, folder)
    return folder


@pytest.mark.all
@pytest.mark.parametrize("programs", [QUICK, pytest.param(MORE, marks=pytest.mark.slow)], ids=["quick", "more"])
def test_two_builds_are_the_same_bytes(programs, tmp_path, monkeypatch):
    models = {model for model, _ in programs}
    here, there = folder_with(models, tmp_path / "here"), folder_with(models, tmp_path / "quite" / "another place")
    monkeypatch.chdir(here)
    monkeypatch.setenv("NUMC_NUM_THREADS", "1")
    compile_all(programs)
    changed = {"PYTHONHASHSEED": "1", "NUMC_NUM_THREADS": "3", "LC_ALL": "C", "TZ": "Asia/Tokyo", "TMPDIR": str(there)}
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps(programs).encode(),
        cwd=there,
        env={**os.environ, **changed, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(there)},
        umask=0o077,
        check=True,
    )
    for number, program in enumerate(programs):
        file = f"{number}.numc"
        assert (here / file).read_bytes() == (there / file).read_bytes(), program


def test_only_the_name_of_the_model_is_recorded_of_where_it_was(tmp_path, monkeypatch):
    here, there = (folder_with(["digits/mlp.onnx"], tmp_path / name) for name in ("here", "there"))
    monkeypatch.chdir(here)
    one, other = (contents(str(name), Options(fma="mp"), cache=False)[0] for name in ("mlp.onnx", there / "mlp.onnx"))
    assert (one.code, one.ir, one.abi) == (other.code, other.ir, other.abi)
    assert one.manifest.pop("sources") == ["mlp.onnx"]
    assert other.manifest.pop("sources") == [str(there / "mlp.onnx")]
    assert one.manifest == other.manifest
