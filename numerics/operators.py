"""FMA operators: one frozen literal each (arithmetic.md section 3). What they compute is defined in `reference/`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

from numc.numerics.datapaths import DATAPATHS, MAX_CHUNK, Blocks, Datapath, Order, Own
from numc.numerics.formats import FORMATS, Conversion, Format, Open, Record
from numc.numerics.formats.format import listed
from numc.numerics.formats.rounding import round_real
from numc.numerics.groups import Factors, GroupConversion, GroupFormat
from numc.numerics.kinds import KINDS
from numc.numerics.kinds.scaled_groups import ROW
from numc.support import notebook
from numc.support.errors import NumcError

MAX_GROUP = 4096
HADAMARD = (4, 16, 64)  # sizes of matrices whose entries are powers of two
BF16_PRECISION = 8
_EXACT_BITS = 53  # what a group's dot product may take: the significand of binary64

PLAIN = Datapath("fp32")
FP32 = Conversion(FORMATS["fp32"])
BF16 = Conversion(FORMATS["bf16"])
BF16X2 = Conversion(FORMATS["bf16x2"])
BF16X3 = Conversion(FORMATS["bf16x3"])
HFP8_FWD = Conversion(FORMATS["hfp8_fwd"])
HFP8_BWD = Conversion(FORMATS["hfp8_bwd"])


@dataclass(frozen=True, kw_only=True)
class Fma:
    """One step ``D = round_acc(sum of partial products of A and B + C)``; ``str`` gives text that parses back to it.

    products: how many of the products of the parts of A and B are summed.
    datapath: how they are added, and in which order a reduction takes its steps.
    product: the conversion of the sum of products before the addition of C (MAC, MACS), or None (FMA, FMAC, FMACS).
    Where A and B are both formats of groups, the reduction is a sum of dot products of groups. Where one of them is,
    that operand is converted along the reduction, and its values are multiplied as other binary32 numbers are. Outside
    of a reduction, operands with groups are taken as they are.
    unit: the operator of single values that sums the elements of a group, whose sum the scales multiply; None is a
    chain of binary32 FMAs. hadamard: operands are multiplied by a random Hadamard matrix of that size first, with the
    signs of the number `signs`; 0 is none.
    Two operators are equal when they compute the same, whatever they are called. name: "" for one that has none.
    Raises NumcError for a number of products, a datapath, a chunk or a combination that does not exist.
    """

    name: str = field(default="", compare=False)
    a: Conversion | GroupConversion
    b: Conversion | GroupConversion
    acc: Conversion
    products: int
    datapath: Datapath = PLAIN
    product: Conversion | None = None
    unit: Fma | None = None
    hadamard: int = 0
    signs: int = 0

    def __post_init__(self) -> None:
        what = f"operator '{self.name}'" if self.name else f"fma(a={self.a},b={self.b},acc={self.acc})"
        path, admits = self.datapath, self.datapath.admits
        if admits.internal and path.name != self.name:
            raise NumcError(f"{what}: datapath '{path.name}', want {', '.join(DATAPATHS)}")
        if self.acc.open is not None:
            raise NumcError(f"{what}: acc={self.acc}, an accumulator has fixed widths: want acc=fp32 or acc=eXmY")
        if self.acc.format.parts > 1 and self.acc.format.part != BF16.format:
            raise NumcError(f"{what}: acc={self.acc}, want acc=bf16x2, acc=bf16x3 or an accumulator of one part")
        if not self.acc.format.has_zero:
            raise NumcError(f"{what}: acc={self.acc} has no zero, which sums begin with: want a format with one")
        self._check_rotation(what)
        if isinstance(self.a, GroupConversion) and isinstance(self.b, GroupConversion):
            self._check_groups(what, self.a, self.b)
            return
        if self.unit is not None:
            raise NumcError(f"{what}: unit={self.unit} sums the elements of groups, and a and b are not both of groups")
        self._check_one_group(what)
        if admits.groups:
            wanted = "integers, want a=intN" if path.name == "int" else "block floating point, want a=bfp(g,e,m)"
            raise NumcError(f"{what}: datapath '{path.name}' multiplies {wanted}")
        allowed = allowed_products(*self.parts)
        if self.products not in allowed:
            parts = f"{self.parts[0]} x {self.parts[1]} parts"
            raise NumcError(f"{what}: products={self.products}, want {' or '.join(map(str, allowed))} for {parts}")
        only = admits.only
        if only is not None and (self.product is not None or (str(self.a), str(self.b), str(self.acc)) != only):
            a, b, acc = only
            raise NumcError(f"{what}: datapath '{path.name}' takes only a={a}, b={b}, acc={acc}, products=1")
        if self.product is not None and self.product.format.parts > 1:
            raise NumcError(f"{what}: product={self.product}, a product is rounded to a format of one part")
        if isinstance(path.within, Blocks):
            self._check_blocks(what)
        for runs, size in (("chunk", path.chunk), ("splits", path.splits)):
            if size is not None:
                self._check_runs(what, runs, size)
        if path.chunk is not None and path.splits is not None:
            raise NumcError(
                f"{what}: chunk={path.chunk} and splits={path.splits} both divide a reduction, keep one of them"
            )
        if admits.whole and self.acc.noise is not None:
            raise NumcError(f"{what}: acc={self.acc}, a sum in a register is rounded once: want acc=fp32 or acc=eXmY")
        if path.keeps_total and (not path.in_runs or self.acc.format == FP32.format):
            reason = "an fp32 accumulator is kept anyway" if path.in_runs else "there are no chunks"
            raise NumcError(f"{what}: total=fp32, but {reason}: leave total out")

    def _check_runs(self, what: str, runs: str, size: int) -> None:
        """Runs of steps that are summed apart: chunks of a size, or so many splits."""
        if not 1 <= size <= MAX_CHUNK:
            raise NumcError(f"{what}: {runs}={size}, want a whole number from 1 to {MAX_CHUNK}")
        within = self.datapath.within
        if isinstance(within, Own) or self.datapath.admits.whole:
            raise NumcError(
                f"{what}: {runs}={size} with datapath '{self.datapath.name}', which has an order of its own: "
                f"leave {runs} out"
            )
        if runs == "chunk" and isinstance(within, Blocks) and size % within.length:
            raise NumcError(f"{what}: chunk={size}, want a multiple of l={within.length}: chunks hold whole blocks")

    def _check_blocks(self, what: str) -> None:
        """Blocks add exact products of numbers whose formats are known."""
        named = f"datapath '{self.datapath.name}'"
        if dict(self.datapath.parameters).get("run"):
            raise NumcError(f"{what}: {named}: a run shares scales, and a and b are not both of groups: leave run out")
        if max(*self.parts, self.acc.format.parts) > 1:
            raise NumcError(f"{what}: {named} takes formats of one part")
        if self.open_operands:
            raise NumcError(f"{what}: {named} takes fixed widths, want a=eXmY")
        if self.product is not None:
            raise NumcError(f"{what}: product={self.product}, {named} adds products as they are: leave product out")

    def _check_one_group(self, what: str) -> None:
        """A conversion to groups draws what the accumulator does if it is A's, and what the product does if B's."""
        for name, to, other in zip("ab", self.grouped, ("acc", "product"), strict=True):
            rounds = self.acc if other == "acc" else self.product
            if to is None:
                continue
            if _is_long(to.format):
                raise NumcError(f"{what}: groups of {to.format.group} values, an operator takes up to {MAX_GROUP}")
            if to.noise is not None and rounds is not None and rounds.noise is not None:
                both = f"{name}={to} and {other}={rounds}"
                raise NumcError(
                    f"{what}: {both} would draw the same bits: use a stochastic rounding for {name} or {other} alone"
                )

    def _check_rotation(self, what: str) -> None:
        if self.hadamard not in (0, *HADAMARD):
            raise NumcError(f"{what}: hadamard={self.hadamard}, want {', '.join(map(str, HADAMARD[:-1]))} or 64")
        if self.signs and not self.hadamard:
            raise NumcError(f"{what}: signs={self.signs} without hadamard: want hadamard=16, signs={self.signs}")
        if self.hadamard and self.open_operands:
            raise NumcError(f"{what}: hadamard={self.hadamard} takes operands of fixed widths, want a=eXmY")
        if self.hadamard and any(to.noise is not None for to in self.singles):
            raise NumcError(
                f"{what}: hadamard={self.hadamard} is before a stochastic rounding of groups only: "
                "want a=mx(element,g):sr8, or a=bf16"
            )

    def _check_unit(self, what: str, a: GroupConversion, b: GroupConversion) -> None:
        """The operator that sums elements takes all of them as they are, and draws nothing."""
        unit = self.unit
        if unit is None:
            return
        if not (a.format.sums_elements and b.format.sums_elements) or self.datapath.name != "fp32":
            raise NumcError(
                f"{what}: unit={unit} sums elements without their scales, want a=mx(element,g,scale=F), no datapath"
            )
        if unit.written_out or unit.grouped != (None, None) or unit.open_operands or unit.stochastic:
            raise NumcError(f"{what}: unit={unit}, want an operator of single values that draws nothing")
        for name, to, takes in (("a", a, unit.singles[0]), ("b", b, unit.singles[1])):
            if not _holds(takes, to.format):
                raise NumcError(f"{what}: unit={unit} takes {takes}, which has not all elements of {name}={to}")

    def _check_groups(self, what: str, a: GroupConversion, b: GroupConversion) -> None:
        both_sum = a.format.sums_elements and b.format.sums_elements
        in_words = self.written_out and isinstance(self.datapath.within, Blocks)
        if type(a.format) is not type(b.format) and not both_sum and not in_words:
            *names, last = (kind.name for kind in KINDS)
            kinds = f"{', '.join(names)} and {last} do not mix, nor do scales e8m0fnu and others"
            raise NumcError(f"{what}: {kinds}: give a and b formats of one kind")
        if a.format.group != b.format.group:
            raise NumcError(
                f"{what}: groups of {a.format.group} and {b.format.group} values, give a and b groups of one size"
            )
        path = self.datapath
        self._check_unit(what, a, b)
        if path.name not in a.format.datapaths:
            allowed = ("only " if len(a.format.datapaths) == 1 else "") + " or ".join(a.format.datapaths)
            raise NumcError(f"{what}: datapath '{path.name}', '{a.format.name}' takes {allowed}")
        if isinstance(path.within, Blocks):
            self._check_scaled_blocks(what, a, b)
        elif self.acc.format != FP32.format or self.acc.noise is not None:
            raise NumcError(f"{what}: the dot products of groups are summed in fp32, want acc=fp32")
        if path.name == "fmac2" and self.open_operands:
            raise NumcError(
                f"{what}: datapath 'fmac2' multiplies chunks of fixed widths: leave datapath out, the bits are the same"
            )
        if self.product is not None:
            raise NumcError(f"{what}: product={self.product}, products of groups are not rounded: leave product out")
        if self.products != math.prod(self.parts):
            raise NumcError(f"{what}: products={self.products}, formats with groups have all: leave products out")
        for runs, size in (("chunk", path.chunk), ("splits", path.splits)):
            if size is not None:
                raise NumcError(f"{what}: {runs}={size}, formats with groups are summed by groups: leave {runs} out")
        if _is_long(a.format):
            raise NumcError(f"{what}: groups of {a.format.group} values, an operator takes up to {MAX_GROUP}")
        if isinstance(path.within, Blocks):
            return
        units = a.format.most_units * b.format.most_units
        if a.format.group is not None and a.format.sums_exactly and a.format.group * units >= 1 << _EXACT_BITS:
            raise NumcError(
                f"{what}: the dot product of a group takes more than {_EXACT_BITS} bits, "
                "use shorter groups or fewer magnitude bits"
            )

    def _check_scaled_blocks(self, what: str, a: GroupConversion, b: GroupConversion) -> None:
        """Blocks of elements and their scales: sizes that fit together, and sums that binary64 holds."""
        path, group = self.datapath, a.format.group or 1
        length, run, named = path["l"], path["run"], f"datapath '{self.datapath.name}'"
        for name, to in (("a", a), ("b", b)):
            if not isinstance(to.format.single, Record) or to.format.scales is None:
                wanted = "floating-point elements, such as mxfp8 or nvfp4"
                raise NumcError(f"{what}: {name}={to}, {named} takes groups of {wanted}")
            if self.written_out and (to.format.group in (None, ROW) or to.format.scales.precision > BF16_PRECISION):
                wanted = "groups of a number of values with scales of 8 significant bits at most, such as e4m3fn"
                raise NumcError(f"{what}: {name}={to}, {named} takes {wanted}")
        if self.acc.format.parts > 1:
            raise NumcError(f"{what}: acc={self.acc}, {named} takes formats of one part")
        if self.shares_tensor and (self.acc.format != FP32.format or self.acc.noise is not None):
            raise NumcError(f"{what}: acc={self.acc}, the scales of tensors multiply a sum in fp32: want acc=fp32")
        if a.noise is not None and self.acc.noise is not None:
            both = f"a={a} and acc={self.acc}"
            raise NumcError(f"{what}: {both} would draw the same bits: use a stochastic rounding for one of them")
        if length % group and group % length:
            raise NumcError(f"{what}: l={length} with groups of {group}, want a multiple of {group} or a part of it")
        if run and (length % run or group % run):
            raise NumcError(f"{what}: run={run}, want a part of l={length} and of groups of {group}")
        if max(self._bits_of_blocks(a, b)) > _EXACT_BITS:
            raise NumcError(
                f"{what}: the sum of a block takes more than {_EXACT_BITS} bits: use a smaller l or fewer bits"
            )

    def _bits_of_blocks(self, a: GroupConversion, b: GroupConversion) -> tuple[int, int]:
        """The bits that a term takes, and those of the sum of all terms of a block and an accumulator."""
        path, formats, scales = self.datapath, self.factors, (a.format.scales, b.format.scales)
        size, bits = Fraction(1), 0
        for to, scale in zip(formats, scales, strict=True):
            assert scale is not None
            each = to.format
            size *= (each.max_finite if path["run"] else _most(each)) * _most(scale)
            bits += int(each.max_finite / each.min_subnormal).bit_length() if path["run"] else each.precision
            bits += scale.precision
        run = path["run"] or 1
        total = path["l"] * size * 2 ** path["bits"] + 2 ** (path["bits"] + 1)
        return bits + (run - 1).bit_length(), math.ceil(total).bit_length()

    @property
    def written_out(self) -> bool:
        """Whether contractions are written out in simpler operations: by scales of tiles, a unit, or a rotation."""
        return bool(self.hadamard) or self.unit is not None or any(to and to.format.written_out for to in self.grouped)

    @property
    def unrotated(self) -> Fma:
        """The operator without the Hadamard matrices."""
        return replace(self, name="", hadamard=0, signs=0)

    @property
    def without_groups(self) -> Fma:
        """The operator that takes the values of operands with groups as they are."""
        a, b = (FP32 if isinstance(to, GroupConversion) else to for to in (self.a, self.b))
        return replace(self, name="", a=a, b=b)

    @property
    def summed_by(self) -> Fma:
        """The operator that sums the elements of a group."""
        return FMAS["fp32"] if self.unit is None else self.unit

    @property
    def groups(self) -> tuple[GroupConversion, GroupConversion] | None:
        """The conversions of A and B if both are to formats with groups, whose dot products are summed."""
        a, b = self.grouped
        return None if a is None or b is None else (a, b)

    @property
    def grouped(self) -> tuple[GroupConversion | None, GroupConversion | None]:
        """The conversions of A and B, each None where it is not to a format with groups."""
        a, b = (to if isinstance(to, GroupConversion) else None for to in (self.a, self.b))
        return a, b

    @property
    def singles(self) -> tuple[Conversion, Conversion]:
        """The conversions of A and B, value by value; those of a format with groups have been rounded, to binary32."""
        a, b = (FP32 if isinstance(to, GroupConversion) else to for to in (self.a, self.b))
        return a, b

    @property
    def factors(self) -> tuple[Conversion, Conversion]:
        """The conversions of what is multiplied: those of `singles`, or of elements whose scales are taken apart."""
        if self.multiplies != "elements":
            return self.singles
        a, b = (Conversion(to.format.single) for to in self.grouped if to is not None and to.format.single is not None)
        return a, b

    @property
    def multiplies(self) -> Factors:
        """The factors of its products, where operands have groups."""
        if self.groups is None:
            return "values"
        return "elements" if isinstance(self.datapath.within, Blocks) else "sums"

    @property
    def open_operands(self) -> dict[str, Open]:
        """The widths that a run chooses, by what they are of: ``a``, ``b`` or ``product``."""
        conversions = {"a": self.a, "b": self.b, "product": self.product}
        return {name: to.open for name, to in conversions.items() if to is not None and to.open is not None}

    def at(self, widths: Mapping[str, tuple[int, int]]) -> Fma:
        """Return the operator that a run computes with these widths (exponent, significand), by `open_operands`."""
        made = {name: getattr(self, name).at(*widths[name]) for name in self.open_operands}
        return replace(self, name="", **made) if made else self

    @property
    def group(self) -> GroupFormat | None:
        """The format of A if both have groups; B's has the same kind and group size."""
        return self.a.format if self.groups and isinstance(self.a, GroupConversion) else None

    @property
    def group_length(self) -> int | None:
        """The steps of a reduction that share a scale of an operand; None if there are none, or one for a tensor."""
        return next((to.format.group for to in self.grouped if to is not None and to.format.group is not None), None)

    @property
    def parts(self) -> tuple[int, int]:
        """The numbers of parts of the values of A and B; under fmac2 chunks of their magnitudes."""
        return parts_of(self.a, self.datapath.name), parts_of(self.b, self.datapath.name)

    @property
    def passes(self) -> int:
        """The passes of FAST's fMAC over a group; 1 for everything else."""
        return self.products if self.datapath.name == "fmac2" else 1

    @property
    def step(self) -> Fma:
        """One step of the operator, outside of a reduction."""
        step, (a, b) = self.datapath.step, self.singles
        if self.groups:
            return FMAS["fp32"]
        plain = self.unrotated if self.hadamard else self
        same = (step, a, b) == (self.datapath, self.a, self.b)
        return plain if same else replace(plain, name="", a=a, b=b, datapath=step)

    @property
    def order(self) -> Order:
        """The order in which a reduction takes its steps; passes ask before they leave out or regroup any."""
        return self.datapath.order if self.grouped == (None, None) and not self.written_out else Own()

    @property
    def total(self) -> Conversion:
        """The format to which the sum of chunks is rounded at its end."""
        return FP32 if self.datapath.keeps_total else self.acc

    @property
    def is_one_fma(self) -> bool:
        """Whether a step is an f32 FMA. It rounds once: with a binary32 accumulator it is the exact datapath, too."""
        single = self.product is None and len(self.terms) == 1 and not isinstance(self.datapath.within, Blocks)
        return single and str(self.acc) == "fp32"

    @property
    def draws(self) -> bool:
        """Whether a reduction draws random bits; formats with groups are converted in the operator, and draw there."""
        return self.steps_draw or any(to is not None and to.noise is not None for to in self.grouped)

    @property
    def steps_draw(self) -> bool:
        """Whether a step does: its accumulator's rounding, or its product's."""
        return any(to is not None and to.noise is not None for to in (self.acc, self.product))

    @property
    def stochastic(self) -> bool:
        """Whether anything in it draws random bits, the conversions of A and B included."""
        return self.draws or self.a.noise is not None or self.b.noise is not None

    @property
    def sees_whole_operands(self) -> bool:
        """Whether it converts by the largest magnitude of an operand, or in widths that a run may choose by it."""
        return bool(self.open_operands) or self.shares_tensor

    @property
    def shares_tensor(self) -> bool:
        """Whether it converts by the largest magnitude of an operand."""
        return any(to is not None and to.format.shares_tensor for to in self.grouped)

    @property
    def swapped(self) -> Fma:
        """Return the operator with the formats of A and B exchanged."""
        unit = None if self.unit is None else self.unit.swapped
        return self if self.a == self.b else replace(self, name="", a=self.b, b=self.a, unit=unit)

    def with_operands(self, a: Conversion | GroupConversion, b: Conversion | GroupConversion, acc: Conversion) -> Fma:
        """Return the operator with other formats of A, B or the accumulator.

        An operator that sums all partial products sums all of those that the new formats have. Raises NumcError if the
        formats do not fit together.
        """
        products = self.products
        if products == math.prod(self.parts):
            products = parts_of(a, self.datapath.name) * parts_of(b, self.datapath.name)
        return replace(self, name="", a=a, b=b, acc=acc, products=products)

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """The partial products (i, j), meaning ``a_i * b_j``, in chain order: least significant first."""
        n, m = self.parts
        every = sorted(
            ((i, j) for i in range(n) for j in range(m)), key=lambda ij: (ij[0] + ij[1], ij[0]), reverse=True
        )
        return tuple(every[len(every) - self.products :])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the conversions, the products and the order of the additions."""
        dots = "the dot products of groups, added up in fp32"
        sum_of_products = " + ".join([*(f"a{i}*b{j}" for i, j in self.terms), "c"])
        known = {
            "a": self.a,
            "b": self.b,
            "product": self.product,
            "accumulator": self.acc,
            "one step": dots if self.groups else sum_of_products,
            "datapath": "" if self.datapath.name == "fp32" else self.datapath,
            "chunks": self.datapath.chunk,
            "splits": self.datapath.splits,
        }
        title = self.name or str(self)
        same = notebook.note(str(self)) if str(self) != title else ""
        return notebook.card(title, notebook.facts(known), same, about="FMA operator")

    def __str__(self) -> str:
        for name, known in (*FMAS.items(), *INTERNAL.items()):
            if self == known:
                return name
        if self.name:  # a unit's (units.py), of which several compute the same
            return self.name
        how = self.datapath
        path = "" if how.name == "fp32" else f",datapath={how}"
        path += "" if how.chunk is None else f",chunk={how.chunk}"
        path += "" if how.splits is None else f",splits={how.splits}"
        path += ",total=fp32" if how.keeps_total else ""
        path += "" if self.unit is None else f",unit={self.unit}"
        path += f",hadamard={self.hadamard}" if self.hadamard else ""
        path += f",signs={self.signs}" if self.signs else ""
        is_mac = self.a == self.b == self.product and self.acc in (self.product, FP32) and not self.hadamard
        if is_mac:
            return f"{'mac' if self.acc == self.product else 'macs'}({self.product}{path})"
        path = path if self.product is None else f",product={self.product}{path}"
        b = "" if self.b == self.a else f",b={self.b}"
        full = self.products == self.parts[0] * self.parts[1]
        return f"fma(a={self.a}{b},acc={self.acc}{'' if full else f',products={self.products}'}{path})"


def _is_long(fmt: GroupFormat) -> bool:
    """Whether the groups of a format are longer than those that kernels convert."""
    return fmt.group is not None and fmt.group > MAX_GROUP and not fmt.written_out


def _holds(to: Conversion, fmt: GroupFormat) -> bool:
    """Whether a conversion leaves all elements of a format as they are."""
    if fmt.single is None:  # differences of integers
        elements = [Fraction(n) for n in range(fmt.most_units + 1)]
    else:
        elements = [Fraction(value) for value, _ in listed(fmt.single) if math.isfinite(value)]
    return all(Fraction(round_real(abs(x), to)) == abs(x) for x in elements)


def _most(fmt: Format) -> Fraction:
    """The largest significand of a format, from 1 to 2."""
    return 2 - Fraction(2) ** (1 - fmt.precision)


def parts_of(to: Conversion | GroupConversion, datapath: str) -> int:
    """Return how many parts a value of an operand has."""
    return to.format.parts if isinstance(to, Conversion) else to.format.parts(datapath)


def allowed_products(a_parts: int, b_parts: int) -> tuple[int, ...]:
    """Return how many partial products an operator may sum: all, or all but the least significant."""
    # Dropping is defined by section 3 for equal numbers of parts: {3} drops a1*b1; {6} drops a1*b2, a2*b1, a2*b2.
    return {(2, 2): (3, 4), (3, 3): (6, 9)}.get((a_parts, b_parts), (a_parts * b_parts,))


def _table(*fmas: Fma) -> Mapping[str, Fma]:
    return MappingProxyType({fma.name: fma for fma in fmas})


FMAS: Mapping[str, Fma] = _table(
    Fma(name="fp32", a=FP32, b=FP32, acc=FP32, products=1),
    Fma(name="mp", a=BF16, b=BF16, acc=FP32, products=1),
    Fma(name="bf16_1_1", a=BF16, b=BF16, acc=BF16, products=1),
    Fma(name="bf16_1_2", a=BF16, b=BF16, acc=BF16X2, products=1),
    Fma(name="bf16_1_3", a=BF16, b=BF16, acc=BF16X3, products=1),
    Fma(name="bf16_2_2{3}", a=BF16X2, b=BF16X2, acc=BF16X2, products=3),
    Fma(name="bf16_2_2{4}", a=BF16X2, b=BF16X2, acc=BF16X2, products=4),
    Fma(name="bf16_3_3{6}", a=BF16X3, b=BF16X3, acc=BF16X3, products=6),
    Fma(name="bf16_3_3{9}", a=BF16X3, b=BF16X3, acc=BF16X3, products=9),
    Fma(name="hfp8_fwd", a=HFP8_FWD, b=HFP8_FWD, acc=FP32, products=1),
    Fma(name="hfp8_bwd", a=HFP8_BWD, b=HFP8_FWD, acc=FP32, products=1),
    Fma(name="amx_bf16", a=BF16, b=BF16, acc=FP32, products=1, datapath=Datapath("amx_bf16")),
    Fma(name="avx512_bf16", a=BF16, b=BF16, acc=FP32, products=1, datapath=Datapath("avx512_bf16")),
)

#: The operators that this process has defined (defined.py), by their names.
DEFINED: dict[str, Fma] = {}

# Operators that numc gives to contractions of integers, and that no text of a user can name.
INTERNAL: Mapping[str, Fma] = _table(
    Fma(name="integers", a=FP32, b=FP32, acc=FP32, products=1, datapath=Datapath("integers")),
    Fma(name="bytes", a=FP32, b=FP32, acc=FP32, products=1, datapath=Datapath("bytes")),
)

# Names that stand for the form with every product.
ALIASES: Mapping[str, str] = MappingProxyType({"bf16_2_2": "bf16_2_2{4}", "bf16_3_3": "bf16_3_3{9}"})
