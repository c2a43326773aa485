"""Weights in the bytes of their format come back to the bit, in C order and in panels, as numpy says they should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numc
from numc.compiler.arrays.pack import _code_bytes
from numc.compiler.programs.stored_weights import narrow
from numc.numerics.formats import FORMATS, RECORDS, Format, Record
from numc.numerics.grammar import parse_any_conversion, parse_conversion
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds import GROUP_FORMATS, Bfp, Int
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.packing.pack_arrays import packed, unpacked
from numc.runtime.library import library
from numc.runtime.storage import Encoding, Panels, Storage
from numc.support.errors import NumcError

# Besides the named ones: fields of all widths, without subnormals, without infinities, without a NaN.
TEXTS = (
    "e2m0",
    "e2m2fn",
    "e3m2",
    "e4m5",
    "e4m2n",
    "e5m0n",
    "e6m0fn",
    "e7m8fn",
    "e8m0",
    "e8m5n",
    "e7m10n",
    "e2m20",
    "e8m22",
)
SINGLE = {
    f.name: f
    for f in (*RECORDS.values(), *(parse_conversion(text).format for text in TEXTS))
    if f.parts == 1 and f.bits < 32 and f.is_usual and f.nan != "none"
}


def encoding_of(fmt: Format) -> Encoding:
    return Encoding("float", fmt.exponent_bits, fmt.significand_bits, fmt.subnormals, fmt.finite, fmt.parts)


@pytest.mark.parametrize("fmt", SINGLE.values(), ids=SINGLE)
def test_every_code(fmt: Format) -> None:
    """All codes of narrow formats, of wide ones those at the edges and many others."""
    every = np.arange(1 << fmt.bits, dtype=np.int64) if fmt.bits <= 16 else edges(fmt)
    if not fmt.subnormals:  # numpy makes zeros of those that no value has; so does the loader
        assert (fmt.decode_array(every[every & ((1 << fmt.bits - 1) - 1) < 1 << fmt.significand_bits]) == 0).all()
    stored = np.frombuffer(_code_bytes(every, fmt.bits), np.uint8)
    got = Storage(encoding_of(fmt), (1, 1, len(every)), len(stored), len(every)).expand(stored)
    want = fmt.decode_array(every)
    # Packing writes one NaN; what others mean is of no interest but that they are NaNs.
    np.testing.assert_array_equal(got[~np.isnan(want)].view(np.uint32), want[~np.isnan(want)].view(np.uint32))
    assert np.isnan(got[np.isnan(want)]).all()


def edges(fmt: Format) -> np.ndarray:
    near = np.arange(-300, 300)
    middle = np.arange(0, 1 << fmt.bits, 1 << fmt.significand_bits)[:, None] + near
    many = np.random.default_rng(0).integers(0, 1 << fmt.bits, 100_000)
    return np.concatenate([middle.reshape(-1), many]) & (1 << fmt.bits) - 1


def special(rng: np.random.Generator, shape: tuple[int, ...], to: str) -> np.ndarray:
    """Values of a format of all magnitudes, with zeros of both signs, infinities, subnormals and NaN."""
    values = (rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(-140, 127, shape)).astype(np.float32)
    values[rng.random(shape) < 0.2] *= np.float32(0)
    # 1e-39 is a subnormal of bfloat16; one NaN is enough, the guard's data see it.
    for number in (-0.0, np.inf, -np.inf, 1e-39, -3e-6, 1.0):
        values[tuple(rng.integers(n) for n in shape)] = number
    if rng.random() < 0.5:
        values[tuple(rng.integers(n) for n in shape)] = np.nan
    return numc.round(values, to)


@pytest.mark.parametrize("to", ["bf16", "bf16x2", "bf16x3", "fp16x2", "e4m5", "e6m9n", "e4m3fn", "fp16", "e8m22"])
@pytest.mark.parametrize("side", ["", "rows", "lanes"])
@settings(max_examples=25)
@given(data=st.data())
def test_values_and_panels(to: str, side: str, data: st.DataObject) -> None:
    """The kernel's operand, guard's data included, comes out as passes/kernels/packing/layout.py makes it."""
    fmt = parse_conversion(to).format
    shape = tuple(data.draw(st.integers(1, most)) for most in (3, 40, 600))
    values = special(np.random.default_rng(data.draw(st.integers(0, 999))), shape, to)
    layout = None
    if side:
        width, count = data.draw(st.sampled_from([(16, 2), (16, 8), (8, 1), (8, 4)]))
        layout = Layout(side, width, count, fmt.parts, data.draw(st.sampled_from([32, 256])), part=fmt.part.name)
    with np.errstate(invalid="ignore"):
        memory = values if layout is None else packed(values, layout)
    found = narrow(memory, fmt, values.shape, layout)
    size = -(-values.size * fmt.bits // 8)
    tail = 0 if layout is None else memory.nbytes - 4 * shape[0] * layout.batch_words(*shape[1:])
    if size + tail >= memory.nbytes:  # such as all bf16x3 in C order
        assert found is None
        return
    assert found is not None
    storage, stored = found
    assert len(stored) == storage.stored_bytes == size + tail
    assert stored.tobytes()[:size] == numc.pack(values, to).data
    np.testing.assert_array_equal(storage.expand(stored).view(np.uint32), memory.reshape(-1).view(np.uint32))


def test_what_stays_as_it_is() -> None:
    """Nothing is gained, or a bit would be lost."""
    x = np.ones(1000, np.float32)
    bf16, e5m0 = FORMATS["bf16"], Record("e5m0", 5, 0)
    assert narrow(x, bf16, x.shape, None) is not None
    assert narrow(x, FORMATS["fp32"], x.shape, None) is None
    assert narrow(x, FORMATS["bf16x2"], x.shape, None) is None
    assert narrow(x[:0], bf16, x[:0].shape, None) is None
    payload = x.copy()
    payload.view(np.uint32)[7] = 0xFFC12345
    assert narrow(payload, bf16, payload.shape, None) is None
    assert narrow(x, e5m0, x.shape, None) is not None
    x[3] = np.nan  # which no code of e5m0 is
    assert narrow(x, e5m0, x.shape, None) is None
    not_in_it = x + np.float32(2**-20)
    assert narrow(not_in_it, bf16, not_in_it.shape, None) is None


def test_the_floating_point_environment_of_the_caller_does_not_matter() -> None:
    values = numc.round(np.array([[[1e-39, -1e-40, 2e-38]]], np.float32), "bf16x2")
    memory = packed(values, Layout("lanes", 8, 2, 2, 256, part="bf16"))
    storage, stored = narrow(
        memory, FORMATS["bf16x2"], values.shape, Layout("lanes", 8, 2, 2, 256, part="bf16")
    ) or pytest.fail("not packed")
    saved = library().numc_ftz_begin()
    try:
        got = storage.expand(stored)
    finally:
        library().numc_ftz_end(saved)
    np.testing.assert_array_equal(got.view(np.uint32), memory.view(np.uint32))


GROUPS = [
    *("bfp(16,3,4)", "bfp(16,3,2)", "bfp(16,8,3)", "bfp(7,1,1)", "bfp(1,2,5)", "bfp(32,5,23)", "bfp(600,4,7)"),
    *("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8"),
]


@pytest.mark.parametrize("to", GROUPS)
@pytest.mark.parametrize("side", ["", "rows", "lanes"])
@settings(max_examples=20)
@given(data=st.data())
def test_groups(to: str, side: str, data: st.DataObject) -> None:
    """Values that were converted in groups along k are stored as numc.pack stores them."""
    fmt = parse_any_conversion(to).format
    shape = tuple(data.draw(st.integers(1, most)) for most in (3, 20, 100))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    values = special(rng, shape, "fp32")
    if data.draw(st.booleans()):  # otherwise nearly every group has an infinity
        values = np.where(np.isfinite(values), values, np.float32(0.75))
    values = numc.round(values, to)
    check_groups(values, fmt, side, lambda: numc.pack(values.reshape(-1, shape[2]), to).data)


@pytest.mark.parametrize("bits", [4, 8, 11, 16])
@pytest.mark.parametrize("side", ["", "rows", "lanes"])
def test_integers(bits: int, side: str) -> None:
    """The integers themselves, without a scale; the same fields as numc.pack's."""
    rng = np.random.default_rng(bits)
    largest = (1 << bits - 1) - 1
    values = rng.integers(-largest, largest + 1, (2, 19, 45)).astype(np.float32)
    values[0, 0, 0] = largest  # so that numc.pack's scale is 1
    check_groups(values, Int(bits), side, lambda: numc.pack(values, f"int{bits}").data)


def check_groups(values: np.ndarray, fmt: GroupFormat, side: str, want: Callable[[], bytes]) -> None:
    """What lies behind the guard's data in memory is kept too."""
    layout = Layout(side, 16, 2, 1, 32) if side else None
    memory = values.reshape(-1)
    if layout is not None:
        memory = np.concatenate([packed(values, layout), np.array([np.nan], np.float32)])
    found = narrow(memory, fmt, values.shape, layout)
    data = want()
    if found is None:
        assert len(data) + 4 * (memory.size - values.size) >= memory.nbytes
        return
    storage, stored = found
    assert stored.tobytes().startswith(data)
    assert len(stored) - len(data) == (0 if storage.panels is None else 4 * storage.panels.tail)
    np.testing.assert_array_equal(storage.expand(stored).view(np.uint32), memory.view(np.uint32))


@pytest.mark.parametrize("to", ["bfp(16,3,4)", "bfp(5,8,7)", "bfp(16,2,3)", "bfp(8,5,23)"])
@pytest.mark.parametrize("side", ["rows", "lanes"])
def test_magnitudes_cut_into_chunks(to: str, side: str) -> None:
    """FAST's fMAC reads a magnitude as chunks of two bits, each a number of its own: the same bytes, other memory."""
    fmt = parse_any_conversion(to).format
    assert isinstance(fmt, Bfp)
    shape = batches, size, depth = 2, 37, 75
    values = special(np.random.default_rng(fmt.magnitude_bits), shape, "fp32")
    values[1] = np.where(np.isfinite(values[1]), values[1], np.float32(-0.3))
    values = numc.round(values, to)
    parts, rest = [], values
    with np.errstate(invalid="ignore"):
        for n in range(1, fmt.chunks):  # leading bits are a coarser bfp with the same exponents
            coarse = numc.round(values, f"bfp({fmt.group},{fmt.exponent_bits},{2 * n})")
            parts.append(coarse - (values - rest))
            rest = rest - parts[-1]
    parts.append(rest)
    layout = Layout(side, 8, 2, fmt.chunks, 32)
    panels, blocks = -(-size // layout.extent), -(-depth // 32)
    memory = np.zeros(layout.words(*shape), np.float32)
    ranges = memory.view(np.uint32)[batches * layout.batch_words(size, depth) :][: 2 * batches * panels * blocks]
    ranges = ranges.reshape(batches, panels, blocks, 2)
    ranges[..., 0] = 0xFFFFFFFF
    for batch, place in np.ndindex(batches, size):
        to_ = layout.index(batch, place, depth, size)
        for p, part in enumerate(parts):
            memory[to_ + p * layout.width] = part[batch, place]
            magnitudes = part[batch, place].view(np.uint32) & np.uint32(0x7FFFFFFF)
            for n, block in enumerate(np.split(magnitudes, range(32, depth, 32))):
                low, high = ranges[batch, place // layout.extent, n]
                ranges[batch, place // layout.extent, n] = (
                    min(low, (block - np.uint32(1)).min()),
                    max(high, block.max()),
                )
    storage, stored = narrow(memory, fmt, shape, layout) or pytest.fail("not packed")
    assert storage.encoding.parts == fmt.chunks
    assert stored.tobytes().startswith(numc.pack(values.reshape(-1, depth), to).data)


@pytest.mark.parametrize("side", ["rows", "lanes"])
@pytest.mark.parametrize("depth", [1, 32, 77])
def test_words_of_bfloat16_numbers(side: str, depth: int) -> None:
    """Two steps of k in a word: the first half of a row's vector, or as many vectors of lanes as there are words."""
    values = numc.round(np.random.default_rng(0).standard_normal((2, 21, depth)).astype(np.float32), "bf16")
    values[0, 0, 0], values[1, 20, depth - 1] = np.inf, 2.0**-130
    layout = Layout(side, 8, 2, 1, 32, dot=2, dense=side == "lanes", alone="bf16")
    memory = packed(values, layout)
    assert np.array_equal(unpacked(memory, values.shape, layout)[..., 0], values)
    tail = memory[2 * layout.batch_words(21, depth) :]
    codes = np.concatenate(
        [np.frombuffer(numc.pack(values.reshape(-1, depth), "bf16").data, np.uint8), tail.view(np.uint8)]
    )
    panels = Panels(side=side, width=8, count=2, k_block=32, dot=2, tail=tail.size)
    storage = Storage(Encoding("float", 8, 7, True, False, 1), values.shape, codes.size, memory.size, panels)
    assert np.array_equal(storage.expand(codes).view(np.uint32), memory.view(np.uint32))
    assert side == "lanes" or narrow(memory, FORMATS["bf16"], values.shape, layout) is not None


@pytest.mark.parametrize("dot", [2, 4])
@pytest.mark.parametrize("side", ["rows", "lanes"])
def test_words_of_integers_and_units(side: str, dot: int) -> None:
    """Panels for dot products of integers: several steps of k in a word, the units of groups beside them.

    Those of 8 bits are unsigned in rows; behind the units of lanes is what the sums of their products begin with.
    """
    values = numc.round(np.random.default_rng(3).standard_normal((3, 37)).astype(np.float32), "bfp(4,3,4)")
    values[1, 4:8] = np.nan
    stored = numc.pack(values, "bfp(4,3,4)")
    # 2 panels of 2 rows and 5 vectors of 8; 1 of 2 vectors, blocks of 32 and 5 steps in words, with 8 and 2 groups.
    (whole, rest), behind = ((16, 3), 1) if dot == 2 else ((8, 2), 2)
    words = 160 if side == "rows" else 16 * (whole + rest + behind * (8 + 2))
    memory = np.zeros(words, np.float32)
    integers = memory.view(np.int16 if dot == 2 else np.int8)
    for n, k in np.ndindex(values.shape):
        group = values[n, k // 4 * 4 : k // 4 * 4 + 4]
        largest = np.abs(group).max()
        exponent = stored.shared - 7 if largest == 0 else max(np.frexp(largest)[1] - 1, stored.shared - 7)
        unit = np.float32(np.nan if np.isnan(largest) else 2.0 ** (exponent - 3))
        if side == "rows":
            slot = n // 2 * 80 + k // 8 * 16 + n % 2 * 8
            place, beside = dot * slot + k % 8, slot + 4 + k % 8 // 4
        else:
            block, steps, groups = (0, whole, 8) if k < 32 else (whole + behind * 8, rest, 2)
            place = dot * ((block + k % 32 // dot) * 16 + n) + k % dot
            beside = (block + steps + k % 32 // 4) * 16 + n
        integer = 0 if np.isnan(unit) else int(values[n, k] / unit)
        integers[place] = integer if side == "lanes" or dot == 2 else integer + 128 - 256 * (integer >= 0)
        memory[beside] = unit
        if side == "lanes" and dot == 4:
            memory.view(np.int32)[beside + 16 * groups] -= 128 * integer
    encoding = Encoding("bfp", 3, 4, group=4, top=int(stored.shared))
    storage = Storage(
        encoding, (1, 3, 37), len(stored.data), words, Panels(side=side, width=8, count=2, k_block=32, dot=dot)
    )
    got = storage.expand(np.frombuffer(stored.data, np.uint8))
    np.testing.assert_array_equal(got.view(np.uint32), memory.view(np.uint32))


def test_the_size_of_groups_is_what_their_format_says() -> None:
    values = numc.round(np.random.default_rng(0).standard_normal((4, 64, 512)).astype(np.float32), "bfp(16,3,4)")
    fmt = GROUP_FORMATS["highbfp"]
    storage, stored = narrow(values, fmt, values.shape, None) or pytest.fail("not packed")
    assert (storage.encoding, stored.size) == (
        Encoding("bfp", 3, 4, group=16, top=storage.encoding.top),
        values.size * fmt.bits_per_value / 8,
    )


GOOD = Storage(Encoding("float", 4, 5), (1, 1, 8), 10, 8)


def bad(**changes: object) -> dict[str, object]:
    """Another encoding."""
    return {"encoding": dataclasses.replace(GOOD.encoding, **changes)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (bad(exponent_bits=9), "a weight is packed in no format"),
        (bad(exponent_bits=1), "a weight is packed in no format"),
        (bad(significand_bits=24), "a weight is packed in no format"),
        (bad(exponent_bits=8, finite=True), "a weight is packed in no format"),
        (bad(parts=4), "a weight is packed in no format"),
        (bad(parts=2, significand_bits=23), "a weight is packed in no format"),
        (bad(parts=0), "a weight is packed in no format"),
        (bad(group=16), "a weight is packed in no format"),
        (bad(kind="bfp"), "a weight is packed in no format"),
        (bad(kind="bfp", group=4, significand_bits=0), "a weight is packed in no format"),
        (bad(kind="bfp", group=4, exponent_bits=9), "a weight is packed in no format"),
        (bad(kind="bfp", group=4, parts=4), "a weight is packed in no format"),
        (bad(kind="bfp", group=4, top=5000), "a weight is packed in no format"),
        (bad(kind="mx", group=4, significand_bits=16), "a weight is packed in no format"),
        (bad(kind="int", significand_bits=17), "a weight is packed in no format"),
        ({"shape": (1, 0, 8)}, "a weight is packed without values"),
        ({"shape": (1 << 40, 1 << 40, 8)}, "a weight is packed with impossible sizes"),
        ({"panels": Panels(side="rows", width=0, count=8, k_block=256)}, "a weight is packed in no panels"),
        ({"panels": Panels(side="lanes", width=16, count=100, k_block=256)}, "a weight is packed in no panels"),
        ({"panels": Panels(side="lanes", width=16, count=2, k_block=0)}, "a weight is packed in no panels"),
        ({"panels": Panels(side="lanes", width=16, count=2, k_block=256, dot=2)}, "a weight is packed in no panels"),
        ({"words": 7}, "a packed weight has 10 bytes and 7 values, want 10 and 8"),
        ({"shape": (1, 2, 8)}, "a packed weight has 10 bytes and 8 values, want 20 and 16"),
    ],
)
def test_what_the_loader_refuses(changes: dict[str, object], text: str) -> None:
    stored = np.zeros(10, np.uint8)
    GOOD.expand(stored)
    with pytest.raises(NumcError) as caught:
        dataclasses.replace(GOOD, **changes).expand(stored)  # type: ignore[arg-type]
    assert str(caught.value) == text
