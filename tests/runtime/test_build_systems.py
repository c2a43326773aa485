"""What build systems find: numcConfig.cmake, numc.pc, and the interface for C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.cli import main
from numc.runtime.library import package_folder
from numc.support.errors import NumcError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "c"


def paths(capsys, option: str) -> str:
    assert main(["paths", option]) == 0
    return capsys.readouterr().out.strip()


def built(capsys, folder: Path) -> str:
    """The C++ example, by the flags of `numc paths`."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    flags = f"{paths(capsys, 'cflags')} {paths(capsys, 'libs')}".split()
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(["c++", *strict, str(EXAMPLES / "run.cpp"), *flags, "-o", str(folder / "run")], check=True)
    return str(folder / "run")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("built") / "mlp.numc"
    made = numc.compile("examples/digits/mlp.onnx", fma="bf16_1_1")
    made.save(path)
    return path, [float(v) for v in made(np.ones((1, 64), np.float32))[0]]


def test_the_interface_for_cpp(capsys, tmp_path, program):
    run, (path, want) = built(capsys, tmp_path), program
    done = subprocess.run([run, path], capture_output=True, text=True, check=True)
    assert [float.fromhex(line) for line in done.stdout.split()] == want
    done = subprocess.run([run, tmp_path / "no.numc"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"run: '{tmp_path}/no.numc': No such file or directory\n")


def test_find_package(capsys, tmp_path, program):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    path, want = program
    folder = paths(capsys, "cmake")
    subprocess.run(["cmake", "-S", EXAMPLES, "-B", tmp_path, f"-Dnumc_DIR={folder}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    done = subprocess.run([tmp_path / "run_cpp", path], capture_output=True, text=True, check=True)
    assert [float.fromhex(line) for line in done.stdout.split()] == want
    (tmp_path / "CMakeLists.txt").write_text("project(x C)\nfind_package(numc 0.2 REQUIRED)\n")
    other = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-Dnumc_DIR={folder}"]
    done = subprocess.run(other, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "version: 0.1.0" in done.stderr


def test_pkg_config(capsys, monkeypatch):
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config")
    monkeypatch.setenv("PKG_CONFIG_PATH", paths(capsys, "pkgconfig"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "numc"], capture_output=True, text=True, check=True)
    include, library, *_ = (word[2:] for word in flags.stdout.split())
    assert (Path(include) / "numc.h").is_file()
    assert (Path(library) / "libnumc_runtime.so").is_file()
    version = subprocess.run(["pkg-config", "--modversion", "numc"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == numc.__version__


def test_paths_as_a_table(capsys):
    assert main(["paths"]) == 0
    rows = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["what", "include", "library", "cmake", "pkgconfig", "cflags", "libs"]


def test_what_is_not_there():
    with pytest.raises(NumcError, match=r"cmake/none is not there: want numc installed by pip and not editable, or by"):
        package_folder("cmake", "none")
