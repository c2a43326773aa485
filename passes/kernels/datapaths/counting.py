# ruff: noqa: E501 - the long lines are MLIR text
"""Counting in micro-kernels: histograms of exponent differences (swamping), at a few instructions an addition.

The difference d = abs(exponent(p) - exponent(c)) of an addition becomes the word ``1 << min(d, 31)``, or 0 unless both
are finite and not zero. How often each bit of each lane was set is counted in planes, of which plane n has the bits of
weight 2^n: three words of weight 2^n are added to one of 2^n and one of 2^(n+1) (a carry-save adder). The low planes are in
registers; their carries are stored, and added to the high planes when there are many. Each task has such counters
(`task_words`), and the runtime adds them up in the end (runtime/src/counters.cpp).

Sampled are the steps of k with ``k % stride == (k // stride + offset) % stride``, in all outputs: a choice that depends
on nothing but k. One step of each run of `stride` is looked at, a place later from run to run, so that no period of the
reduction is met again and again.
"""

from __future__ import annotations

from numc.compiler.arithmetic.operators import SOFTWARE_DATAPATHS, Fma
from numc.passes.kernels.builder import APART, Code
from numc.passes.kernels.datapaths.chain import NOTHING, Drawn
from numc.passes.kernels.values.rounding import F64, emit_round

# The words of arguments that a counting micro-kernel takes besides where its block begins.
ARGUMENTS = {"%counts": "!llvm.ptr", "%stride": "i64", "%offset": "i64"}
LOW, PLANES = 4, 40  # low planes and high ones: a task may look at 2^44 additions in a lane
_MERGED = 64  # waiting carries that are added to the high planes at a time
NEVER = 1 << 62  # a stride so long that no step is looked at
_AVX512 = 16  # the width that means it


def task_words(width: int, waiting: int) -> int:
    """What a task counts in, in 32-bit words: low planes, high planes, how many carries wait, and those."""
    return (LOW + PLANES + 1 + waiting) * width


def waiting(fma: Fma, accumulators: int, steps: int) -> int:
    """How many carries wait at most: those of all `steps` of a block."""
    return -(-carries(fma, accumulators) * steps // _MERGED) * _MERGED


def carries(fma: Fma, accumulators: int) -> int:
    """How many carries one step of k has."""
    return -(-accumulators * additions(fma) // (1 << LOW))


def additions(fma: Fma) -> int:
    """How many additions p + c of one FMA are counted, or of one group of them; of intN and hardware operators none."""
    if fma.group is not None:
        return 0 if fma.group.sums_integers else 1
    if fma.datapath not in SOFTWARE_DATAPATHS:
        return 0
    return len(fma.terms) if fma.datapath == "fp32" else 1


def emit_additions(
    code: Code, a: list[str], b: list[str], c: str, fma: Fma, drawn: Drawn = NOTHING
) -> tuple[list[str], str]:
    """Append the words of the additions of one step of `fma`; returns their names, and that of the p that C is added to.

    p is the product in binary32. What the operator computes as well, LLVM does once.
    """
    if fma.datapath == "exact" and (len(fma.terms) > 1 or fma.product is not None):
        product = _exact_product(code, a, b, fma, drawn)
        return [_word(code, product, c)], product
    (i, j), *rest = fma.terms
    product = code.binary("mulf", a[i], b[j])
    words = []
    for i, j in rest:
        words.append(_word(code, code.binary("mulf", a[i], b[j]), product))
        product = code.fma(a[i], b[j], product)
    if fma.product is not None:
        product = emit_round(code, product, fma.product, noise=drawn[0])
    return [*words, _word(code, product, c)], product


def _exact_product(code: Code, a: list[str], b: list[str], fma: Fma, drawn: Drawn) -> str:
    """What the exact datapath adds to C, in binary32."""
    product = ""
    for i, j in reversed(fma.terms):
        x, y = (code.cast("extf", v, "f32", "f64") for v in (a[i], b[j]))
        product = code.fma(x, y, product, "f64") if product else code.binary("mulf", x, y, "f64")
    if fma.product is not None:
        product = emit_round(code, product, fma.product, F64, drawn[0])
    return code.cast("truncf", product, "f64", "f32")


def _word(code: Code, p: str, c: str) -> str:
    return _word_avx512(code, p, c) if code.width == _AVX512 else _word_of(code, p, c)


def _word_avx512(code: Code, p: str, c: str) -> str:
    """VGETEXPPS has infinities for zeros and infinities: a difference of these becomes -2^31, which shifts 1 out."""
    floats, ints = code.ty("f32"), code.ty("i32")
    every, current = code.llvm_constant(-1, "i16"), code.llvm_constant(4)

    def intrinsic(name: str, arguments: str, types: str, result: str) -> str:
        return code.op(f'llvm.call_intrinsic "llvm.x86.avx512.{name}"({arguments}) : ({types}) -> {result}')

    exponents = [
        intrinsic("mask.getexp.ps.512", f"{x}, {x}, {every}, {current}", f"{floats}, {floats}, i16, i32", floats)
        for x in (p, c)
    ]
    difference = code.binary("subf", *exponents)
    passed = code.int(0)
    number = intrinsic(
        "mask.cvtps2dq.512", f"{difference}, {passed}, {every}, {current}", f"{floats}, {ints}, i16, i32", ints
    )
    magnitude = code.op(f'"llvm.intr.abs"({number}) <{{is_int_min_poison = false}}> : ({ints}) -> {ints}')
    shift = code.binary("minsi", magnitude, code.int(31), "i32")
    return intrinsic("psllv.d.512", f"{code.int(1)}, {shift}", f"{ints}, {ints}", ints)


def _word_of(code: Code, p: str, c: str) -> str:
    exponents, found = [], []
    for x in (p, c):
        magnitude = code.binary("andi", code.cast("bitcast", x, "f32", "i32"), code.int(0x7FFFFFFF), "i32")
        # A subnormal number is as many units of 2^-149 as its encoding says.
        units = code.cast("bitcast", code.cast("sitofp", magnitude, "i32", "f32"), "f32", "i32")
        small = code.binary("subi", code.binary("shrui", units, code.int(23), "i32"), code.int(149), "i32")
        field = code.binary("shrui", magnitude, code.int(23), "i32")
        tiny = code.compare("slt", magnitude, code.int(1 << 23))
        exponents.append(code.select(tiny, small, field, "i32"))
        less_one = code.binary("subi", magnitude, code.int(1), "i32")
        found.append(code.compare("ult", less_one, code.int(0x7F7FFFFF)))
    difference = code.binary("subi", exponents[0], exponents[1], "i32")
    magnitude = code.binary("maxsi", difference, code.binary("subi", code.int(0), difference, "i32"), "i32")
    word = code.binary("shli", code.int(1), code.binary("minsi", magnitude, code.int(31), "i32"), "i32")
    return code.select(code.binary("andi", found[0], found[1], "i1"), word, code.int(0), "i32")


class Planes:
    """Planes, while code is appended to `code` that adds words to them.

    names: the planes. carries: the words that overflow, of twice the weight of the last plane.
    """

    def __init__(self, names: list[str], code: Code | None = None) -> None:
        self.names = list(names)
        self.code = code or Code()
        self.carries: list[str] = []
        self._waiting = [""] * len(names)

    def add(self, word: str, level: int = 0) -> None:
        """Add a word of weight ``2 ** level``."""
        if level == len(self.names):
            self.carries.append(word)
        elif not (other := self._waiting[level]):
            self._waiting[level] = word
        else:
            self._waiting[level] = ""
            self.names[level], carry = _full_adder(self.code, self.names[level], other, word)
            self.add(carry, level + 1)

    def finish(self) -> None:
        """Add the words that wait for another one."""
        for level, plane in enumerate(self.names):
            if word := self._waiting[level]:
                self._waiting[level] = ""
                self.names[level] = self.code.binary("xori", plane, word, "i32")
                self.add(self.code.binary("andi", plane, word, "i32"), level + 1)


def _full_adder(code: Code, a: str, b: str, c: str) -> tuple[str, str]:
    if code.width == _AVX512:
        kind = code.ty("i32")
        results = [
            code.op(
                f'llvm.call_intrinsic "llvm.x86.avx512.pternlog.d.512"({a}, {b}, {c}, {code.llvm_constant(table)}) : '
                f"({kind}, {kind}, {kind}, i32) -> {kind}"
            )
            for table in (0x96, 0xE8)
        ]
        return results[0], results[1]
    half = code.binary("xori", a, b, "i32")
    carry = code.binary("ori", code.binary("andi", a, b, "i32"), code.binary("andi", half, c, "i32"), "i32")
    return code.binary("xori", half, c, "i32"), carry


def loop_text(
    names: list[str],
    vec: str,
    bounds: tuple[str, str],
    plain: str,
    counting: tuple[str, list[str]],
    planes: Planes,
) -> str:
    """The loop over the k between two names that looks at sampled steps, from ``<name>_in`` to ``<name>_out``.

    plain: the loop from ``%pos_w`` to ``%look`` that does not, from ``<name>_w`` to ``<name>_q``. counting: the step at
    ``%i`` that does, from ``<name>_q``, and what the accumulators become; planes: after it, from ``%plane0_w`` ... on.
    """
    first, end = bounds
    width = int(vec.removeprefix("vector<").partition("x")[0])
    ivec = f"vector<{width}xi32>"

    def access(place: int) -> str:
        return f"llvm.getelementptr %counts[{place * width}] : (!llvm.ptr) -> !llvm.ptr, f32"

    load = "\n".join(
        f"""    %plane{n}_at = {access(n)}
    %plane{n}_in = llvm.load %plane{n}_at {{alignment = 4 : i64}} : !llvm.ptr -> {ivec}"""
        for n in range(LOW)
    )
    store = "\n".join(
        f"    llvm.store %plane{n}_out, %plane{n}_at {{alignment = 4 : i64}} : {ivec}, !llvm.ptr" for n in range(LOW)
    )
    keep = "\n".join(
        f"""        %carry{n}_at = llvm.getelementptr %waiting_at[{(LOW + PLANES + 1 + n) * width}] : (!llvm.ptr) -> !llvm.ptr, f32
        llvm.store {word}, %carry{n}_at {{alignment = 4 : i64}} : {ivec}, !llvm.ptr"""
        for n, word in enumerate(planes.carries)
    )
    body, accs = counting
    state = [*names, *(f"%plane{n}" for n in range(LOW)), "%waiting"]
    kinds = [vec] * len(names) + [ivec] * LOW + ["i64"]
    values, types = ", ".join(kinds), ", ".join([*["i64"] * 3, *kinds])

    def listed(suffix: str, *head: str) -> str:
        return ", ".join(n + suffix for n in (*head, *state))

    counters = ("%pos", "%base", "%place")
    start = [first, "%base_0", "%place_0", *(n + "_in" for n in state)]
    carried = ", ".join(f"{n}_c = {v}" for n, v in zip((*counters, *state), start, strict=True))
    arguments = ", ".join(f"{n}_w: {t}" for n, t in zip((*counters, *state), types.split(", "), strict=True))
    return f"""    %k_one = arith.constant 1 : i64
    %k_zero = arith.constant 0 : i64
    %k_first = arith.addi %k0, {first} : i64
    %run_0 = arith.divui %k_first, %stride : i64
    %shifted_0 = arith.addi %run_0, %offset : i64
    %place_a = arith.remui %shifted_0, %stride : i64
    %begin_a = arith.muli %run_0, %stride : i64
    %look_a = arith.addi %begin_a, %place_a : i64
    %is_past = arith.cmpi ult, %look_a, %k_first : i64
    %place_b = arith.addi %place_a, %k_one : i64
    %wraps_b = arith.cmpi eq, %place_b, %stride : i64
    %place_f = arith.select %wraps_b, %k_zero, %place_b : i64
    %begin_f = arith.addi %begin_a, %stride : i64
    %place_0 = arith.select %is_past, %place_f, %place_a : i64
    %begin_0 = arith.select %is_past, %begin_f, %begin_a : i64
    %base_0 = arith.subi %begin_0, %k0 : i64
{load}
    %number_at = {access(LOW + PLANES)}
    %waiting_in = llvm.load %number_at : !llvm.ptr -> i64
    %words = arith.constant {width} : i64
    %more = arith.constant {len(planes.carries)} : i64
    {listed("_out", *counters)} = scf.while ({carried}) : ({types}) -> ({types}) {{
      %k_goes_on = arith.cmpi slt, %pos_c, {end} : i64
      scf.condition(%k_goes_on) {listed("_c", *counters)} : {types}
    }} do {{
    ^bb0({arguments}):
      %sampled = arith.addi %base_w, %place_w : i64
      %look = arith.minsi %sampled, {end} : i64
{plain}
      %looks = arith.cmpi slt, %look, {end} : i64
      {listed("_n")} = scf.if %looks -> ({values}) {{
        %i = arith.addi %look, %k_zero : i64
{body}
        %waiting_place = arith.muli %waiting_w, %words : i64
        %waiting_at = llvm.getelementptr %counts[%waiting_place] : (!llvm.ptr, i64) -> !llvm.ptr, f32
{keep}
        %waiting_a = arith.addi %waiting_w, %more : i64
        scf.yield {", ".join([*accs, *planes.names, "%waiting_a"])} : {values}
      }} else {{
        scf.yield {", ".join([*(n + "_q" for n in names), *(n + "_w" for n in state[len(names) :])])} : {values}
      }}
      %pos_n = arith.addi %look, %k_one : i64
      %base_n = arith.addi %base_w, %stride : i64
      %place_m = arith.addi %place_w, %k_one : i64
      %wraps = arith.cmpi eq, %place_m, %stride : i64
      %place_n = arith.select %wraps, %k_zero, %place_m : i64
      scf.yield {listed("_n", *counters)} : {types}
    }}
    %never = arith.constant {NEVER} : i64
    %counted = arith.cmpi slt, %stride, %never : i64
    scf.if %counted {{
{store}
      llvm.store %waiting_out, %number_at : i64, !llvm.ptr
    }}"""


def group_text(sums: list[tuple[str, str]], width: int) -> str:
    """The addition of a group to each accumulator, counted if anything is: pairs of p and c. All are looked at."""
    code = Code(width, "z")
    ivec = code.ty("i32")

    def at(place: int) -> str:
        return code.address("%counts", place * width)

    def load(address: str) -> str:
        return code.op(f"llvm.load {address} {{alignment = 4 : i64}} : !llvm.ptr -> {ivec}")

    def store(value: str, address: str) -> None:
        code.lines.append(f"llvm.store {value}, {address} {{alignment = 4 : i64}} : {ivec}, !llvm.ptr")

    places = [at(n) for n in range(LOW)]
    planes = Planes([load(place) for place in places], code)
    for p, c in sums:
        planes.add(_word(code, p, c))
    planes.finish()
    for name, place in zip(planes.names, places, strict=True):
        store(name, place)
    number = at(LOW + PLANES)
    waiting = code.op(f"llvm.load {number} : !llvm.ptr -> i64")
    scalar = Code(0, code.prefix + "x")
    first = scalar.binary("muli", waiting, scalar.int(width, "i64"), "i64")
    after = scalar.binary("addi", waiting, scalar.int(len(planes.carries), "i64"), "i64")
    code.lines += [*scalar.lines, f"llvm.store {after}, {number} : i64, !llvm.ptr"]
    base = code.address("%counts", first)
    for n, word in enumerate(planes.carries):
        store(word, code.address(base, (LOW + PLANES + 1 + n) * width))
    return f"""      %never = arith.constant {NEVER} : i64
      %counted = arith.cmpi slt, %stride, %never : i64
      scf.if %counted {{
{code.text("        ")}
      }}"""


def room_text(merge: str, width: int, carries: int, waiting: int) -> str:
    """What makes room for the carries of a block of k, if there is too little."""
    return f"""    %room_at = llvm.getelementptr %counts[{(LOW + PLANES) * width}] : (!llvm.ptr) -> !llvm.ptr, f32
    %room_none = arith.constant 0 : i64
    %room_taken = llvm.load %room_at : !llvm.ptr -> i64
    %room_each = arith.constant {carries} : i64
    %room_needed = arith.muli %kc, %room_each : i64
    %room_all = arith.constant {waiting} : i64
    %room_after = arith.addi %room_taken, %room_needed : i64
    %room_small = arith.cmpi sgt, %room_after, %room_all : i64
    %room_never = arith.constant {NEVER} : i64
    %room_counted = arith.cmpi slt, %stride, %room_never : i64
    %room_wanted = arith.andi %room_small, %room_counted : i1
    scf.if %room_wanted {{
      func.call @{merge}(%counts) : (!llvm.ptr) -> ()
    }}"""


def merge_text(name: str, width: int) -> str:
    """The function that adds the waiting carries to the high planes: there is none of them afterwards."""
    vec, first = f"vector<{width}xi32>", LOW + PLANES + 1
    size = _MERGED.bit_length()
    words = Code(width, "m")
    none = words.int(0)
    low = Planes([none] * size, words)
    for n in range(_MERGED):
        at = words.address("%words", n * width)
        low.add(words.op(f"llvm.load {at} {{alignment = 4 : i64}} : !llvm.ptr -> {vec}"))
        words.lines.append(f"llvm.store {none}, {at} {{alignment = 4 : i64}} : {vec}, !llvm.ptr")
    low.finish()
    carry = none
    for n in range(PLANES):
        at = words.address("%counts", (LOW + n) * width)
        plane = words.op(f"llvm.load {at} {{alignment = 4 : i64}} : !llvm.ptr -> {vec}")
        total, carry = _full_adder(words, plane, low.names[n] if n < size else none, carry)
        words.lines.append(f"llvm.store {total}, {at} {{alignment = 4 : i64}} : {vec}, !llvm.ptr")
    return f"""
func.func private @{name}(%counts: !llvm.ptr) {APART} {{
    %c0 = arith.constant 0 : i64
    %step = arith.constant {_MERGED} : i64
    %width = arith.constant {width} : i64
    %at = llvm.getelementptr %counts[{(LOW + PLANES) * width}] : (!llvm.ptr) -> !llvm.ptr, f32
    %waiting = llvm.load %at : !llvm.ptr -> i64
    llvm.store %c0, %at : i64, !llvm.ptr
    %first = llvm.getelementptr %counts[{first * width}] : (!llvm.ptr) -> !llvm.ptr, f32
    scf.for %from = %c0 to %waiting step %step : i64 {{
      %place = arith.muli %from, %width : i64
      %words = llvm.getelementptr %first[%place] : (!llvm.ptr, i64) -> !llvm.ptr, f32
{words.text("      ")}
    }}
    return
}}"""


def in_order(code: Code, values: list[str]) -> list[str]:
    """Append a barrier: what uses the results is computed after `values`. LLVM spills registers if it is left free."""
    if code.width != _AVX512:
        return values
    kind = code.ty("f32")
    constraints = ",".join(["=v"] * len(values) + [str(n) for n in range(len(values))])
    struct = f"!llvm.struct<({', '.join([kind] * len(values))})>"
    found = code.op(
        f'llvm.inline_asm has_side_effects asm_dialect = att "", "{constraints}" {", ".join(values)} : '
        f"({', '.join([kind] * len(values))}) -> {struct}"
    )
    return [code.op(f"llvm.extractvalue {found}[{n}] : {struct}") for n in range(len(values))]
