"""The C++ models give the bits of the definition, on every kind of number that they pass."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from numc.hardware.circuits.operator_circuit import surrounding_circuits
from numc.hardware.emission import identifier
from numc.hardware.model import model
from numc.hardware.ports import interface
from numc.hardware.stimulus import cases
from numc.numerics.grammar import parse_fma
from operators_of_hardware import ALL

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
# Numbers of 64 bits, of 128, longer ones; words of odd and even numbers; a table; random bits.
FEW = [
    "fmac(e4m3:sr4)",
    "fp32",
    "cdna1_bf16",
    "highbfp",
    "fma(a=nf4,acc=e4m3)",
    "fma(a=e5m2,acc=e5m2,datapath=fused(l=9,bits=9))",
]


def differences(text: str, count: int, folder: Path, *flags: str) -> list[str]:
    """Steps of which a model and the definition differ."""
    op = parse_fma(text)
    of = interface(op)
    (folder / "model.h").write_text(model(op))
    words, arguments = 0, []
    for port in of.inputs:
        size = -(-port.width // 32)
        high = f" | std::uint64_t(w[{words + 1}]) << 32" if size == 2 else ""
        arguments.append(f"w + {words}" if port.width > 64 else f"w[{words}]{high}")
        words += size
    call = f"numc_{identifier(text_of(text))}::step({', '.join(arguments)})"
    (folder / "main.cpp").write_text(
        f'#include "model.h"\n#include <cstdio>\nint main() {{ static std::uint32_t w[{words}];'
        f' while (fread(w, 4, {words}, stdin) == {words}) std::printf("%llx\\n", (unsigned long long){call}); }}\n'
    )
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run(["g++", *options, "-o", "main", "main.cpp"], cwd=folder, check=True)
    chosen = list(cases(of, "corner", 1, 2))
    chosen = random.Random(2).sample(chosen, min(count, len(chosen))) + list(cases(of, "random", count, 2))
    data = b"".join(
        port.joined(codes[port.name]).to_bytes(-(-port.width // 32) * 4, "little")
        for _, codes in chosen
        for port in of.inputs
    )
    done = subprocess.run([folder / "main"], input=data, capture_output=True, check=True)
    assert not done.stderr, done.stderr
    results = [int(word, 16) for word in done.stdout.split()]
    wanted = [(codes, of.expected(codes)) for _, codes in chosen]
    pairs = zip(wanted, results, strict=True)
    return [f"{text} {codes}: {got:#x}, want {want:#x}" for (codes, want), got in pairs if want not in (None, got)]


def text_of(text: str) -> str:
    return str(parse_fma(text))


@pytest.mark.parametrize("text", FEW)
def test_models_of_operators(text, tmp_path):
    assert not differences(text, 60, tmp_path)[:1]


@pytest.mark.slow
@pytest.mark.parametrize("text", ALL)
def test_models_of_all_operators_without_undefined_behaviour(text, tmp_path):
    flags = "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"
    assert not differences(text, 3000, tmp_path, *flags)[:1]


def test_a_model_of_chunks_has_what_surrounds_them(tmp_path, numc_run):
    assert numc_run("model", "fmac(e4m3,chunk=2)", "-o", "fma.h").status == 0
    (tmp_path / "main.cpp").write_text(
        '#include "fma.h"\n#include <cstdio>\nint main() { using namespace numc_fma_a_e4m3_acc_e4m3_chunk_2;\n'
        "std::uint64_t t = start(0x38); t = total(t, step(0x38, 0x38, step(0x38, 0x38, 0)));\n"
        'std::printf("%llx %llx", (unsigned long long)t, (unsigned long long)finish(t)); }\n'
    )
    subprocess.run(["g++", "-std=c++17", "-o", "main", "main.cpp"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "40400000 44"  # 1 + (1 + 1) is 3
    assert list(surrounding_circuits(parse_fma("fmac(e4m3,chunk=2)"))) == ["start", "total", "finish"]


def test_errors_of_the_commands(numc_run, tmp_path):
    for command in ("model", "rtl"):
        found = numc_run(command, "amx_bf16", "-o", "x")
        text = "operator 'amx_bf16' has no circuit: it is an instruction of a processor, want another datapath"
        assert (found.status, found.error) == (2, text)
        assert not (tmp_path / "x").exists()
        assert "cannot write: there is no folder no" in numc_run(command, "fp32", "-o", "no/x").error
    found = numc_run("rtl", "fp32", "--stages", 1000, "-o", "x")
    assert found.error.startswith("stages: got 1000, want 0 to ")
    assert found.error.endswith("the longest path has so many operations")
    assert numc_run("model", "fmac(e2m1)", "-o", "-").out.startswith("// One step of the operator")
