"""FMA operators: one frozen literal each (arithmetic.md section 3). What they compute is defined in `reference.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from numc.compiler.errors import NumcError
from numc.compiler.formats import FORMATS, Conversion

SOFTWARE_DATAPATHS = ("fp32", "exact")
HARDWARE_DATAPATHS = ("amx_bf16", "avx512_bf16")
DATAPATHS = SOFTWARE_DATAPATHS + HARDWARE_DATAPATHS

MAX_CHUNK = 2**31 - 1

FP32 = Conversion(FORMATS["fp32"])
BF16 = Conversion(FORMATS["bf16"])
BF16X2 = Conversion(FORMATS["bf16x2"])
BF16X3 = Conversion(FORMATS["bf16x3"])


@dataclass(frozen=True)
class Fma:
    """One step ``D = round_acc(sum of partial products of A and B + C)``; ``str`` gives text that parses back to it.

    products: how many of the products of the parts of A and B are summed.
    product: the conversion of the product before the addition (MAC, MACS), or None (FMA, FMAC, FMACS).
    chunk: a reduction adds the sum of that many steps, from +0, to a binary32 accumulator that is rounded to `acc` at
    its end (FMAC-8 of Popescu et al.); None accumulates in `acc` throughout. A step outside a reduction has no chunk.
    Two operators are equal when they compute the same, whatever they are called. Raises NumcError for a number of
    products, a datapath, a chunk or a combination that does not exist.
    """

    name: str = field(compare=False)
    a: Conversion
    b: Conversion
    acc: Conversion
    products: int
    datapath: str = "fp32"
    product: Conversion | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        what = f"operator '{self.name}'" if self.name else f"fma(a={self.a},b={self.b},acc={self.acc})"
        if self.datapath not in DATAPATHS:
            raise NumcError(f"{what}: datapath '{self.datapath}', allowed are {', '.join(DATAPATHS)}")
        allowed = allowed_products(self.a.format.parts, self.b.format.parts)
        if self.products not in allowed:
            parts = f"{self.a.format.parts} x {self.b.format.parts} parts"
            raise NumcError(f"{what}: products={self.products}, allowed for {parts}: {' or '.join(map(str, allowed))}")
        is_native = (self.a, self.b, self.acc, self.product) == (BF16, BF16, FP32, None)
        if self.datapath in HARDWARE_DATAPATHS and not is_native:
            raise NumcError(f"{what}: datapath '{self.datapath}' takes only a=bf16, b=bf16, acc=fp32, products=1")
        if self.chunk is not None:
            self._check_chunk(what, self.chunk)

    def _check_chunk(self, what: str, chunk: int) -> None:
        if not 1 <= chunk <= MAX_CHUNK:
            raise NumcError(f"{what}: chunk={chunk}, write a whole number from 1 to {MAX_CHUNK}")
        if self.datapath in HARDWARE_DATAPATHS:
            raise NumcError(
                f"{what}: chunk={chunk} with datapath '{self.datapath}', which has an order of its own: leave chunk out"
            )
        if self.acc.format == FP32.format:
            raise NumcError(
                f"{what}: chunk={chunk} with an fp32 accumulator, which is what chunks are summed in: leave chunk out"
            )

    @property
    def step(self) -> Fma:
        """One step of the operator, outside of a reduction."""
        return self if self.chunk is None else replace(self, chunk=None)

    @property
    def swapped(self) -> Fma:
        """The same operator with the formats of A and B exchanged."""
        return self if self.a == self.b else replace(self, name="", a=self.b, b=self.a)

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """The partial products (i, j), meaning ``a_i * b_j``, in chain order: least significant first."""
        n, m = self.a.format.parts, self.b.format.parts
        every = sorted(
            ((i, j) for i in range(n) for j in range(m)), key=lambda ij: (ij[0] + ij[1], ij[0]), reverse=True
        )
        return tuple(every[len(every) - self.products :])

    def __str__(self) -> str:
        for name, known in FMAS.items():
            if self == known:
                return name
        path = "" if self.datapath == "fp32" else f",datapath={self.datapath}"
        path += "" if self.chunk is None else f",chunk={self.chunk}"
        if self.product is not None:
            if self.a != self.product or self.b != self.product or self.acc not in (self.product, FP32):
                return self.name  # no text has this meaning: only a literal can
            return f"{'mac' if self.acc == self.product else 'macs'}({self.product}{path})"
        b = "" if self.b == self.a else f",b={self.b}"
        full = self.products == self.a.format.parts * self.b.format.parts
        return f"fma(a={self.a}{b},acc={self.acc}{'' if full else f',products={self.products}'}{path})"


def allowed_products(a_parts: int, b_parts: int) -> tuple[int, ...]:
    """Return how many partial products an operator may sum: all, or all but the least significant."""
    # Dropping is defined by section 3 for equal numbers of parts: {3} drops a1*b1; {6} drops a1*b2, a2*b1, a2*b2.
    return {(2, 2): (3, 4), (3, 3): (6, 9)}.get((a_parts, b_parts), (a_parts * b_parts,))


def _table(*fmas: Fma) -> Mapping[str, Fma]:
    return MappingProxyType({fma.name: fma for fma in fmas})


FMAS: Mapping[str, Fma] = _table(
    Fma("fp32", FP32, FP32, FP32, 1),
    Fma("mp", BF16, BF16, FP32, 1),
    Fma("bf16_1_1", BF16, BF16, BF16, 1),
    Fma("bf16_1_2", BF16, BF16, BF16X2, 1),
    Fma("bf16_1_3", BF16, BF16, BF16X3, 1),
    Fma("bf16_2_2{3}", BF16X2, BF16X2, BF16X2, 3),
    Fma("bf16_2_2{4}", BF16X2, BF16X2, BF16X2, 4),
    Fma("bf16_3_3{6}", BF16X3, BF16X3, BF16X3, 6),
    Fma("bf16_3_3{9}", BF16X3, BF16X3, BF16X3, 9),
    Fma("amx_bf16", BF16, BF16, FP32, 1, "amx_bf16"),
    Fma("avx512_bf16", BF16, BF16, FP32, 1, "avx512_bf16"),
)

# Names that stand for the form with every product.
ALIASES: Mapping[str, str] = MappingProxyType({"bf16_2_2": "bf16_2_2{4}", "bf16_3_3": "bf16_3_3{9}"})
