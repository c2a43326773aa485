"""Definitions of users, operators by functions and formats by values, and the lines that say what is wrong with one."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arithmetic_vectorised as vectorised
import definitions
import numc
from numc.numerics.circuits import Real, Whole, decoded, rounded, scaled, select
from numc.numerics.defined import bounded
from numc.numerics.defined.loading import define_from
from numc.numerics.formats import FORMATS
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.support.errors import NumcError

pytestmark = pytest.mark.usefixtures("alone")
POSITS = [FORMATS["posit8"].decode(code) for code in range(256)]


@pytest.fixture
def alone() -> Iterator[None]:
    with definitions.undone():
        yield


def plain(a: Real, b: Real, c: Real) -> Real:
    return a * b + c


def scaled_step(a: Real, b: Real, c: Real, *, bits: int = 3) -> Real:
    return rounded(scaled(a.significand << bits, b.exponent) + c, "fp32")


def test_a_definition_has_a_name_a_version_and_parameters() -> None:
    assert numc.operator(a="bf16", b="e4m3", acc="fp32")(scaled_step) is scaled_step
    fma = parse_fma("scaled_step")
    assert (str(fma.a), str(fma.b), str(fma.acc)) == ("bf16", "e4m3", "fp32")
    assert str(parse_fma(str(fma))) == str(fma)
    other = parse_fma("fma(a=fp16, acc=fp16, datapath=scaled_step(bits=5))")
    assert other.datapath["bits"] == 5
    assert parse_fma(str(other)) == other
    with pytest.raises(NumcError, match=r"datapath 'scaled_step#\w{8}': unknown parameter 'bit' \(did you mean 'bits'"):
        parse_fma("fma(a=fp16, acc=fp16, datapath=scaled_step(bit=5))")


def test_another_definition_of_a_name_is_another_operator() -> None:
    numc.operator(a="bf16", acc="fp32", name="mine")(plain)
    before = str(parse_fma("mine"))
    assert numc.fma(np.float32(2), np.float32(3), np.float32(1), fma="mine") == 7
    numc.operator(a="bf16", acc="fp32", name="mine")(lambda a, b, c: rounded(a * b, "fp32"))
    assert numc.fma(np.float32(2), np.float32(3), np.float32(1), fma="mine") == 6
    plain_name = before.partition("#")[0]
    with pytest.raises(
        NumcError, match=f"'{before}': '{plain_name}' is defined as 'mine#.*' here, want the definition"
    ):
        parse_fma(before)
    with pytest.raises(NumcError, match=r"definitions of users have to be imported: numc --define FILE.py"):
        parse_fma("fma(a=bf16,acc=fp32,datapath=nothing#01234567)")


def test_a_definition_that_fails_leaves_the_one_before() -> None:
    numc.operator(a="bf16", acc="fp32", name="mine")(plain)
    before = parse_fma("mine")
    with pytest.raises(NumcError, match="returns str"):
        numc.operator(a="bf16", acc="fp32", name="mine")(lambda a, b, c: "text")
    assert parse_fma("mine") == before


def _register(function: Callable[..., Any], **more: Any) -> None:
    numc.operator(**{"a": "bf16", "acc": "fp32", "name": "mine", **more})(function)


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        (plain, {"name": "bf16_1_1"}, "operator 'bf16_1_1': numc has that name for something else, want another one"),
        (plain, {"name": "a b"}, "operator 'a b': want a name of letters, digits and _"),
        (plain, {"a": "e4m"}, "unknown format 'e4m'"),
        (plain, {"acc": "bf16x2"}, "takes formats of one part"),
        (plain, {"register": 1, "last": plain}, "register=1, and a function for its end, want both or none"),
        (plain, {"register": 64}, "register=64, and no function for its end, want both or none"),
        (plain, {"register": 5000}, "register=5000, want the bits of a whole number with its sign, from 2 to 1024"),
        (lambda a, b: a, {}, r"takes \(a, b\), want mine\(a, b, c, \*, parameter=number\)"),
        (lambda a, b, c, *rest: a, {}, r"takes \*rest, want mine"),
        (lambda a, b, c, *, bits: a, {}, "parameter 'bits' has no default, want a whole number"),
        (lambda a, b, c, *, bits=0.5: a, {}, "parameter 'bits' has the default 0.5, want a whole number"),
        (lambda a, b, c: None, {}, "operator 'mine': returns nothing, want a real number, or a whole one"),
        (lambda a, b, c: a if a.is_nan else b, {}, "test_definitions.py, line .*: if, and, or, not, in or while"),
        (lambda a, b, c: a.exponents, {}, "operator 'mine': test_definitions.py, line .*: AttributeError: .*exponents"),
        (lambda a, b, c: a * b + b * c + c, {}, "an exact sum of more than two terms, want one of two"),
        (lambda a, b, c: (a * b * b * b * b * b * b) + c, {}, "an exact product of 56 bits, want at most 53"),
        (lambda a, b, c: (a * b).exponent + c, {}, "the exponent of an exact number, want rounded"),
        (lambda a, b, c: rounded(a.exponent, "fp32"), {}, "rounded of Number, want a real number: scaled"),
        (lambda a, b, c: rounded(a, "fp32:sr8"), {}, "rounded to 'fp32:sr8', want a format of one part"),
        (lambda a, b, c: decoded(a.code, "e4m3"), {}, "0 to 65535 as a code of 'e4m3', want 0 to 255"),
        (lambda a, b, c: select(a == 0.0, b, c), {}, "line .*: a comparison of real numbers: want one of their sign"),
        (lambda a, b, c: select(a > b, b, c), {}, "line .*: a comparison of real numbers: want one of their sign"),
        (lambda a, b, c: a / 3, {}, "line .*: a division of real numbers: want . with a constant"),
        (lambda a, b, c: a.significand // 3, {}, "line .*: a division, or a power, of a number that is traced: want"),
        (lambda a, b, c: 2**a.significand, {}, "line .*: a division, or a power, of a number that is traced: want"),
        (lambda a, b, c: a + a.exponent, {}, "Number with a real number: want scaled"),
        (lambda a, b, c: scaled(c.significand << 40, 0) + c, {}, "a term of an exact sum has more than 53 bits"),
    ],
)
def test_what_is_wrong_with_a_definition(function: Callable[..., Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(NumcError, match=message):
        _register(function, **more)


def test_a_loop_that_does_not_end_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(a: Real, b: Real, c: Real) -> Real:
        n = a.significand
        while True:
            n = n ^ 1
        return scaled(n, 0)

    def counting(a: Real, b: Real, c: Real) -> Real:
        n = 0
        while True:
            n += 1

    def halved(a: Real, b: Real, c: Real) -> Real:
        n = a.significand
        while n:
            n = n >> 1
        return scaled(n, 0)

    monkeypatch.setattr(bounded, "MOST_LINES", 5000)
    for function in (endless, counting):
        with pytest.raises(
            NumcError, match=r"operator 'mine': test_definitions.py, line \d+: 5000 lines were run and it"
        ):
            _register(function)
    with pytest.raises(NumcError, match="test_definitions.py, line .*: if, and, or, not, in or while on a number that"):
        _register(halved)
    assert sys.gettrace() is None


def test_what_is_wrong_with_a_register() -> None:
    def last(c: Real, register: Whole) -> Real:
        return rounded(scaled(register, -4), "fp32") + c

    with pytest.raises(
        NumcError, match=r"the register of 'mine' can become -\d+ to \d+, want -128 to 127: wrapped\(x, 8\)"
    ):
        _register(lambda a, b, r: r + a.significand, register=8, last=last)
    with pytest.raises(NumcError, match="operator 'mine': returns Traced, want the whole number of the register"):
        _register(lambda a, b, r: a, register=8, last=last)
    _register(lambda a, b, r: r ^ a.sign, register=8, last=last)
    for text in ("chunk=8", "chunk=8,total=fp32"):
        with pytest.raises(NumcError, match="leave chunk out"):
            parse_fma(f"fma(a=bf16,acc=bf16,datapath=mine,{text})")
    with pytest.raises(NumcError, match=r"acc=bf16:sr8, a sum in a register is rounded once: want acc=fp32"):
        parse_fma("fma(a=bf16,acc=bf16:sr8,datapath=mine)")


def test_a_reduction_has_a_length() -> None:
    with pytest.raises(NumcError, match=r"takes \(a, b, c\), want mine\(a, b, c, \*, l=length, parameter=number\)"):
        numc.reduction(a="bf16", acc="fp32", name="mine")(lambda a, b, c: c)
    numc.reduction(a="bf16", acc="fp32", name="mine")(lambda a, b, c, *, l=4: rounded(a[0] * b[l - 1], "fp32") + c)  # noqa: E741
    with pytest.raises(NumcError, match="l=65, want a whole number from 1 to 64, how many products a block has"):
        parse_fma("fma(a=bf16,acc=fp32,datapath=mine(l=65))")


def test_numbers_that_are_known_are_exact() -> None:
    """The function itself can be called and looked at: the reference does nothing else."""
    seen = []
    numc.operator(a="bf16", acc="fp32", name="mine")(lambda a, b, c: seen.append(a) or select(a.sign, c, a * b + c))
    seen.clear()
    numc.reference.fma([-1.5], [2.0], [1.0], fma="mine")
    (x,) = seen
    assert (x.sign, x.exponent, x.significand, x.code) == (1, 0, 192, 0xBFC0)
    assert (x.is_nan, x.is_infinite, x.is_zero) == (0, 0, 0)


# Formats.


def test_a_format_of_the_values_of_posits_is_the_posit() -> None:
    numc.format_of(POSITS, name="mine8")
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal(3000), rng.integers(-40, 40, 3000)).astype(np.float32)
    values = np.array([value for value in POSITS if value == value], np.float32)
    x = np.concatenate([x, values, (np.sort(values)[1:] + np.sort(values)[:-1]) / 2])  # where the steps are
    for rounding in ("", ":rtz", ":rna", ":odd"):
        mine, posit = f"mine8{rounding}", f"posit8{rounding}"
        found, want = numc.round(x, mine), numc.round(x, posit)
        inside = (np.abs(x) > 2**-8) & (np.abs(x) < 2**8)  # beyond, posits round their codes, not their values
        assert (difference := vectorised.first_mismatch(found[inside], want[inside])) is None, difference
        assert (difference := vectorised.first_mismatch(found, numc.reference.round(x, f"mine8{rounding}"))) is None, (
            difference
        )
    assert np.array_equal(numc.unpack(numc.pack(x, "mine8")), numc.round(x, "mine8"))


@pytest.mark.slow
def test_formats_of_16_bits_are_searched_for() -> None:
    """A logarithmic format, whose values have no pattern that rounding could use."""
    powers = sorted({float(np.float32(2.0 ** (n / 512))) for n in range(-8191, 8192)})
    numc.format_of([0.0, *powers, *(-x for x in powers), math.nan], name="lns16", round="rtz")
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal(2000), rng.integers(-20, 20, 2000)).astype(np.float32)
    x[:5] = [0, -0.0, np.inf, -np.inf, np.nan]
    for text in ("lns16", "lns16:rne"):
        found, want = numc.round(x, text), numc.reference.round(x, text)
        assert (difference := vectorised.first_mismatch(found, want)) is None, difference
    found = numc.matmul(x[5:105].reshape(4, 25), x[5:80].reshape(25, 3), fma="fma(a=lns16,acc=lns16:sr4)", seed=0)
    want = numc.reference.matmul(x[5:105].reshape(4, 25), x[5:80].reshape(25, 3), fma="fma(a=lns16,acc=lns16:sr4)")
    assert (difference := vectorised.first_mismatch(found, want)) is None, difference


def test_a_format_has_a_version_and_a_rounding() -> None:
    numc.format_of([0, 1, 2, 4], name="mine", round="rtz")
    before = str(parse_conversion("mine"))
    assert before.startswith("mine#")
    assert list(numc.round(np.float32([1.9, 3.9, 9, -1]), "mine")) == [1, 2, 4, 0]
    assert list(numc.round(np.float32([1.9, 3.9]), "mine:rne")) == [2, 4]
    assert parse_conversion(str(parse_conversion("mine:rne"))).rounding == "rne"
    numc.format_of([0, 1, 3], name="mine")
    with pytest.raises(NumcError, match=f"format '{before}': 'mine#.*' is defined here, want the values"):
        parse_conversion(before)
    with pytest.raises(NumcError, match="format 'yours#01234567': no format of that name is defined here"):
        parse_conversion("yours#01234567")


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        ([1.0], {}, "format 'mine.*': 1 values, want 2 to 65536"),
        ([1.0, 1.0], {}, "format 'mine.*': the value 1.0 is there twice, keep one of them"),
        ([0.0, 1.0, math.nan, math.nan], {}, "the value nan is there twice"),
        ([1.0, math.nan], {}, "1 number, want at least 2"),
        (
            [1.0, -1.0],
            {},
            "format 'mine': no zero among 2 values, which padding and empty sums are: want 0 in the list",
        ),
        ([0.0, math.inf], {}, "inf is no finite float32 number: want those, and nan"),
        ([0.0, 0.1], {}, "0.1 is no finite float32 number: want those, and nan, as 0.10000000149011612"),
        ([0.0, "1"], {}, "format 'mine': 1 is no finite float32 number"),
        ([0, 1], {"round": "up"}, "unknown rounding 'up'|rounding 'up'"),
        ([0, 1], {"round": "sr8"}, "round=sr8, want one that draws no random bits"),
        ([0, 1], {"name": "bf16"}, "format 'bf16': numc has that name for something else"),
        ([0, 1], {"name": "e5m6"}, "format 'e5m6': numc has a format of that name, want another one"),
        ([0, 1], {"name": "my format"}, "format 'my format': want a name of letters, digits and _"),
    ],
)
def test_what_is_wrong_with_a_list_of_values(values: list[Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(NumcError, match=message):
        numc.format_of(values, **{"name": "mine", **more})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.toml", 'name = "mine"\nvalues = [0, 1', "not TOML"),
        ("f.toml", 'name = "mine"\nvalue = [0, 1]', "unknown key 'value': want name"),
        ("f.toml", 'name = "mine"\nvalues = [0.5, 1]', "format 'mine': no zero among 2 values, which padding and"),
        (
            "f.toml",
            'name = "mine"\nvalues = [0, 1, 1]',
            "format 'mine.*': the value 1.0 is there twice, keep one of them",
        ),
        ("f.toml", "values = [0, 1]", 'format file .*: want name = "..."'),
        ("f.toml", None, "No such file or directory"),
        ("f.py", "import numc\n\n1 / 0", r"definitions '.*f.py', line 3: ZeroDivisionError: division by zero"),
        ("f.py", "def f(:", "line 1: SyntaxError"),
        ("f.py", None, "No such file or directory"),
        ("f.txt", "", r"want a Python file \(.py\), or a format's TOML file \(.toml\)"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(NumcError, match=message):
        define_from(str(tmp_path / name))


def test_files_define_formats_and_operators(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text('name = "mine"\nvalues = [0, 1, 3.5, nan]\nround = "rtz"\n')
    define_from(str(tmp_path / "f.toml"))
    assert numc.round(np.float32(3.4), "mine") == 1
    (tmp_path / "f.py").write_text(
        "import numc\n\n@numc.operator(a='mine', acc='fp32')\ndef step(a, b, c):\n    return a * b + c\n"
    )
    define_from(str(tmp_path / "f.py"))
    assert numc.fma(np.float32(9), np.float32(1.5), np.float32(1), fma="step") == 4.5
