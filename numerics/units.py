"""The matrix units of accelerators as operators: a line of data each.

Sources: Xie et al., MMA-Sim (arXiv 2511.10909), and Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores (arXiv
2512.07004). The name of a unit is its generation and the format of its operands, or of A and of B where these differ;
`_into_fp16` is its form with a float16 accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType

from numc.numerics.datapaths import Datapath
from numc.numerics.formats import FORMATS, Conversion, exmy
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.kinds.mx import OCP
from numc.numerics.operators import FMAS, FP32, Fma

_FP8 = ("e4m3", "e5m2")
_F8F6F4 = (*_FP8, "e3m2", "e2m3", "e2m1")

#: Formats by the names that the units give them, where numc has others. Those of 32 bits are cut as they are read.
_FORMATS = {
    "tf32": Conversion(FORMATS["tf32"], "rtz"),
    "xf32": Conversion(FORMATS["tf32"], "rtz"),
    "e4m3": Conversion(FORMATS["fp8_e4m3"]),
    "e3m2": Conversion(FORMATS["fp6_e3m2"]),
    "e2m3": Conversion(FORMATS["fp6_e2m3"]),
    "e2m1": Conversion(FORMATS["fp4_e2m1"]),
    "e5m2": Conversion(FORMATS["fp8_e5m2"]),
    "fp8": Conversion(FORMATS["e4m3fnuz"]),
    "bf8": Conversion(FORMATS["e5m2fnuz"]),
    "bf16_1k": Conversion(FORMATS["bf16"]),
}
_BYTES = {"fp16": 2, "bf16": 2, "tf32": 4}


@dataclass(frozen=True, kw_only=True)
class Nvidia:
    """A generation of NVIDIA's units, whose datapath is ``fused``.

    operands: the formats of 16 and 32 bits that it takes. narrow: those of up to 8 bits, of which A and B may differ.
    width: how many bytes of each operand are added together. bits: how many terms keep below the largest exponent;
    narrow_bits: the same for narrow operands, if the accumulator then has no more of them. zero: the exponent of a term
    that is zero; zero_into_fp16: the same with a float16 accumulator.
    """

    operands: tuple[str, ...]
    narrow: tuple[str, ...] = ()
    width: int
    bits: int
    narrow_bits: int | None = None
    zero: int
    zero_into_fp16: int


_16 = ("fp16", "bf16", "tf32")
NVIDIA: Mapping[str, Nvidia] = MappingProxyType({
    "volta": Nvidia(operands=("fp16",), width=8, bits=23, zero=-131, zero_into_fp16=-19),
    "turing": Nvidia(operands=("fp16",), width=16, bits=24, zero=-132, zero_into_fp16=-20),
    "ampere": Nvidia(operands=_16, width=16, bits=24, zero=-132, zero_into_fp16=-20),
    "ada": Nvidia(operands=_16, narrow=_FP8, width=16, bits=24, narrow_bits=13, zero=-132, zero_into_fp16=-20),
    "hopper": Nvidia(operands=_16, narrow=_FP8, width=32, bits=25, narrow_bits=13, zero=-133, zero_into_fp16=-21),
    "blackwell": Nvidia(operands=_16, narrow=_F8F6F4, width=32, bits=25, zero=-133, zero_into_fp16=-21),
})  # fmt: skip

#: Blackwell's formats of blocks with a scale of their own, by the names that numc gives them.
_SCALED = ("mxfp8", "mxfp8_e5m2", "mxfp6", "mxfp6_e3m2", "mxfp4")
_OF_32 = Datapath("fused", (("l", 32), ("bits", 25), ("least", -133)))
_OF_64 = Datapath("fused", (("l", 64), ("bits", 35), ("least", -139), ("run", 16)))
#: The instructions for numbers of four bits alone, which add runs of 16 products: the operands of each.
_FP4: Mapping[str, GroupFormat] = MappingProxyType({
    "mxfp4": GROUP_FORMATS["mxfp4"],
    "mxfp4_block16": replace(OCP["mxfp4"], group=16, element="e2m1fn"),
    "nvfp4": GROUP_FORMATS["nvfp4"],
})  # fmt: skip

#: Integers that units add in 32 bits, which wrap around.
_INTEGERS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    **dict.fromkeys(("turing", "ampere", "ada"), ("int8", "int4")),
    **dict.fromkeys(("hopper", "blackwell", "cdna1", "cdna2", "cdna3"), ("int8",)),
})  # fmt: skip

_STAGED = {"bits": 24, "sum": 31}
#: AMD's: the datapath of the formats of a generation.
AMD: Mapping[str, Mapping[tuple[str, ...], Datapath]] = MappingProxyType({
    "cdna1": {("fp16",): Datapath("dot", (("l", 4),)), ("bf16",): Datapath("dot", (("l", 2),))},
    "cdna2": {
        ("fp16", "bf16_1k"): Datapath("pairwise", (("l", 4), ("flush", 1))),
        ("bf16",): Datapath("pairwise", (("l", 2), ("flush", 1))),
    },
    "cdna3": {
        ("fp16", "bf16"): Datapath("staged", tuple({"l": 8, **_STAGED}.items())),
        ("xf32",): Datapath("staged", tuple({"l": 4, **_STAGED}.items())),
        ("fp8", "bf8"): Datapath("staged", tuple({"l": 16, **_STAGED, "apart": 1}.items())),
    },
})  # fmt: skip


def _unit(name: str, a: str, b: str, acc: Conversion, path: Datapath) -> Fma:
    to_a, to_b = (_FORMATS.get(each) or Conversion(FORMATS[each]) for each in (a, b))
    return Fma(name=name, a=to_a, b=to_b, acc=acc, products=1, datapath=path)


def _nvidia(name: str, each: Nvidia) -> Iterator[Fma]:
    pairs = [(a, a) for a in each.operands] + list(product(each.narrow, repeat=2))
    for a, b in pairs:
        narrow = a in each.narrow
        bits = each.narrow_bits if narrow and each.narrow_bits is not None else each.bits
        into = {"": (Conversion(FORMATS["fp32"] if bits == each.bits else exmy(8, bits), "rtz"), each.zero)}
        if narrow or a == "fp16":
            into["_into_fp16"] = (Conversion(FORMATS["fp16"]), each.zero_into_fp16)
        for suffix, (acc, zero) in into.items():
            path = Datapath("fused", (("l", each.width // _BYTES.get(a, 1)), ("bits", bits), ("least", zero)))
            yield _unit(f"{name}_{_pair(a, b)}{suffix}", a, b, acc, path)


def _scaled(name: str) -> Iterator[Fma]:
    acc = Conversion(FORMATS["fp32"], "rtz")
    for a, b in product(_SCALED, repeat=2):
        to_a, to_b = (GroupConversion(GROUP_FORMATS[each], "rne") for each in (a, b))
        text = "mxfp4_f8f6f4" if a == b == "mxfp4" else _pair(a, b)
        yield Fma(name=f"{name}_{text}", a=to_a, b=to_b, acc=acc, products=1, datapath=_OF_32)
    for text, fmt in _FP4.items():
        to = GroupConversion(fmt, "rne")
        yield Fma(name=f"{name}_{text}", a=to, b=to, acc=acc, products=1, datapath=_OF_64)


def _integers(name: str, operands: tuple[str, ...]) -> Iterator[Fma]:
    for each in operands:
        to = GroupConversion(GROUP_FORMATS[each], "rne")
        yield Fma(name=f"{name}_{each}", a=to, b=to, acc=FP32, products=1, datapath=Datapath("int"))


def _amd(name: str, datapaths: Mapping[tuple[str, ...], Datapath]) -> Iterator[Fma]:
    for operands, path in datapaths.items():
        pairs = product(operands, repeat=2) if operands[0] == "fp8" else zip(operands, operands, strict=True)
        for a, b in pairs:
            yield _unit(f"{name}_{_pair(a, b)}", a, b, FP32, path)


def _pair(a: str, b: str) -> str:
    return a if a == b else f"{a}_{b}"


UNITS: Mapping[str, Fma] = MappingProxyType({
    fma.name: fma
    for made in (
        *(_nvidia(*each) for each in NVIDIA.items()),
        _scaled("blackwell"),
        *(_amd(*each) for each in AMD.items()),
        *(_integers(*each) for each in _INTEGERS.items()),
    )
    for fma in made
})  # fmt: skip

#: Every operator that has a name.
NAMED: Mapping[str, Fma] = MappingProxyType({**FMAS, **UNITS})
