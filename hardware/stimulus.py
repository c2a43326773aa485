"""Stimulus of an operator: directed corner cases, random operands, and the steps of whole dot products."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from numc.hardware.encodings import Encoding, neighbours_of_boundaries
from numc.hardware.port import SIGN_AND_MAGNITUDE, Codes, Interface, Port
from numc.numerics.exact.value import ONE, POINT, PRODUCT_POINT, Value, from_bits
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import FP32, Fma

KINDS = ("corner", "random", "dot")
Case = tuple[str, dict[str, tuple[int, ...]]]
"""The name of what a case is for, and the codes of its ports."""
_MOST_PLACES = 96  # of an accumulator at which ties are tried: every one of a small format
_SPREAD = 12  # powers of two over which random operands lie


def cases(of: Interface, kind: str, count: int, seed: int) -> Iterator[Case]:
    """Yield the steps of a kind; `count`: of random ones, corners are as many as there are."""
    source = random.Random(f"{seed} {kind} {of.op}")
    operands = Operands(of, source)
    if kind == "random":
        yield from (("random", operands.random()) for _ in range(count))
        return
    made = _group_corners(operands) if of.op.groups else _corners(operands)
    seen = set()
    for about, codes in made:
        if (key := tuple(codes.items())) not in seen:
            seen.add(key)
            yield about, codes


def steps_of_dot(of: Interface, count: int, source: random.Random) -> list[dict[str, tuple[int, ...]]]:
    """The steps of one dot product, whose start is the port `c` of the first one; what a tensor shares stays."""
    operands = Operands(of, source)
    steps = [operands.random(ordinary=True) for _ in range(count)]
    if of.register:
        steps[0]["c"] = (operands.near_one("c"),)
    steps[0] |= {port.name: (_positive(source, any_codes=False),) for port in of.ending}
    shared = {name: codes for name, codes in steps[0].items() if name.endswith(("_top", "_tensor", "c"))}
    held = max((of.op.group_length or 1) // of.products, 1)  # steps of one group, which have its scale
    scales = [name for name in steps[0] if name.endswith("_scale") and of.op.group_length]
    return [{**step, **{name: steps[k - k % held][name] for name in scales}, **shared} for k, step in enumerate(steps)]


@dataclass
class Operands:
    """Random codes for the ports of a step."""

    of: Interface
    source: random.Random

    def __post_init__(self) -> None:
        op = self.of.op
        self.to = dict(zip("abc", (*op.singles, op.acc), strict=True))
        self.encodings = {name: Encoding(to.format) for name, to in self.to.items()}

    def random(self, *, ordinary: bool = False) -> dict[str, tuple[int, ...]]:
        """One step; ordinary: of numbers near 1 alone, where others may be any codes, or cancel."""
        how = 0 if ordinary else self.source.randrange(4)
        if self.of.op.groups:
            return self._grouped(any_codes=how == 1)
        codes: dict[str, tuple[int, ...]] = {}
        for port in self.of.inputs:
            if port.name == "c" and self.of.register:
                codes["c"] = (self.held(),)
            elif port.name not in self.to:
                codes[port.name] = (self.source.getrandbits(port.bits),)
            elif how == 1:
                codes[port.name] = tuple(self.any(port.name) for _ in range(port.count))
            else:
                codes[port.name] = tuple(self.near_one(port.name) for _ in range(port.count))
        if how == 2 and not self.of.register:
            total, bits = self.products(codes), self.to["c"].format.precision + 3
            off = total >> self.source.randrange(1, bits) if total else 0
            codes["c"] = (self.rounded("c", -total + off),)
        return codes

    def held(self) -> int:
        """The code of a register that holds a number of any size."""
        bits = self.of.register
        size = self.source.getrandbits(self.source.randrange(bits))
        return (-size if self.source.getrandbits(1) else size) & (1 << bits) - 1

    def any(self, name: str) -> int:
        """Any code; of a compound format, the code of a conversion of any binary32 number."""
        encoding = self.encodings[name]
        if encoding.format.parts > 1:
            value = rounder(replace(self.to[name], rounding="rne"), POINT)(from_bits(self.source.getrandbits(32)))
            return _known(encoding.encode(value))
        return self.source.getrandbits(encoding.bits)

    def near_one(self, name: str) -> int:
        """The code of a random number within some powers of two of the accumulator's power."""
        spread = self.source.randrange(-_SPREAD, _SPREAD)
        exact = round(self.source.gauss(0, 1) * 2**60) << PRODUCT_POINT - 60 + spread
        return self.rounded(name, exact)

    def rounded(self, name: str, exact: int) -> int:
        """The code of an exact number, which counts 2^-PRODUCT_POINT, in the format of a port."""
        code = self.encodings[name].encode(rounder(self.to[name].settled, PRODUCT_POINT)(exact))
        return 0 if code is None else code

    def products(self, codes: Codes) -> int:
        """The exact sum of the products; of what is no number 0."""
        pairs = zip(codes["a"], codes["b"], strict=True)
        values = [(self.encodings["a"].decode(x), self.encodings["b"].decode(y)) for x, y in pairs]
        return sum(x * y for x, y in values if type(x) is int and type(y) is int)

    def alone(self, a: int, b: int, c: int, lane: int = 0) -> dict[str, tuple[int, ...]]:
        """A step with one product; the others are zeros."""
        codes = {name: [self.zero(name)] * self.of.products for name in "ab"}
        codes["a"][lane], codes["b"][lane] = a, b
        chosen = {"a": tuple(codes["a"]), "b": tuple(codes["b"]), "c": (c,)}
        for port in self.of.inputs[3:]:
            chosen[port.name] = (self.source.choice((0, (1 << port.bits) - 1, self.source.getrandbits(port.bits))),)
        return chosen

    def zero(self, name: str) -> int:
        """The code of +0, or of the smallest value."""
        return self.rounded(name, 0)

    # Groups.

    def _grouped(self, *, any_codes: bool) -> dict[str, tuple[int, ...]]:
        codes: dict[str, tuple[int, ...]] = {}
        for name, to in zip("ab", self.of.op.grouped, strict=True):
            assert to is not None
            codes |= self.group(name, to, any_codes=any_codes)
        codes["c"] = (self.held() if self.of.register else self.any("c") if any_codes else self.near_one("c"),)
        return codes | self.drawn()

    def drawn(self) -> dict[str, tuple[int, ...]]:
        """The random bits of a sum of groups whose rounding draws some."""
        ports = [port for port in self.of.inputs if port.name == "u"]
        return {port.name: (self.source.getrandbits(port.bits),) for port in ports}

    def group(self, name: str, to: GroupConversion, *, any_codes: bool) -> dict[str, tuple[int, ...]]:
        """One group of an operand: any elements that its conversion makes, and a scale near 1 or any one."""
        port = self.of.port(name)
        codes = {name: tuple(self._element(port, to) for _ in range(port.count))}
        if port.holds == SIGN_AND_MAGNITUDE:
            window = _window(self.of, name)
            low, high = max(-149 + port.bits - 2 + window, -149), 127
            top = self.source.randint(min(low, high), high) if any_codes else self.source.randint(0, 3)
            exponent = self.source.randint(max(0, window - 8), window)
            codes |= {f"{name}_exponent": (exponent,), f"{name}_top": (top & (1 << 9) - 1,)}
            return codes
        for other in self.of.inputs:
            if other.name == f"{name}_scale":
                codes[other.name] = tuple(self._scale(other, any_codes) for _ in range(other.count))
            if other.name == f"{name}_tensor":
                codes[other.name] = (_positive(self.source, any_codes),)
        return codes

    def _element(self, port: Port, to: GroupConversion) -> int:
        single, code = to.format.single, self.source.getrandbits(port.bits)
        if single is None:  # sign and magnitude, or two's complement, which leaves its smallest number out
            unused = 1 << port.bits - 1
            return 0 if port.holds != SIGN_AND_MAGNITUDE and code == unused else code
        value = Encoding(single).decode(code)
        largest = to.format.most_units << POINT if to.format.name.startswith("int") else math.inf
        return code if math.isfinite(value) and abs(value) <= largest else 0

    def _scale(self, port: Port, any_codes: bool) -> int:
        if port.holds == "fp32":
            return _positive(self.source, any_codes)
        if port.holds == "e8m0fnu":
            return self.source.getrandbits(8) if any_codes else 127 + self.source.randint(-6, 6)
        codes = (self.source.getrandbits(port.bits - 1) for _ in iter(int, 1))
        fmt = self.of.op.grouped[0 if port.name[0] == "a" else 1]
        assert fmt is not None
        scale = Encoding(fmt.format.scale)  # type: ignore[attr-defined]
        return next(code for code in codes if type(scale.decode(code)) is int)


def _positive(source: random.Random, any_codes: bool) -> int:
    """The code of a positive binary32 number."""
    exponent = source.randint(0, 254) if any_codes else source.randint(120, 134)
    return exponent << 23 | source.getrandbits(23)


def _known(code: int | None) -> int:
    return 0 if code is None else code


# Corners of single values.


def _corners(make: Operands) -> Iterator[Case]:
    lanes = sorted({0, 1 % make.of.products, make.of.products - 1})
    specials = {name: _specials(make, name) for name in "abc"}
    if make.of.register:
        specials["c"] = _register_ends(make.of.register)
    for n, (a, b, c) in enumerate(product(specials["a"], specials["b"], specials["c"])):
        yield "specials", make.alone(a, b, c, lanes[n % len(lanes)])
    if not make.of.register:
        yield from _ties(make, lanes)
        yield from _cancellations(make, lanes)
    if make.of.products > 1:
        yield from _between_products(make, specials)


def _register_ends(bits: int) -> list[int]:
    most = (1 << bits - 1) - 1
    return [0, 1, most - 1, most, most + 1, most + 2, 2 * most, 2 * most + 1]


def _specials(make: Operands, name: str) -> list[int]:
    """Codes of zeros, of the ends of the subnormals and of the range, of 1, infinities and NaN, with both signs."""
    fmt, encoding = make.to[name].format, make.encodings[name]
    units = [fmt.min_subnormal, fmt.min_normal - fmt.min_subnormal, fmt.min_normal, fmt.max_finite]
    sizes = [0, ONE, *(int(unit * (1 << POINT)) for unit in units)]
    to = rounder(make.to[name].settled, POINT)
    values: list[Value] = [*sizes, *(-size or -0.0 for size in sizes)]
    values += [math.inf, -math.inf] if fmt.has_infinities else []
    chosen = {encoding.encode(to(value)) for value in (*values, math.nan)}
    return sorted(code for code in chosen if code is not None)


def _ties(make: Operands, lanes: Sequence[int]) -> Iterator[Case]:
    """Accumulators at the boundaries of their encoding, with products that are half a unit of the last power, and by a
    little more or less: ties, carries, subnormals, the smallest normal number and overflow."""
    places = [(low, high) for to in _rounded_to(make.of.op) for low, high in _neighbours(to)]
    if len(places) > _MOST_PLACES:
        places = [places[round(n * (len(places) - 1) / (_MOST_PLACES - 1))] for n in range(_MOST_PLACES)]
    for n, (low, high) in enumerate(places):
        gap = high - low
        for part, sign, more in product((1, 2, 3, 4, 6), (1, -1), (0, 1, -1)):
            pair = _product_of(make, part * gap // 4, more)
            start = make.rounded("c", sign * (low if more >= 0 or n % 2 else high))
            if pair is not None and part * gap % 4 == 0:
                for flip in (0, 1):
                    a = _negated(make, pair[0]) if flip != (sign < 0) else pair[0]
                    yield "ties and their neighbours", make.alone(a, pair[1], start, lanes[n % len(lanes)])


def _rounded_to(op: Fma) -> list[Conversion]:
    """The formats that a step rounds its sum to, in this order."""
    between = [FP32] if op.datapath.name in ("fp32", "pairwise") and str(op.acc) != "fp32" else []
    return [*between, *([op.acc] if op.acc.format.parts == 1 else [])]


def _neighbours(to: Conversion) -> list[tuple[int, int]]:
    """Pairs of neighbouring magnitudes, in 2^-PRODUCT_POINT; behind the largest one is what would be the next."""
    encoding, chosen = Encoding(to.format), []
    for code in neighbours_of_boundaries(to):
        low = encoding.decode(code)
        if type(low) is not int or low < 0:
            continue
        after = encoding.decode(code + 1) if code + 1 < 1 << to.format.bits else math.nan
        if type(after) is not int or after <= low:
            before = encoding.decode(code - 1) if code else 0
            after = 2 * low - before if type(before) is int else low
        if after > low:
            chosen.append((low << POINT, int(after) << POINT))
    return chosen


def _product_of(make: Operands, size: int, more: int) -> tuple[int, int] | None:
    """Codes of A and B whose product is `size` (`more`: a little more or less), in 2^-PRODUCT_POINT."""
    if size <= 0:
        return None
    odd = size & -size
    power = odd.bit_length() - 1 - PRODUCT_POINT
    a, b = make.to["a"].format, make.to["b"].format
    for split in (power // 2, min(power, a.emax), max(power - b.emax, a.emin), 0):
        x = make.rounded("a", 1 << max(split + PRODUCT_POINT, 0))
        y = make.rounded("b", (size // odd << max(power - split + PRODUCT_POINT, 0)))
        if make.products({"a": (x,), "b": (y,)}) == size:
            near = y + more
            return (x, near if 0 <= near < 1 << make.encodings["b"].bits else y)
    return None


def _negated(make: Operands, code: int) -> int:
    value = make.encodings["a"].decode(code)
    return make.rounded("a", -value << POINT) if type(value) is int else code


def _cancellations(make: Operands, lanes: Sequence[int]) -> Iterator[Case]:
    """Products and accumulators that leave each number of bits."""
    depth = max(make.to["c"].format.precision, *(to.format.precision for to in make.of.op.singles)) * 2 + 2
    for n, sign in product(range(depth), (1, -1)):
        for _ in range(2):
            a, b = (make.near_one(name) for name in "ab")
            exact = make.products({"a": (a,), "b": (b,)})
            start = make.rounded("c", -exact + sign * (exact >> n))
            yield "cancellation", make.alone(a, b, start, lanes[n % len(lanes)])


def _between_products(make: Operands, specials: dict[str, list[int]]) -> Iterator[Case]:
    """Blocks whose products meet one another: specials in two places, cancellation, and far exponents."""
    last = make.of.products - 1
    for x, y in product(specials["a"], repeat=2):
        codes = make.alone(x, make.rounded("b", ONE << POINT), make.zero("c"))
        a, b = list(codes["a"]), list(codes["b"])
        a[last], b[last] = y, make.rounded("b", ONE << POINT)
        yield "specials in two products", {**codes, "a": tuple(a), "b": tuple(b)}
    for n in range(64):
        codes = {**make.random(ordinary=True)}
        a, b = list(codes["a"]), list(codes["b"])
        for lane in range(0, last, 2):
            a[lane + 1], b[lane + 1] = _negated(make, a[lane]), b[lane] ^ (n % 2)
        yield "products that cancel", {**codes, "a": tuple(a), "b": tuple(b)}
    for _ in range(128):
        codes = {**make.random(ordinary=True)}
        wide = [make.any("a") for _ in codes["a"]]
        finite = [x if type(make.encodings["a"].decode(x)) is int else y for x, y in zip(wide, codes["a"], strict=True)]
        yield "exponents far apart", {**codes, "a": tuple(finite)}


# Corners of groups.


def _group_corners(make: Operands) -> Iterator[Case]:
    """Groups of zeros and of the largest elements, one element alone, scales at their ends, NaN, and cancellation."""
    inputs = {port.name: port for port in make.of.inputs}
    starts = _register_ends(make.of.register) if make.of.register else _specials(make, "c")
    ends = {name: _ends(make, name, to) for name, to in zip("ab", make.of.op.grouped, strict=True) if to is not None}
    for (a, b), c in product(product(ends["a"], ends["b"]), starts):
        yield "elements and scales at their ends", {**a, **b, "c": (c,), **make.drawn()}
    zero = {name: (0,) * inputs[name].count for name in "ab"}
    for lane in range(inputs["a"].count):
        codes = make.random(ordinary=True)
        alone = {name: tuple(code if n == lane else 0 for n, code in enumerate(codes[name])) for name in zero}
        yield "one product alone", {**codes, **alone}
    for n in range(64):
        codes = make.random(ordinary=True)
        dot = make.of.evaluate({**codes, "c": (0,)})
        if type(dot) is int:
            start = -dot + (dot >> n % 26)
            rounded = start if make.of.register else rounder(make.to["c"].settled, POINT)(start)
            yield "cancellation", {**codes, "c": (_known(make.of.code(rounded)),)}


def _ends(make: Operands, name: str, to: GroupConversion) -> list[dict[str, tuple[int, ...]]]:
    port, chosen = make.of.port(name), []
    usual = make.group(name, to, any_codes=False)
    largest, zeros = _largest_element(port, to), (0,) * port.count
    for elements in (zeros, (largest,) * port.count, (largest | _sign(port, to, largest),) * port.count, usual[name]):
        chosen.append({**usual, name: elements})
    for other in make.of.inputs:
        if other.name != name and other.name.startswith(f"{name}_"):
            high = {f"{name}_top": (127,)} if other.name.endswith("_exponent") else {}
            chosen += [{**usual, **high, other.name: (code,) * other.count} for code in _scale_ends(other)]
    if port.holds == SIGN_AND_MAGNITUDE:
        chosen.append({**usual, name: zeros, f"{name}_exponent": (_window(make.of, name),)})  # a group of NaN
    return chosen


def _window(of: Interface, name: str) -> int:
    """The exponent at the top of the window of block floating point."""
    return (1 << of.port(f"{name}_exponent").bits) - 1


def _scale_ends(port: Port) -> list[int]:
    if port.holds == "fp32":
        nan = [0x7FC00000] if port.name.endswith("_scale") else []  # that of a tensor is none
        return [0, 1, 0x00800000, 0x3F800000, 0x7F7FFFFF, *nan]
    if port.holds == "e8m0fnu":
        return [0, 1, 127, 253, 254, 255]
    if port.name.endswith("_top"):
        return [127, 0]
    return [0, (1 << port.bits) - 1] if port.name.endswith("_exponent") else [0, 1, 0x38, (1 << port.bits - 1) - 1]


def _largest_element(port: Port, to: GroupConversion) -> int:
    if to.format.single is None:
        return (1 << port.bits - 1) - 1
    most: Fraction | float = min(
        to.format.single.max_finite, to.format.most_units if to.format.name.startswith("int") else math.inf
    )
    return _known(Encoding(to.format.single).encode(int(most * (1 << POINT))))


def _sign(port: Port, to: GroupConversion, largest: int) -> int:
    """The bit that makes the largest element negative, where an element has a sign bit of its own."""
    signed = to.format.single is None or not to.format.single.has_minus_zero
    return 0 if signed and port.holds != SIGN_AND_MAGNITUDE else 1 << port.bits - 1
