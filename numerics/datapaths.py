"""Datapaths: what an operator does with the products of a reduction, and in which order it takes them.

reference/ defines what they compute. A datapath is a line of `ALL_DATAPATHS`; one with parameters is a frozen value
`Datapath`, which operators, their texts, policies and the IR carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from numc.support.errors import NumcError, did_you_mean, quoted, shortened

MAX_CHUNK = 2**31 - 1


@dataclass(frozen=True)
class Steps:
    """One product after the other, in ascending order; one that is a zero changes no accumulator, except a -0."""


@dataclass(frozen=True)
class Blocks:
    """`length` products together, counted from the first one of the reduction: the place of a product matters."""

    length: int


@dataclass(frozen=True)
class Own:
    """An order of its own, as that of an instruction or of sums of groups: a reduction is computed as it stands."""


Order = Steps | Blocks | Own


@dataclass(frozen=True)
class Parameter:
    """A whole number that is written behind the name of a datapath. default: its value where none is written."""

    least: int
    most: int
    about: str
    default: int | None = None


@dataclass(frozen=True, kw_only=True)
class Admits:
    """The properties of a datapath, and the operators that may have it.

    order: that in which it takes products; of blocks, the parameter `l` is the length.
    sums: what its additions are, in a word. parameters: what is written behind its name, in this order.
    only: the formats of A, B and the accumulator, if it is an instruction with fixed ones.
    groups: whether it exists for operands with groups alone.
    internal: whether no text can name it, because numc has to know that the operands are what it is for.
    whole: whether a reduction has one sum, that is no number of the accumulator's format: it cannot be in chunks.
    version: of one that a user defines, digits that tell definitions of one name apart; texts write it behind the name.
    """

    order: type[Order]
    sums: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    only: tuple[str, str, str] | None = None
    groups: bool = False
    internal: bool = False
    whole: bool = False
    version: str = ""

    def syntax(self, name: str) -> str:
        """Its name as a text, with the parameters that have no default."""
        needed = [f"{key}=..." for key, each in self.parameters.items() if each.default is None]
        return f"{name}({','.join(needed)})" if needed else name


@dataclass(frozen=True)
class Datapath:
    """A datapath with its parameters; ``str`` gives its text without the chunks, which operators write apart.

    parameters: names and values; those that have a default may be left out, and are there afterwards.
    chunk: a reduction adds the sum of that many steps, from +0, to a binary32 total that is rounded to the accumulator
    at its end (FMAC-8 of Popescu et al.); None accumulates throughout.
    keeps_total: the total is not rounded at its end.
    splits: the same with at most so many runs of steps, whose length depends on that of the reduction (`run_length`):
    libraries split long reductions in this way.
    Raises NumcError for a name or a parameter that does not exist, or is not allowed.
    """

    name: str = "fp32"
    parameters: tuple[tuple[str, int], ...] = ()
    chunk: int | None = None
    keeps_total: bool = False
    splits: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ALL_DATAPATHS:
            object.__setattr__(self, "name", _defined(self.name))
        known, settings = self.admits.parameters, dict(self.parameters)
        for key in settings:
            if key not in known:
                allowed = f"{did_you_mean(key, known)}, want {', '.join(known)}" if known else ", it takes none"
                raise NumcError(f"datapath '{self.name}': unknown parameter {quoted(key)}{allowed}")
        values = tuple((key, settings.get(key, each.default)) for key, each in known.items())
        object.__setattr__(self, "parameters", values)
        for (key, value), each in zip(values, known.values(), strict=True):
            if value is None:
                raise NumcError(f"datapath '{self.name}': parameter {key} is missing, {each.about}: want {key}=...")
            if not each.least <= value <= each.most:
                raise NumcError(
                    f"datapath '{self.name}': {key}={shortened(value)}, want a whole number from {each.least} to "
                    f"{each.most}, {each.about}"
                )

    def __getitem__(self, parameter: str) -> int:
        return dict(self.parameters)[parameter]

    @property
    def admits(self) -> Admits:
        """The operators that may have it."""
        return ALL_DATAPATHS.get(self.name) or DEFINED[self.name.partition("#")[0]]

    @property
    def within(self) -> Order:
        """The order of the products of a chunk, or of all where there are no chunks."""
        order = self.admits.order
        return Blocks(dict(self.parameters).get("l", 1)) if order is Blocks else Steps() if order is Steps else Own()

    @property
    def order(self) -> Order:
        """The order of the products of a reduction."""
        if self.splits is not None:
            return Own()
        return self.within if self.chunk is None else Blocks(self.chunk)

    @property
    def in_runs(self) -> bool:
        """Whether runs of steps are summed apart, from +0, and added to a binary32 total."""
        return self.chunk is not None or self.splits is not None

    @property
    def least_run(self) -> int:
        """The number of products that no run divides."""
        return self.within.length if isinstance(self.within, Blocks) else 1

    def run_length(self, depth: int) -> int:
        """Return how many steps of a reduction of `depth` of them a run has."""
        if self.splits is None:
            return self.chunk or depth
        each = -(-depth // self.splits)
        return max(-(-each // self.least_run), 1) * self.least_run

    @property
    def step(self) -> Datapath:
        """The datapath of one product by itself, outside of a reduction: without chunks, and a block of its own.

        A block that a user defines has all its products, of which the others are +0 then.
        """
        parameters = self.parameters
        if self.admits.order is Blocks and not self.admits.version:
            parameters = tuple((key, 1 if key == "l" else value) for key, value in parameters)
        return Datapath(self.name, parameters)

    def __str__(self) -> str:
        known = self.admits.parameters
        told = [f"{key}={value}" for key, value in self.parameters if value != known[key].default]
        return f"{self.name}({','.join(told)})" if told else self.name


#: The datapaths that this process has defined (defined.py), by their names.
DEFINED: dict[str, Admits] = {}


def _defined(name: str) -> str:
    """The name of a defined datapath with its version."""
    plain, _, version = name.partition("#")
    admits = DEFINED.get(plain)
    if admits is None:
        near = did_you_mean(plain, (*DATAPATHS, *DEFINED))
        defined = " (definitions of users have to be imported: numc --define FILE.py)" if version else ""
        raise NumcError(f"datapath {quoted(name)}{near}, want {', '.join((*DATAPATHS, *DEFINED))}{defined}")
    if version and version != admits.version:
        raise NumcError(
            f"datapath {quoted(name)}: '{plain}' is defined as '{plain}#{admits.version}' here, want the definition "
            "that the program was compiled with"
        )
    return f"{plain}#{admits.version}"


_LENGTH = Parameter(1, 256, "how many products are added together")
_SHORT = Parameter(1, 16, "how many products are added together")
_FLUSH = Parameter(0, 1, "1 if subnormal numbers are replaced by zeros, 0 if not", 0)
# The exponent below which no product of two binary32 numbers is.
_LEAST = -298

_BF16 = ("bf16", "bf16", "fp32")
ALL_DATAPATHS: Mapping[str, Admits] = MappingProxyType({
    "fp32": Admits(order=Steps, sums="fp32"),
    "exact": Admits(order=Steps, sums="exact"),
    # Matrix units of accelerators: products and accumulator are aligned, cut, added as integers and rounded once.
    "fused": Admits(
        order=Blocks,
        sums="fixed-point",
        parameters={
            "l": _LENGTH,
            "bits": Parameter(0, 42, "the bits that are kept below the largest exponent"),
            "least": Parameter(_LEAST, 127, "the least exponent that terms are aligned to", _LEAST),
            "run": Parameter(0, 256, "how many products of a group are added to a term, 0 if each is one", 0),
        },
    ),
    # Those of AMD: CDNA1 rounds an exact sum once, CDNA2 adds pairs in float32, CDNA3 aligns in two stages.
    "dot": Admits(order=Blocks, sums="exact", parameters={"l": _SHORT}),
    "pairwise": Admits(order=Blocks, sums="fp32", parameters={"l": _SHORT, "flush": _FLUSH}),
    "staged": Admits(
        order=Blocks,
        sums="fixed-point",
        parameters={
            "l": _LENGTH,
            "bits": Parameter(0, 30, "the bits that products and accumulator keep below their largest exponent"),
            "sum": Parameter(0, 40, "the bits that the sum keeps before it is rounded"),
            "apart": Parameter(0, 1, "1 if even and odd products are added apart, 0 if not", 0),
        },
    ),
    "amx_bf16": Admits(order=Own, sums="fp32", only=_BF16),
    "avx512_bf16": Admits(order=Own, sums="fp32", only=_BF16),
    # FAST's fMAC, which multiplies two magnitude bits by two at a time
    "fmac2": Admits(order=Own, sums="exact", groups=True),
    # The integers of intN in an accumulator of so many bits, which wraps around or saturates, as integer units have it
    "int": Admits(
        order=Own,
        sums="integer",
        groups=True,
        parameters={
            "bits": Parameter(8, 32, "the bits of the accumulator", 32),
            "saturate": Parameter(0, 1, "1 if sums beyond its range become its bounds, 0 if they wrap around", 0),
            "l": Parameter(1, 256, "how many products are added before a sum saturates", 1),
        },
    ),
    # Sums of products of integers modulo 2^32, in the bits of binary32 numbers: A and B have at most 16 bits with their
    # signs, or 8, and A no sign.
    "integers": Admits(order=Own, sums="exact", only=("fp32", "fp32", "fp32"), internal=True),
    "bytes": Admits(order=Own, sums="exact", only=("fp32", "fp32", "fp32"), internal=True),
})  # fmt: skip
# Those that a text can name.
DATAPATHS: Mapping[str, Admits] = MappingProxyType(
    {name: admits for name, admits in ALL_DATAPATHS.items() if not admits.internal}
)
