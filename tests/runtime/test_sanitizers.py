"""The runtime under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer: programs at several
numbers of threads, two runs of one program at once, and damaged program files.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import numc
import runtime_programs as programs
from fuzz.mutants import damaged, edits_of_bytes
from fuzz.targets import resealed
from numc.frontends.load import load_file
from numc.runtime import write_program
from tiers import one_in

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("driver.c")
DAMAGED = 200
LIBRARIES = {"address,undefined": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}

pytestmark = pytest.mark.all


class Branches(torch.nn.Module):
    """Layers beside each other, which run side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3))) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), torch.softmax(self.other(x), -1)], 1)


def built(cache: pytest.Cache, sanitizers: str) -> Path:
    """The driver, linked to a runtime with sanitizers; built once for each state of the sources."""
    compiler = shutil.which("g++")
    if compiler is None or shutil.which("cmake") is None:
        pytest.skip("no g++ or no CMake")
    for library in LIBRARIES[sanitizers]:
        where = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        if not Path(where.stdout.strip()).is_file():
            pytest.skip(f"no {library}")
    sources = sorted([*(ROOT / "runtime").rglob("*.[ch]pp"), *(ROOT / "runtime").rglob("*.[h]"), DRIVER])
    sources += [ROOT / "runtime" / "CMakeLists.txt"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = Path(cache.mkdir("sanitized")) / f"{sanitizers.replace(',', '-')}-{digest}"
    program = folder / "driver"
    if not program.exists():
        options = [f"-DNUMC_SANITIZE={sanitizers}", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_COMPILER={compiler}"]
        # Several sources at once: their headers take most of the time.
        options += ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=6"]
        subprocess.run(["cmake", "-S", ROOT, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "-j2"], check=True, stdout=subprocess.DEVNULL)
        library = folder / "runtime"
        flags = [f"-fsanitize={sanitizers}", "-g1", f"-I{ROOT / 'runtime' / 'include'}", f"-L{library}"]
        flags += [f"-Wl,-rpath,{library}", "-Wall", "-Wextra", "-Werror", "-lpthread"]
        made = folder / "driver.part"
        subprocess.run(["gcc", DRIVER, "-o", made, *flags, "-lnumc_runtime"], check=True)
        os.replace(made, program)
    return program


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("programs")
    good = []
    for make in (programs.add, programs.add_packed, programs.parallel, programs.odd_results):
        good.append(folder / f"{make.__name__}.numc")
        write_program(good[-1], make())
    source = load_file(ROOT / "examples" / "digits" / "cnn.onnx")
    for name, options in {"mp": {"fma": "mp"}, "sr": {"fma": "fmac(e6m9:sr8)"}, "int8": {"fma": "int8"}}.items():
        good.append(folder / f"{name}.numc")
        numc.compile(source, **options).save(good[-1])
    numc.compile(Branches(), (torch.zeros(24, 256),)).save(folder / "branches.numc")
    good.append(folder / "branches.numc")
    rng = random.Random(0)
    bad = []
    for number in range(DAMAGED):
        seed = good[number % 4].read_bytes()
        bad.append(folder / f"damaged{number}.numc")
        data = damaged(seed, edits_of_bytes(rng, len(seed)))
        bad[-1].write_bytes(resealed(data) if number % 4 else data)
    return good + bad


@pytest.mark.parametrize("sanitizers", one_in(len(LIBRARIES), LIBRARIES))
def test_nothing_is_reported(sanitizers: str, files: list[Path], request: pytest.FixtureRequest) -> None:
    program = built(request.config.cache, sanitizers)
    # The address space of the sanitizers' shadow memory must not be limited or shuffled too widely.
    command = ["setarch", "-R", program] if shutil.which("setarch") else [program]
    environment = {"ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1", "PATH": os.environ["PATH"]}
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(files)
    assert [line for line in lines if not line.startswith("damaged")] == [
        f"{path.name}: loaded, 0 runs failed" for path in files if not path.name.startswith("damaged")
    ]
    assert sum(line.endswith("refused") for line in lines) > DAMAGED // 2
