"""What is published: what the source archive and the wheels contain, and that they work where nothing else is.

`make wheel` runs these tests on the files in NUMC_DIST. Without that variable they build them, which takes minutes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import emulated_python
import numc
from numc.cli import main
from rooms import ROOMS, ROOT
from tools.build_wheel import MACHINES

pytestmark = pytest.mark.slow

LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "ld", "as", "cmake", "ninja", "make")
INFO = f"numc-{numc.__version__}.dist-info"
TOOLS = "/usr/sbin:/usr/bin:/sbin:/bin"
# A root folder that has nothing but the folders named, as they are. The mounts are seen by this one process only.
CONTAINER = """
root=$1; shift
mount -t tmpfs none "$root"
mkdir "$root/tmp"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root${1%/*}"; touch "$root$1"; fi
  mount --rbind "$1" "$root$1"
  shift
done
shift
exec env -i HOME="$HOME" PATH="$PATH" chroot "$root" "$@"
"""


@pytest.fixture(scope="module")
def published():
    """The folder with the source archive and the wheels."""
    if given := os.environ.get("NUMC_DIST"):
        yield Path(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tools" / "build_wheel.py", "--to", folder], check=True)
        yield Path(folder)


@pytest.fixture(scope="module")
def archive(published):
    (file,) = published.glob("numc-*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheels(published):
    """By machine."""
    files = {file.stem.split("manylinux_2_27_")[-1]: file for file in published.glob("numc-*.whl")}
    assert set(files) == set(MACHINES)
    return files


@pytest.fixture(scope="module")
def venv(wheels):
    """A virtual environment with the wheel for this machine, its dependencies, and no more."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--copies", folder], check=True)
        pip = [Path(folder, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--only-binary", ":all:", wheels[platform.machine()]], check=True)
        yield Path(folder)


@pytest.fixture(scope="module")
def python_of_aarch64(wheels):
    """Python under qemu-aarch64 with the wheel for it and its dependencies; the code generator is that of here."""
    for command, package in emulated_python.NEEDED.items():
        if shutil.which(command) is None:
            pytest.skip(f"needs {command}, of the package {package}")
    generator = f"llvmlite=={version('llvmlite')}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            python = emulated_python.make(Path(folder))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"needs Debian's packages for arm64, and pip: {shlex.join(error.cmd)}: {error.stderr[-200:]}")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
        subprocess.run([*pip, wheels["aarch64"], generator], check=True)
        yield python


def repository() -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git repository")
    return set(listed.stdout.split("\n")) - {""}


def test_the_source_archive_is_the_repository(archive):
    with tarfile.open(archive) as tar:
        members = {m.name.split("/", 1)[1]: m for m in tar.getmembers()}
    assert set(members) == repository() | {"PKG-INFO"}
    links = {name: member.linkname for name, member in members.items() if not member.isfile()}
    assert links == {f"src/numc/{room}": f"../../{room}" for room in ROOMS}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_wheel_is_the_package_and_nothing_else(machine, wheels):
    sources = [name for name in repository() if name.startswith(ROOMS)]
    built = ("runtime/src/", "runtime/package/", "runtime/toolchains/", "runtime/CMakeLists.txt")
    sources = [name for name in sources if not name.startswith(built)]
    own = [name.removeprefix("src/numc/") for name in repository() if re.match(r"src/numc/.*\.", name)]
    info = [f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")]
    with zipfile.ZipFile(wheels[machine]) as archive:
        files = [entry for entry in archive.infolist() if not entry.is_dir()]
    assert {entry.filename for entry in files} == {
        *(f"numc/{name}" for name in (*sources, *own)),
        "numc/runtime/libnumc_runtime.so",
        *(f"numc/runtime/cmake/numcConfig{part}.cmake" for part in ("", "Version")),
        "numc/runtime/pkgconfig/numc.pc",
        *info,
    }
    assert {stat.S_IFMT(entry.external_attr >> 16) for entry in files} <= {0, stat.S_IFREG}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_library_runs_on_old_systems_and_shows_nothing_of_the_cpp_library(machine, wheels, tmp_path):
    from elftools.elf.elffile import ELFFile  # auditwheel depends on it

    assert wheels[machine].name == f"numc-{numc.__version__}-py3-none-manylinux_2_27_{machine}.whl"
    with zipfile.ZipFile(wheels[machine]) as archive:
        assert f"Tag: py3-none-manylinux_2_27_{machine}\n" in archive.read(f"{INFO}/WHEEL").decode()
        library = archive.extract("numc/runtime/libnumc_runtime.so", tmp_path)
    with open(library, "rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] == f"EM_{machine.upper()}"
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        symbols = [s for s in elf.get_section_by_name(".dynsym").iter_symbols() if s["st_shndx"] != "SHN_UNDEF"]
        versions = elf.get_section_by_name(".gnu.version_r").iter_versions()
        glibc = {version.name for _, auxiliary in versions for version in auxiliary}
    needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", LOADERS[machine]}
    assert not {tag.entry.d_tag for tag in tags} & {"DT_RPATH", "DT_RUNPATH"}
    assert {name for name in glibc if name.startswith("GLIBC_")} == glibc
    newest = max(tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in glibc)
    assert newest <= (2, 27), glibc
    assert {re.sub("^(numc_|__jit_debug_).*", r"\1", s.name) for s in symbols if s.name} == {"numc_", "__jit_debug_"}


def container(venv: Path, work: Path, root: Path) -> list[str]:
    """The start of a command that runs the rest where only Python, the venv, the C library and `work` are."""
    config = sysconfig.get_paths()
    libraries = [f"{base}/lib/{sysconfig.get_config_var('MULTIARCH')}" for base in ("", "/usr")]
    if shared := sysconfig.get_config_var("INSTSONAME"):  # libpython, where Python is linked with it
        libraries.append(os.path.join(sysconfig.get_config_var("LIBDIR"), shared))
    shown = [config["stdlib"], config["platstdlib"], "/lib64", *libraries, "/proc", "/dev", str(venv), str(work)]
    shown = [place for place in dict.fromkeys(shown) if os.path.exists(place)]
    tools = [shutil.which(name) for name in ("unshare", "sh")]
    return [tools[0], "--mount", "--map-root-user", tools[1], "-eu", "-c", CONTAINER, "sh", str(root), *shown, "--"]


@pytest.mark.parametrize("place", ["an empty PATH", "a container"])
def test_the_main_job_without_a_compiler(venv, tmp_path, place):
    """From a model to bits. The program is what this process, with another build of the runtime, makes of it, too."""
    work, home, nothing = (tmp_path / name for name in ("work", "home", "nothing"))
    for folder in (work, home, nothing):
        folder.mkdir()
    shutil.copy(ROOT / "examples" / "digits" / "cnn.onnx", work)
    start: list[str] = []
    if place == "a container":
        start = container(venv, work, nothing)
        if subprocess.run(["unshare", "--mount", "--map-root-user", "true"], check=False).returncode:
            pytest.skip("this system lets no one make a mount namespace")

    def run(*command: str) -> str:
        done = subprocess.run(
            [*start, venv / "bin" / "python", "-I", *command],
            cwd=work,
            env={"HOME": str(home), "PATH": str(nothing)} if not start else {"HOME": str(work), "PATH": TOOLS},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    look = f"import shutil, numc; print(numc.__file__, *[n for n in {COMPILERS} if shutil.which(n)])"
    assert run("-c", look).split() == [str(next(venv.glob("lib/python*/site-packages")) / "numc" / "__init__.py")]
    model, program, outputs = (str(work / name) for name in ("cnn.onnx", "cnn.numc", "y.npz"))
    numc_command = str(venv / "bin" / "numc")
    run(numc_command, "compile", model, "--fma", "bf16_1_2", "-o", program)
    run(numc_command, "run", program, "--random-input", "0", "--batch", "4", "--output", outputs)
    assert re.search(r"^0 mismatches in \d+ outputs checked$", run(numc_command, "verify", program), re.MULTILINE)
    numc.compile(model, fma="bf16_1_2", cache=False).save(tmp_path / "here.numc")
    assert digest(tmp_path / "here.numc") == digest(Path(program))


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_wheel_for_aarch64(python_of_aarch64, tmp_path, monkeypatch):
    """It compiles the program that this machine compiles for it, and computes what this machine does."""
    shutil.copy(ROOT / "examples" / "digits" / "mlp.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    compiled = ("compile", "mlp.onnx", "--fma", "bf16_1_2", "--no-cache", "-o")
    assert main([*compiled, "here.numc", "--target", "aarch64"]) == 0

    def run(*command: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMC_", "PYTHON"))}
        done = subprocess.run(
            [python_of_aarch64, "-I", "-m", "numc", *command], env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    run(*compiled, "there.numc")  # for the machine that it runs on
    assert Path("there.numc").read_bytes() == Path("here.numc").read_bytes()
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    np.save("x.npy", x)
    run("run", "there.numc", "--input", "x=x.npy", "--output", "y.npz")
    want = np.asarray(numc.compile("mlp.onnx", fma="bf16_1_2", cache=False)(x))
    assert np.load("y.npz")["logits"].tobytes() == want.tobytes()


def test_uninstalling_leaves_nothing(venv):
    (packages,) = venv.glob("lib/python*/site-packages")
    assert (packages / "numc").is_dir()
    subprocess.run([venv / "bin" / "python", "-m", "pip", "--quiet", "uninstall", "--yes", "numc"], check=True)
    assert [*packages.glob("numc*"), *(venv / "bin").glob("numc")] == []
