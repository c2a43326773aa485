"""Whole models and C programs on AArch64: the bits that they have here, with several threads too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import numc
from emulated import COMPILER, ROOT, Emulated, both, first_difference
from numc.cli import main
from numc.frontends.load import load_file
from numc.runtime import include_folder, library_folder
from numc.support.errors import NumcError
from tiers import one_in

pytestmark = pytest.mark.all
HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples"
# A convolutional, a transformer and a recurrent model, each under operators of other kinds.
MODELS = {"digits/cnn": "bf16_1_2", "models/transformer": "bf16_2_2{3}", "models/lstm": "mxfp8"}
MORE = [(name, fma) for name in MODELS for fma in ("fp32", "fmac(e6m9n)", "int8", "fma(a=bf16,acc=e6m9:sr8)")]


@pytest.mark.parametrize(
    ("name", "fma"), [*one_in(3, MODELS.items()), *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)]
)
def test_models(name: str, fma: str, emulated: Emulated, tmp_path: Path) -> None:
    model = load_file(EXAMPLES / f"{name}.onnx")
    rng = np.random.default_rng(0)
    runs = []
    for batch in (1, 3):
        shapes = [[batch if size < 0 else size for size in each.shape] for each in model.inputs]
        runs.append([rng.standard_normal(shape).astype(np.float32) for shape in shapes])
    theirs, ours = both(emulated, tmp_path, model, runs, fma=fma)
    assert (found := first_difference(theirs, ours)) is None, found


def _compiled(target: str, where: Path) -> Path:
    path = where / f"{target}.numc"
    model = str(EXAMPLES / "digits" / "mlp.onnx")
    assert main(["compile", model, "--fma", "fmac(e5m4)", "--target", target, "-o", str(path)]) == 0
    return path


def test_a_c_program_prints_the_same(emulated: Emulated, tmp_path: Path) -> None:
    """The command compiles for both machines, and examples/c/run.c runs on both."""
    source = EXAMPLES / "c" / "run.c"
    there = emulated.execute(
        emulated.compiled(source, "-std=c99"), _compiled("aarch64", tmp_path), NUMC_NUM_THREADS="3"
    )
    assert (there.returncode, there.stderr) == (0, "")
    made = tmp_path / "run"
    flags = [f"-I{include_folder()}", f"-L{library_folder()}", "-lnumc_runtime", f"-Wl,-rpath,{library_folder()}"]
    subprocess.run(["cc", "-std=c99", str(source), *flags, "-o", str(made)], check=True)
    here = subprocess.run([made, _compiled("host", tmp_path)], capture_output=True, text=True, check=True)
    assert there.stdout == here.stdout
    assert there.stdout.count(" ") == 20  # of two images the scores of ten digits


@pytest.mark.parametrize("linker", ["ld.lld", "aarch64-linux-gnu-ld"])
def test_a_shared_object(linker: str, emulated: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a linker makes here, in a C program that runs there, in one folder and without anything else."""
    if shutil.which(linker) is None:
        pytest.skip(f"needs {linker}, of the package {'lld' if linker == 'ld.lld' else 'binutils-aarch64-linux-gnu'}")
    monkeypatch.setenv("NUMC_LINKER", linker)
    program, out = _compiled("aarch64", tmp_path), tmp_path / "out"
    out.mkdir()
    runtime = emulated.folder / "runtime" / "libnumc_runtime.so"
    assert main(["export", str(program), "--shared", str(out / "libmlp.so"), "--runtime", str(runtime)]) == 0
    flags = [f"-I{out}", f"-L{out}", "-lmlp", "-lnumc_runtime", "-Wl,-rpath,$ORIGIN", "-o", out / "exported"]
    subprocess.run([COMPILER, "-std=c99", EXAMPLES / "c" / "exported.c", *flags], check=True)
    done = emulated.execute(out / "exported", LD_LIBRARY_PATH="")
    assert (done.returncode, done.stderr) == (0, "")
    found = np.array([float.fromhex(line) for line in done.stdout.split()], np.float32)
    here = numc.load(_compiled("host", tmp_path))(np.ones((1, 64), np.float32))
    assert found.tobytes() == np.asarray(here).tobytes()
    rows = subprocess.run(["readelf", "-lW", out / "libmlp.so"], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"LOAD .* RWE ", rows)  # nothing is both written and executed


def test_a_shared_object_needs_the_runtime_of_its_machine(emulated: Emulated, tmp_path: Path) -> None:
    with pytest.raises(NumcError, match=r"\.so: code of x86-64, and the program is for aarch64: want the libnumc_run"):
        numc.export_shared(_compiled("aarch64", tmp_path), tmp_path / "libmlp.so")
    made = numc.export_shared(_compiled("aarch64", tmp_path), tmp_path / "libmlp.so", runtime=False)
    assert made.runtime == ()


def test_a_program_for_another_architecture_is_refused(emulated: Emulated, tmp_path: Path) -> None:
    program = _compiled("x86-64-v3", tmp_path)
    done = emulated.execute(emulated.compiled(EXAMPLES / "c" / "run.c", "-std=c99"), program)
    assert done.returncode == 2
    text = "compiled for target 'x86-64-v3' (x86-64), this machine is aarch64: recompile with --target"
    assert done.stderr == f"run: '{program}': {text}\n"


def _objects(where: Path, *models: str) -> list[Path]:
    """loaded.c, compiled for some code models."""
    made = []
    for number, flags in enumerate(models):
        made.append(where / f"{number}.o")
        command = ["aarch64-linux-gnu-gcc", "-c", "-O1", "-ffreestanding", *flags.split(), str(HERE / "loaded.c")]
        subprocess.run([*command, "-o", str(made[-1])], check=True)
    return made


def test_relocations(emulated: Emulated, tmp_path: Path) -> None:
    objects = _objects(tmp_path, "-fPIC", "-fno-pic -fno-pie", "-fPIC -fcommon -ffunction-sections -g")
    done = emulated.execute(emulated.compiled(HERE / "relocations.c"), *objects)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_floating_point_environment(emulated: Emulated) -> None:
    done = emulated.execute(emulated.compiled(HERE / "environment.c"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_a_fault_in_a_checked_run(emulated: Emulated, tmp_path: Path) -> None:
    done = emulated.execute(emulated.compiled(HERE / "faults.c"), *_objects(tmp_path, "-fPIC"), NUMC_CHECK="1")
    assert done.stdout == "-4 the program reads or writes at an address that is in no buffer (found by NUMC_CHECK)\n"
