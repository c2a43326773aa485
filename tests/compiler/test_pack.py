"""The bytes of packed tensors: layouts written out by hand, sizes, round trips of single-value formats, errors."""

from __future__ import annotations

import dataclasses
import math

import ml_dtypes
import numpy as np
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.numerics.formats import FORMATS
from numc.numerics.grammar import parse_conversion
from numc.numerics.kinds import GROUP_FORMATS


def bits(packed: numc.Packed) -> str:
    """The bits in the order in which they are stored."""
    return "".join(f"{byte:08b}"[::-1] for byte in packed.data)


def fields(text: str) -> str:
    """Numbers as their widths and values, ``4:9 1:1``, lowest bit first."""
    pairs = (field.split(":") for field in text.split())
    return "".join(f"{int(value):0{width}b}"[::-1] for width, value in pairs)


def padded(text: str) -> str:
    return text + "0" * (-len(text) % 8)


def test_chunks_of_bfp() -> None:
    """bfp(2,3,3): two chunks; the odd magnitude bit is the upper one of the second chunk."""
    packed = numc.pack(np.array([6.0, -3.0, 0.75], np.float32), "bfp(2,3,3)")
    assert (packed.shape, packed.format, packed.axis, packed.shared) == ((3,), "bfp(2,3,3)", 0, 2.0)
    # E = 2, the top, is stored as 7: M is 6 = 11|0 and -3 = -01|1, with the sign, a 4, on both chunks.
    # E = -1 is stored as 4: M is 6.
    assert bits(packed) == padded(fields("3:7 3:3 3:5  3:7 3:0 3:6" + "  3:4 3:3  3:4 3:0"))


def test_groups_without_numbers_and_of_zeros() -> None:
    packed = numc.pack(np.array([np.nan, 1.0, -0.0, 0.0, 1.0, 0.0], np.float32), "bfp(2,2,2)")
    # NaN: the top exponent without a magnitude; zeros: the lowest exponent, with their signs
    assert bits(packed) == padded(fields("2:3 3:0 3:0  2:0 3:4 3:0  2:3 3:2 3:0"))
    assert numc.pack(np.full(2, np.nan, np.float32), "bfp(2,2,2)").shared == 0


@pytest.mark.parametrize(
    ("to", "value", "data", "shared"),
    [
        ("mxfp8", 0.0, "00 00 80", 0),
        ("mxint8", 0.0, "00 00 00", 0),
        ("mxfp8", np.nan, "ff 00 00", 0),
        ("int8", 0.0, "00 00", 0),
        ("int8", np.nan, "00 00", np.nan),
        ("bfp(2,5,2)", 0.0, "00 04", 0),  # the lowest exponent, then a sign and two magnitude bits for each value
        ("bfp(2,5,2)", np.nan, "1f 00", 0),
    ],
)
def test_scales_of_groups_without_numbers_but_zeros(to: str, value: float, data: str, shared: float) -> None:
    x = np.array([value, -value], np.float32)
    packed = numc.pack(x, to)
    assert packed.data == bytes.fromhex(data)
    np.testing.assert_equal(packed.shared, shared)
    got, want = numc.unpack(packed), numc.round(x, to)
    np.testing.assert_array_equal(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))


def test_blocks_of_mx() -> None:
    packed = numc.pack(np.array([[6.0, -0.5, 0, 0], [np.inf, 1, 0, 0]], np.float32), "mxfp4")
    assert bits(packed) == fields("8:127 4:7 4:9 4:0 4:0  8:255 4:0 4:0 4:0 4:0")
    packed = numc.pack(np.array([1.5, -0.25], np.float32), "mxint8")
    assert packed.data == bytes([127, 96, 256 - 16])


def test_integers_and_their_scale() -> None:
    packed = numc.pack(np.array([7.0, -7.0, 1.0], np.float32), "int4")
    assert (packed.axis, packed.shared, packed.shape) == (None, 1.0, (3,))
    assert bits(packed) == padded(fields("4:7 4:9 4:1"))
    assert math.isnan(numc.pack(np.array([np.nan], np.float32), "int4").shared)


def test_words_are_little_endian_and_other_widths_are_dense() -> None:
    x = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    assert numc.pack(x, "fp32").data == x.tobytes()
    assert numc.pack(x, "fp16").data == x.astype("<f2").tobytes()
    assert numc.pack(x, "fp8_e5m2").data == x.astype(ml_dtypes.float8_e5m2).tobytes()
    packed = numc.pack(x, "e5m3")
    fmt = parse_conversion("e5m3").format
    codes = [fmt.encode(float(v)) for v in numc.round(x, "e5m3")]
    assert bits(packed) == padded(fields(" ".join(f"9:{code}" for code in codes)))


def test_parts_follow_one_another() -> None:
    x = np.array([1 + 2.0**-9 + 2.0**-17, -0.0, np.inf], np.float32)
    parts = np.array([[1, 2.0**-9, 2.0**-17], [-0.0, 0, 0], [np.inf, 0, 0]], np.float32)
    assert numc.pack(x, "bf16x3").data == parts.astype(ml_dtypes.bfloat16).tobytes()


ONE_PART = [name for name, fmt in FORMATS.items() if fmt.parts == 1]
OTHERS = ["e2m0", "e2m1fn", "e2m0fn", "e3m2", "e4m11n", "e5m3", "e7m0fn", "e8m0", "e8m1", "e8m23n", "e7m23fn"]


@pytest.mark.parametrize("name", [*FORMATS, *OTHERS])
def test_round_trip_and_size(name: str) -> None:
    fmt = parse_conversion(name).format
    x = np.concatenate([vectorised.thresholds().view(np.float32), vectorised.samples(5000, 2)])
    if not fmt.has_nan:
        x = x[~np.isnan(x)]
    for text in (name, f"{name}:rtz") if fmt.parts == 1 else (name,):
        packed = numc.pack(x, text)
        assert len(packed.data) == -(-len(x) * fmt.bits // 8)
        assert packed.format == fmt.name
        difference = vectorised.first_mismatch(numc.unpack(packed), numc.round(x, text), x)
        assert difference is None, difference


@pytest.mark.parametrize("name", [n for n in [*ONE_PART, *OTHERS] if parse_conversion(n).format.bits <= 16])
def test_every_code_of_single_values(name: str) -> None:
    fmt = parse_conversion(name).format
    codes = range(1 << fmt.bits)
    number = sum(code << place * fmt.bits for place, code in enumerate(codes)) if fmt.bits <= 9 else None
    if number is None:
        stream = np.arange(1 << fmt.bits, dtype="<u4").view(np.uint8).reshape(-1, 4)
        stream = np.unpackbits(stream, axis=1, bitorder="little")[:, : fmt.bits]
        data = np.packbits(stream.reshape(-1), bitorder="little").tobytes()
    else:
        data = number.to_bytes(len(codes) * fmt.bits // 8, "little")
    got = numc.unpack(numc.Packed(data, (len(codes),), name))
    want = np.array([fmt.decode(code) for code in codes], np.float32)
    assert (difference := vectorised.first_mismatch(got, want)) is None, difference


@pytest.mark.parametrize("name", GROUP_FORMATS)
def test_size_of_full_groups_is_the_one_that_is_listed(name: str) -> None:
    fmt = GROUP_FORMATS[name]
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    assert len(numc.pack(x, name).data) * 8 == x.size * fmt.bits_per_value


@pytest.mark.parametrize(("text", "length", "size"), [("bfp(16,3,2)", 20, 51 + 15), ("mxfp6", 33, 8 + 32 * 6 + 8 + 6)])
def test_short_groups_take_no_more_than_their_values(text: str, length: int, size: int) -> None:
    x = np.ones((2, length), np.float32)
    assert len(numc.pack(x, text).data) == -(-2 * size // 8)


def test_text_axis_and_shape_are_all_there_is_to_know() -> None:
    x = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    packed = numc.pack(x, "bfp(4,2,3):rna", axis=-2)
    assert (packed.shape, packed.format, packed.axis) == ((5, 6, 7), "bfp(4,2,3)", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        packed.axis = 0  # type: ignore[misc]


def test_errors() -> None:
    x = np.ones(4, np.float32)
    for broken, message in [
        (lambda: numc.unpack(b"abc"), "unpack: got bytes, want what numc.pack returns"),
        (
            lambda: numc.unpack(dataclasses.replace(numc.pack(x, "bfp(4,3,4)"), data=b"abc")),
            "packed data has 3 bytes: 'bfp(4,3,4)' of shape (4,) takes 4",
        ),
        (
            lambda: numc.unpack(dataclasses.replace(numc.pack(x, "bf16"), shape=(5,))),
            "packed data has 8 bytes: 'bf16' of shape (5,) takes 10",
        ),
        (
            lambda: numc.unpack(dataclasses.replace(numc.pack(x, "mxfp4"), axis=1)),
            "axis=1: x has shape (4,), want -1 to 0",
        ),
        (
            lambda: numc.pack(np.array([np.nan], np.float32), "e3m0"),
            "x has a NaN, which 'e3m0' has no encoding for: use a format with significand bits",
        ),
        (lambda: numc.pack(np.ones(4), "mxfp4"), "x is float64: want float32; convert it with .astype('float32')"),
    ]:
        with pytest.raises(numc.NumcError) as error:
            broken()
        assert str(error.value) == message


@pytest.mark.parametrize(("to", "dense", "words"), [("e5m4", 136_733, 145_848), ("e4m2", 95_713, 109_388)])
def test_the_weights_of_mlp2(to: str, dense: int, words: int) -> None:
    """109,386 weights of 10 and of 7 bits: three and four of them in a word."""
    x = np.random.default_rng(0).standard_normal(109_386).astype(np.float32)
    packed = numc.pack(x, to, align=32)
    assert (len(numc.pack(x, to).data), len(packed.data), packed.align) == (dense, words, 32)
    assert np.array_equal(numc.unpack(packed), numc.round(x, to))


def test_no_value_crosses_a_word() -> None:
    x = np.array([[7.0, -7.0], [1.0, 0.0]], np.float32)
    packed = numc.pack(x, "int5", align=16)  # 15, -15, 2 and 0 times 7/15
    assert bits(packed) == fields("5:15 5:17 5:2 1:0  5:0 11:0")
    for to, align, size in (("int5", 16, 4), ("bf16x3", 64, 24), ("e4m3", 8, 4), ("e2m3", 64, 8)):
        packed = numc.pack(x, to, align=align)
        assert len(packed.data) == size
        assert np.array_equal(numc.unpack(packed), numc.round(x, to))
    with pytest.raises(numc.NumcError, match="^packed data has 3 bytes: 'e2m3' of shape .2, 2. takes 8$"):
        numc.unpack(dataclasses.replace(packed, data=b"abc"))
    for to, align, message in (
        ("mxfp4", 32, "groups of 'mxfp4_e2m1' store a scale and cannot be cut into words: leave align out"),
        ("fp32", 16, "got 16, but a value of 'fp32' has 32 bits: want a larger word"),
        ("e4m3", 24, "got 24, want 8, 16, 32, 64, or None for dense storage"),
    ):
        with pytest.raises(numc.NumcError, match=f"^align: {message}$"):
            numc.pack(x, to, align=align)


@pytest.mark.parametrize("to", ["bf16x2", "bf16x3"])
def test_parts_are_those_of_the_rounded_value(to: str) -> None:
    """So a part that is zero behind another has no sign."""
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint64).astype(np.uint32)
    special = np.array([0, 0x80000000, 0xBF800000, 0x3F808008, 0xBF808008], np.uint32)
    x = np.concatenate([special, bits]).view(np.float32)
    rounded = numc.round(x, to)
    packed = numc.pack(x, to)
    assert packed.data == numc.pack(rounded, to).data
    same = numc.unpack(packed).view(np.uint32) == rounded.view(np.uint32)
    assert (same | np.isnan(rounded)).all()
    beyond = np.array([0x7F7F7FFF, 0xFF7F7FFF], np.uint32).view(np.float32)  # a part is half an ulp above the largest
    assert np.array_equal(numc.unpack(numc.pack(beyond, to)), numc.round(beyond, to))
