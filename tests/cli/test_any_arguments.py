"""Whatever is on the command line, the answer is an exit status and at most one line, and no traceback."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from mutations import NASTY
from numc.cli import cli

BASES = [
    ["compile", "m.mlir", "--emit", "linalg"],
    ["explain", "m.mlir"],
    ["cost", "m.mlir"],
    ["run", "p.numc", "--input", "i.npz"],
    ["verify", "p.numc", "--samples", "2"],
    ["diff", "p.numc", "p.numc", "--data", "i.npz"],
    ["opt", "m.mlir", "--to", "linalg"],
    ["list", "formats"],
    ["cache", "info"],
    ["compare", "m.mlir", "--data", "none.npz", "--fma", "mp", "--no-stats"],
    ["report", "none"],
    ["bisect", "m.mlir", "--data", "none.npz", "--tolerance", "1", "--fma", "mp"],
]
VALUES = [
    *NASTY, "", "--", "x", "0", "3", "1e999", "a\0b", "\udcffx", "m.mlir", "p.numc", "i.npz", "a.npy", "huge.npy",
    "bad.npz", "bad.numc", "empty", "empty.onnx", "bad.mlir", "folder.onnx", "e\x1b[31m\n.mlir", ".", "/dev/null",
    "/dev/full", "/dev/full/x", "/proc/self/mem", "x.json", "arg0=a.npy", "=", "i.npz:none", "arg0=2x4", "arg0=0x4",
    "x" * 300, "mp", "int8", "fma(a=bf16,acc=fp32", "host", "x86-64-v9", "swamping", "1/16", "top1", "linalg", "cse",
    "layer 0 mp", "--json",
]  # fmt: skip


@pytest.fixture
def files(folder: Path, numc_run: object) -> None:
    """Fill the working folder with files that are right, and with files that are wrong."""
    for name, source in (("m.mlir", "matmul.mlir"), ("p.numc", "matmul.numc")):
        Path(name).write_bytes((folder / source).read_bytes())
    arrays = {"arg0": np.ones((2, 4)), "arg1": np.ones((4, 3)), "arg2": np.ones((2, 3))}
    np.savez("i.npz", **{name: value.astype(np.float32) for name, value in arrays.items()})
    np.save("a.npy", np.ones((2, 4), np.float32))
    head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }"
    Path("huge.npy").write_bytes(head.ljust(128, b" "))
    Path("bad.npz").write_bytes(b"PK\x03\x04junk")
    Path("bad.numc").write_bytes(b"NUMC\r\n\x1a\n" + bytes(100))
    for name in ("empty", "empty.onnx"):
        Path(name).touch()
    Path("bad.mlir").write_text("(" * 10_000 + "\x1b[31m")
    Path("e\x1b[31m\n.mlir").write_text("no MLIR")
    Path("folder.onnx").mkdir()


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_mutants_of_command_lines(numc_run, files, count):
    choose = random.Random(count)
    options = {name: [option for p in each.params for option in p.opts] for name, each in cli.commands.items()}
    for _ in range(count):
        base = choose.choice(BASES)
        line, known = list(base), [option for option in options[base[0]] if option[0] == "-"] or ["--json"]
        for _ in range(choose.choice([1, 1, 2, 3])):
            at, how = choose.randrange(1, len(line) + 1), choose.randrange(5)
            if how == 0:
                line[at : at + 1] = [choose.choice(VALUES)]
            elif how == 1:
                del line[at:]
            else:
                line += [choose.choice(known), *([choose.choice(VALUES)] if choose.random() < 0.85 else [])]
        before = sorted(Path().iterdir())
        done = numc_run(*line)
        assert done.status in (0, 2), (line, done.err)
        errors = [text for text in done.err.splitlines() if text.startswith("numc: error: ")]
        assert len(errors) == (done.status == 2 and line != ["cache"]), (line, done.err)  # which has only subcommands
        assert all(c.isprintable() or c in "\n\t" for c in done.err), (line, done.err)
        assert len(done.err) < 10_000, line
        assert not [file for file in set(Path().iterdir()) - set(before) if file.name.startswith("numc-")], line
