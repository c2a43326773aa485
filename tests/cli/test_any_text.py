"""Whatever a text says, a parser takes it or refuses it by one line of bounded length, and soon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutations import mutants
from numc.cli.commands.compare import split_list
from numc.cli.inputs import read_data, read_labels
from numc.cli.source import parse_shapes, parse_values
from numc.compiler.arrays.statistics import Statistics, chosen, sampling
from numc.compiler.cache import cache
from numc.compiler.opt import split_passes
from numc.compiler.options import Options
from numc.numerics.grammar import MAX_LENGTH, parse_any_conversion, parse_fma
from numc.numerics.policy.load import arithmetic, load_policy
from numc.numerics.policy.text import parse_policy
from numc.studies.hardware.machine import load_machine
from numc.studies.store import Store
from numc.support.errors import NumcError, ParseError
from numc.support.switches import switched_off

POLICY = """format mine = e6m9
fma x = fma(a=mine,acc=fp32)
default bf16
layer "conv*", 3..-1 fma = x, ops = fp16
op matmul where m < 16 and (n == 3 or k >= 4) a = e4m3
role dgrad mp  # why
"""
MACHINE = """clock_ghz = 1.5
bandwidth_gb_per_s = 10
cache_bytes = [1024, 2048]
assumed = ["cache_bytes"]
[units.fmac]
count = 1
latency = 2
values = 16
"""
HISTOGRAM = {"low": -3, "counts": [1]}
TENSOR = {"elements": 3, "zeros": 1, "subnormals": 0, "infinities": 0, "nans": 0, "exponents": HISTOGRAM, "format": "x"}
ROW = {
    "layer": "a", "role": "", "position": 1, "fma": "mp", "fmas": 3, "executions": 1, "swamping": HISTOGRAM,
    "sampled": "1", "tensors": {"a": TENSOR}, "rounding": [1.0, 2.0], "note": "", "adds": 3,
}  # fmt: skip
STATISTICS = json.dumps({"what": ["fmas"], "sample": "1/16", "rows": [ROW]})
RESULTS = json.dumps({"kind": "numc compare 1", "model": "m", "sha256": "x", "results": {"k": {}}})

# A parser of text, and texts that it takes.
PARSERS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "operator": (parse_fma, ["bf16_2_2{3}", "fma(a=bf16,b=e4m3fn:rtz,acc=fp32,products=1,datapath=exact)", "int8"]),
    "format": (parse_any_conversion, ["e6m9:rtz", "bf16x2:sr8.lfsr", "1/6/9/n", "bfp(16,8,3)", "int12:channel"]),
    "policy": (parse_policy, [POLICY]),
    "given policy": (load_policy, ["mp", "layer 0 mp", "a.policy"]),
    "arithmetic": (arithmetic, ["mp", "hfp8"]),
    "options": (lambda text: Options(fma=text, ops=text, target=text).resolved(), ["host", "bf16"]),
    "--shape": (lambda text: parse_shapes([text]), ["x=1x3x224x224", "a=b=1x2"]),
    "--value": (lambda text: parse_values([text]), ["sr=16000", "a=b=1,-2.5e3,true,inf"]),
    "--fma": (lambda text: split_list("--fma", text), ["a,b{3},fma(a=b,c=d)"]),
    "--passes": (split_passes, ["a,b{x=1},func.func(c)"]),
    "--stats": (chosen, ["swamping,exponents"]),
    "--sample": (sampling, ["1/16", "0.5"]),
    "--data": (lambda text: read_data([text]), ["x=/none.npz:a"]),
    "--labels": (read_labels, ["/none.npz:labels"]),
    "statistics": (Statistics.from_json, [STATISTICS]),
}
# The same of files, and of environment variables.
FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "machine": (load_machine, MACHINE),
    "policy file": (load_policy, POLICY),
    "results": (lambda file: Store(file, "m", "x").get("k"), RESULTS),
}
VARIABLES: dict[str, tuple[Callable[[], object], str]] = {
    "NUMC_DISABLE": (switched_off, "fast,fuse-first"),
    "NUMC_CACHE_SIZE": (cache.limit, "500M"),
}


def check(parse: Callable[[Any], object], given: Any) -> None:
    """Run a parser; what it refuses, it refuses as a user needs it."""
    start = time.process_time()
    try:
        parse(given)
    except NumcError as error:
        refused, most = str(error), 3 if isinstance(error, ParseError) else 1
    else:
        refused, most = "", 1
    assert len(refused.split("\n")) in (1, most), given
    assert all(c.isprintable() or c in "\t\n" for c in refused), given
    assert len(refused) < 6000, given
    assert time.process_time() - start < 5, ascii(given)[:100]


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.all)])
def test_mutants_of_texts(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (parse, seeds) in enumerate(PARSERS.values()):
        for text in mutants(seeds, count, number):
            check(parse, text)
    for number, (parse_file, seed) in enumerate(FILES.values()):
        for text in mutants([seed], count, number):
            (tmp_path / "given").write_text(text, encoding="utf-8", errors="surrogatepass")
            check(parse_file, tmp_path / "given")
    for number, (name, (read, seed)) in enumerate(VARIABLES.items()):
        for text in mutants([seed], count, number):
            monkeypatch.setenv(name, text.replace("\0", "").encode("utf-8", "replace").decode())
            check(lambda _, read=read: read(), text)


GIANTS = ["x" * 10_000_000, "(" * 10_000_000, "9" * 5_000, "layer 0 mp\n" * 1_000_000, "\ud800" * 2000, "a=" * 50_000]


@pytest.mark.parametrize("giant", GIANTS, ids=lambda text: f"{len(text)} of {text[:6]!a}")
def test_giants_are_refused_soon(giant: str) -> None:
    for name, (parse, _) in PARSERS.items():
        if name not in ("--fma", "--passes"):  # which only split
            with pytest.raises(NumcError):
                parse(giant)
        check(parse, giant)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_fma, "f" * 1001, rf"FMA operator 'f+\.\.\.f+': 1001 characters, want at most {MAX_LENGTH}"),
        (parse_fma, 7, "FMA operator: got int, want a text"),
        (parse_fma, "fma(" * 9, r"FMA operator 'fma\(.*': 9 opening brackets, want at most 8"),
        (
            parse_fma,
            "fma(a=bf16,acc=fp32,products=" + "9" * 30 + ")",
            "fma: products: got '9+', want a number of at most",
        ),
        (parse_any_conversion, "e٦m9", r"format 'e٦m9': cannot read it from '٦m9'"),
        (
            parse_any_conversion,
            "e" + "9" * 500 + "m3",
            r"format 'e9+\.\.\.9+m3': got '9+\.\.\.9+', want a number of at",
        ),
        (parse_any_conversion, "x\x1b[2J\n\u202e", r"format 'x\\x1b\[2J\\n\\u202e': cannot read it from '\\x1b"),
        (parse_policy, "# \n" * (1 << 19), r"policy '# \\n# .*': 1572864 characters, want at most 1048576"),
        (parse_policy, f"op conv where {'(' * 60}m < 1{')' * 60} mp", "policy:1: where: more than 50 brackets in one"),
        (parse_policy, f"layer {'9' * 5000} mp", r"policy:1: layer: got '9+\.\.\.9+', want a number of at most 18"),
        (
            parse_policy,
            "default " + "e" * 2000,
            r"policy:1: a setting 'e+\.\.\.e+': 2000 characters, want at most 1000",
        ),
        (load_policy, 3, "policy: got int, want a text, the name of a file, or a preset"),
        (load_policy, Path("a\0b"), r"'a\\x00b': no file has such a name: name another one"),
        (sampling, "1e-999999999", "sample '1e-999999999': want 1 or a fraction 1/n"),
        (Statistics.from_json, "[" * 100_000, "not the JSON of statistics .*nested too deeply"),
        (lambda text: parse_shapes([text]), "x=1x٣", "--shape 'x=1x٣': want NAME=SIZExSIZE"),
        (lambda text: parse_values([text]), "x=1,٣", "--value 'x=1,٣': want NAME=NUMBER, or numbers with commas"),
        (parse_values, ["x=1", "x=2"], "--value 'x=2': the value of 'x' is given twice"),
    ],
)
def test_what_is_refused(parse: Callable[[Any], object], text: object, message: str) -> None:
    with pytest.raises(NumcError, match=f"^{message}"):
        parse(text)


def test_a_machine_of_wrong_values(tmp_path: Path) -> None:
    for old, new, message in [
        ("1.5", "1" + "0" * 400, r"clock_ghz = 10+\.\.\.0+: want a number above 0 and up to 1e\+18"),
        ("1.5", "1" * 5000, r"not TOML: .*4300 digits"),
        ("1.5", "[" * 5000, "not TOML: "),
        ("[1024, 2048]", '"\x7f"', "not TOML: "),
        (MACHINE, "#" * 70_000, "machine '#+...#+': 65537 characters, want at most 65536"),
    ]:
        (tmp_path / "m.toml").write_text(MACHINE.replace(old, new))
        with pytest.raises(NumcError, match=message):
            load_machine(tmp_path / "m.toml")
