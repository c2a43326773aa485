"""numc run --stats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import numc


@pytest.fixture(scope="module")
def counting(folder, tmp_path_factory):
    """matmul.mlir, compiled to count."""
    from numc.cli import main

    path = tmp_path_factory.mktemp("counting") / "counting.numc"
    assert main(["compile", str(folder / "matmul.mlir"), "--fma", "bf16_1_1", "--statistics", "-o", str(path)]) == 0
    return path


def test_a_table_of_layers(numc_run, counting):
    done = numc_run("run", counting, "--random-input", 0, "--batch", 5, "--stats", "all")
    assert (done.status, done.err.count("\n")) == (0, 1)
    lines = [line.split("\t") for line in done.out.splitlines()]
    header, row, *rest = lines[2:]
    assert header == [
        *("layer", "role", "fma", "FMAs"),
        *(f"{pairs} at {k} bits" for pairs in ("no swamping", "nonzero pairs") for k in (7, 8, 15, 16, 23, 24)),
        *("sampled", "exponents of a", "exponents of b", "exponents of result"),
        *(f"{n}: {t}" for n in ("subnormal", "subnormal after rounding", "flushed") for t in ("a", "b", "result")),
        "relative error",
    ]
    assert row[1:4] == ["forward", "bf16_1_1", str(5 * 4 * 3)]
    assert row[header.index("sampled")] == "1"
    assert rest == [
        *(["FMAs: 100.00% bf16_1_1"], ["bf16 x bf16 multiplications: 60"], ["fp32 additions: 60"]),
        ["roundings to bf16: 60"],
    ]


def test_json_and_a_file(numc_run, counting):
    given = ("run", counting, "--random-input", 0, "--batch", 5, "--stats", "swamping,fmas", "--sample", "1/2")
    listed = json.loads(numc_run(*given, "--json").out)
    found = numc.Statistics.from_json(listed["statistics"])
    (row,) = found.rows
    assert (found.what, str(found.sample), str(row.sampled)) == (("swamping", "fmas"), "1/2", "1/2")
    done = numc_run(*given, "--output", "y.npy", "--stats-output", "stats.json")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert numc.Statistics.from_json(Path("stats.json").read_text()) == found


def test_a_model_is_compiled_to_count_if_need_be(numc_run, folder):
    done = numc_run("run", folder / "matmul.mlir", "--random-input", 0, "--stats", "swamping")
    assert done.out.splitlines()[-1].split("\t")[-1] == "1"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["--stats", "swamp"], "unknown statistic 'swamp' (did you mean 'swamping'?): want some of swamping,"),
        (["--stats", ","], "no statistic is named: want some of swamping, exponents, denormals, rounding, fmas"),
        (["--stats", "swamping"], "swamping: the program was compiled without statistics, its kernels do not count: "),
        (["--stats", "fmas", "--sample", "1/2"], "--sample is about swamping, the other statistics are of everything"),
        (["--stats", "all", "--sample", "2"], "sample '2': want 1 or a fraction 1/n with n up to 1048576"),
        (["--sample", "1/2"], "--sample is about statistics: say which with --stats, some of swamping,"),
        (["--stats", "fmas", "--stats-output", "s.txt"], "--stats-output s.txt: want a name that ends in .json"),
        (["--stats", "fmas", "--stats-output", "no/s.json"], "no/s.json: cannot write: there is no folder no"),
    ],
)
def test_texts_of_errors(numc_run, folder, given, error):
    done = numc_run("run", folder / "matmul.numc", "--random-input", 0, *given)
    assert done.status == 2
    assert done.error.startswith(error)
