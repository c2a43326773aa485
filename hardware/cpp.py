"""A circuit as a C++17 header without dependencies.

Every number is held in two's complement in an unsigned type, so that nothing overflows: of 64 bits, of 128
(``unsigned __int128``), or of as many words as it needs (`Wide`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numc.hardware.emission import Plan, identifier
from numc.numerics.circuits import Circuit, Number

_HEAD = """\
// {title}
// Written by numc {version}. Do not edit: `numc model` writes it again.
#ifndef {guard}
#define {guard}

#include <cstdint>

namespace {space} {{

"""
_SUPPORT = """\
// {about}
using u64 = std::uint64_t;
using u128 = unsigned __int128;

template <int N> struct Wide {  // N words, the lowest one first, in two's complement
  u64 word[N];
};

template <class T> struct Bits { static constexpr int value = 8 * sizeof(T); };

// Words of any type, with the sign where there are no more.
template <class T> inline u64 word_of(const T &x, int n, bool negative) {
  if (n >= Bits<T>::value / 64) return negative ? ~u64(0) : 0;
  return n < 0 ? 0 : u64(x >> (64 * n));
}
template <int M> inline u64 word_of(const Wide<M> &x, int n, bool negative) {
  if (n >= M) return negative ? ~u64(0) : 0;
  return n < 0 ? 0 : x.word[n];
}
template <class T> inline bool top_bit(const T &x) { return x >> (Bits<T>::value - 1) & 1; }
template <int M> inline bool top_bit(const Wide<M> &x) { return x.word[M - 1] >> 63; }

// To<T>::of(x, is_signed) holds x in the type T.
template <class T> struct To {
  template <class F> static T of(const F &x, bool is_signed) {
    bool negative = is_signed && top_bit(x);
    T found = 0;
    for (int n = Bits<T>::value / 64 - 1; n >= 0; --n)
      found = (Bits<T>::value > 64 ? found << (Bits<T>::value / 2) : 0) | T(word_of(x, n, negative));
    return found;
  }
};
template <int N> struct To<Wide<N>> {
  template <class F> static Wide<N> of(const F &x, bool is_signed) {
    bool negative = is_signed && top_bit(x);
    Wide<N> found;
    for (int n = 0; n < N; ++n) found.word[n] = word_of(x, n, negative);
    return found;
  }
};

template <int N> inline Wide<N> operator+(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> sum;
  u64 carry = 0;
  for (int n = 0; n < N; ++n) {
    u128 each = u128(x.word[n]) + y.word[n] + carry;
    sum.word[n] = u64(each);
    carry = u64(each >> 64);
  }
  return sum;
}
template <int N> inline Wide<N> operator-(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> difference;
  u64 borrow = 0;
  for (int n = 0; n < N; ++n) {
    u128 each = u128(x.word[n]) - y.word[n] - borrow;
    difference.word[n] = u64(each);
    borrow = u64(each >> 64) & 1;
  }
  return difference;
}
template <int N> inline Wide<N> operator*(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> product = {};
  for (int i = 0; i < N; ++i) {
    u64 carry = 0;
    for (int j = 0; i + j < N; ++j) {
      u128 each = u128(x.word[i]) * y.word[j] + product.word[i + j] + carry;
      product.word[i + j] = u64(each);
      carry = u64(each >> 64);
    }
  }
  return product;
}
template <int N> inline Wide<N> operator&(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> both;
  for (int n = 0; n < N; ++n) both.word[n] = x.word[n] & y.word[n];
  return both;
}
template <int N> inline Wide<N> operator|(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> either;
  for (int n = 0; n < N; ++n) either.word[n] = x.word[n] | y.word[n];
  return either;
}
template <int N> inline Wide<N> operator^(const Wide<N> &x, const Wide<N> &y) {
  Wide<N> one;
  for (int n = 0; n < N; ++n) one.word[n] = x.word[n] ^ y.word[n];
  return one;
}
template <int N> inline bool operator==(const Wide<N> &x, const Wide<N> &y) {
  u64 differ = 0;
  for (int n = 0; n < N; ++n) differ |= x.word[n] ^ y.word[n];
  return differ == 0;
}

template <class T> inline T up(const T &x, int bits) { return bits < Bits<T>::value ? T(x << bits) : T(0); }
template <int N> inline Wide<N> up(const Wide<N> &x, int bits) {
  Wide<N> found;
  for (int n = 0; n < N; ++n) {
    u64 high = word_of(x, n - bits / 64, false), low = word_of(x, n - bits / 64 - 1, false);
    found.word[n] = bits % 64 ? high << bits % 64 | low >> (64 - bits % 64) : high;
  }
  return found;
}
template <class T> inline T down(const T &x, int bits, bool is_signed) {
  bool negative = is_signed && top_bit(x);
  T all = negative ? T(~T(0)) : T(0);
  if (bits >= Bits<T>::value) return all;
  return bits == 0 ? x : T(x >> bits | all << (Bits<T>::value - bits));
}
template <int N> inline Wide<N> down(const Wide<N> &x, int bits, bool is_signed) {
  bool negative = is_signed && top_bit(x);
  Wide<N> found;
  for (int n = 0; n < N; ++n) {
    u64 low = word_of(x, n + bits / 64, negative), high = word_of(x, n + bits / 64 + 1, negative);
    found.word[n] = bits % 64 ? low >> bits % 64 | high << (64 - bits % 64) : low;
  }
  return found;
}
template <class T> inline bool less(const T &x, const T &y, bool is_signed) {
  T flip = is_signed ? T(T(1) << (Bits<T>::value - 1)) : T(0);
  return (x ^ flip) < (y ^ flip);
}
template <int N> inline bool less(const Wide<N> &x, const Wide<N> &y, bool is_signed) {
  u64 flip = is_signed ? u64(1) << 63 : 0;
  for (int n = N - 1; n >= 0; --n, flip = 0)
    if (x.word[n] != y.word[n]) return (x.word[n] ^ flip) < (y.word[n] ^ flip);
  return false;
}
template <class T> inline int leading_zeros(const T &x, int width) {
  int bits = 0;
  for (int n = Bits<T>::value / 64 - 1; n >= 0 && bits == 0; --n)
    for (u64 word = word_of(x, n, false); word; word >>= 1) bits = bits ? bits + 1 : 64 * n + 1;
  return width - bits;
}
template <int N> inline int leading_zeros(const Wide<N> &x, int width) {
  for (int n = N - 1; n >= 0; --n)
    if (x.word[n]) return width - 64 * n - 64 + leading_zeros(x.word[n], 64);
  return width;
}
template <int N> inline Wide<N> load(const std::uint32_t *words) {  // as DPI-C passes packed vectors
  Wide<N> found;
  for (int n = 0; n < N; ++n) found.word[n] = words[2 * n] | u64(words[2 * n + 1]) << 32;
  return found;
}
"""


@dataclass(frozen=True)
class Argument:
    """An argument of a function of the header. wide: it is passed as words of 32 bits, the lowest one first."""

    name: str
    width: int
    holds: str

    @property
    def wide(self) -> bool:
        return self.width > 64

    def declaration(self) -> str:
        """Its declaration."""
        return f"const std::uint32_t *{self.name}" if self.wide else f"std::uint64_t {self.name}"


def header(title: str, space: str, version: str, functions: Sequence[str]) -> str:
    """Return a whole header of functions in a namespace."""
    guard = f"NUMC_{identifier(space).upper()}_H"
    head = _HEAD.format(title=title, version=version, guard=guard, space=space)
    about = "Exact arithmetic of whole numbers of fixed widths, in two's complement."
    body = "\n".join(functions)
    return f"{head}{_SUPPORT.replace('{about}', about)}\n{body}\n}}  // namespace {space}\n\n#endif\n"


def function(circuit: Circuit, name: str, arguments: Sequence[Argument], about: Iterable[str]) -> str:
    """Return a function that computes a circuit of one output of up to 64 bits."""
    writer = _Writer(Plan(circuit))
    lines = [f"// {line}" for line in about]
    parameters = ", ".join(argument.declaration() for argument in arguments)
    lines.append(f"inline std::uint64_t {name}({parameters}) {{")
    for argument in arguments:
        number = circuit.inputs[argument.name]
        if argument.wide:
            lines.append(f"  const auto {argument.name}_bits = {writer.loaded(argument.name, number)};")
    lines += [f"  {line}" for line in writer.lines()]
    (output,) = circuit.outputs.values()
    lines.append(f"  return {writer.held(output, 'u64')};")
    return "\n".join([*lines, "}", ""])


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def lines(self) -> Iterable[str]:
        plan = self.plan
        for number in plan.numbers:
            line = f"const {self.type_of(number)} {plan.names[id(number)]} = {self.expression(number)};"
            comment = plan.comment(number)
            yield f"{line}  // {comment}" if comment else line

    def loaded(self, name: str, number: Number) -> str:
        """An input in words; those of an odd number of 32 bits end with a zero that the caller leaves out."""
        words, to = -(-number.width // 32), self.type_of(number)
        whole = f"load<{words // 2}>({name})"
        if words % 2 == 0:
            return f"To<{to}>::of({whole}, false)"
        last = f"up(To<{to}>::of(u64({name}[{words - 1}]), false), {32 * (words - 1)})"
        return f"{last} | To<{to}>::of({whole}, false)"

    def type_of(self, number: Number) -> str:
        return _type(self.plan.width(number))

    def name(self, number: Number) -> str:
        wide = number.op == "input" and number.width > 64
        return f"{self.plan.names[id(number)]}_bits" if wide else self.plan.names[id(number)]

    def held(self, number: Number, to: str) -> str:
        """A number in a type: its sign goes on above it."""
        if number.op == "constant":
            return _constant(int(number.low), to)
        if self.type_of(number) == to:
            return self.name(number)
        return f"To<{to}>::of({self.name(number)}, {_bool(self.plan.signed(number))})"

    def expression(self, number: Number) -> str:
        op, args, to = number.op, number.args, self.type_of(number)
        if op in ("add", "sub", "mul", "and", "or", "xor"):
            sign = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}[op]
            return " ".join([self.held(args[0], to), sign, self.held(args[1], to)])
        if op in ("lt", "le", "eq", "ne"):
            return self.comparison(op, *args)
        if op == "select":
            return f"{self.truth(args[0])} ? {self.held(args[1], to)} : {self.held(args[2], to)}"
        if op in ("min", "max"):
            x, y = args if op == "min" else args[::-1]
            return f"{self.comparison('lt', x, y)} ? {self.held(args[0], to)} : {self.held(args[1], to)}"
        if op == "shl":
            return f"up({self.held(args[0], to)}, {self.amount(args[1])})"
        if op == "shr":
            own = self.type_of(args[0])
            shifted = f"down({self.held(args[0], own)}, {self.amount(args[1])}, {_bool(self.plan.signed(args[0]))})"
            return shifted if own == to else f"To<{to}>::of({shifted}, {_bool(self.plan.signed(args[0]))})"
        if op == "lzc":
            return f"u64(leading_zeros({self.held(args[0], self.type_of(args[0]))}, {args[1].low}))"
        if op == "lookup":
            return self.table(number)
        assert op == "within", op
        return self.held(args[0], to)

    def comparison(self, op: str, x: Number, y: Number) -> str:
        is_signed = self.plan.signed(x) or self.plan.signed(y)
        to = _type(max(self.plan.width(each) + (is_signed and not self.plan.signed(each)) for each in (x, y)))
        left, right = self.held(x, to), self.held(y, to)
        texts = {
            "lt": f"less({left}, {right}, {_bool(is_signed)})",
            "le": f"!less({right}, {left}, {_bool(is_signed)})",
            "eq": f"({left} == {right})",
            "ne": f"!({left} == {right})",
        }
        return texts[op]

    def truth(self, number: Number) -> str:
        if self.type_of(number) == "u64":
            return f"({self.name(number)} != 0)" if number.high > 1 or number.low < 0 else self.name(number)
        return f"!({self.name(number)} == {_constant(0, self.type_of(number))})"

    def amount(self, number: Number) -> str:
        return str(number.low) if number.is_constant else f"int({self.held(number, 'u64')})"

    def table(self, number: Number) -> str:
        assert isinstance(number.data, tuple)
        to = self.type_of(number)
        values = ", ".join(_constant(value, to) for value in number.data)
        return (
            f"[](u64 n) {{ static const {to} table[] = {{{values}}}; return table[n]; }}"
            f"({self.held(number.args[0], 'u64')})"
        )


def _type(width: int) -> str:
    return "u64" if width <= 64 else "u128" if width <= 128 else f"Wide<{-(-width // 64)}>"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _constant(value: int, to: str) -> str:
    """A number in two's complement in a type."""
    if to == "u64":
        return f"u64({value})" if 0 <= value < 10 else f"u64({value & (1 << 64) - 1:#x})"
    if to == "u128":
        word = value & (1 << 128) - 1
        return f"(u128({word >> 64:#x}) << 64 | u64({word & (1 << 64) - 1:#x}))"
    count = int(to[5:-1])
    words = [f"u64({value >> 64 * n & (1 << 64) - 1:#x})" for n in range(count)]
    return f"{to}{{{{{', '.join(words)}}}}}"
