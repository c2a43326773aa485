"""Where elements of a contraction's operands are, as the text of kernels: indices along dimensions, and addresses."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.loop_kernels import Size
from numc.passes.plan.contraction import Operand


def indices(w: Writing, name: str, dims: Sequence[int], sizes: Sequence[Size], names: dict[int, str]) -> None:
    """Append the index along each of `dims`, of which `name` numbers the combinations; `names` receives theirs."""
    rest = name
    for d in reversed(dims[1:]):
        size = sizes[d] if isinstance(sizes[d], int) else w.size(*sizes[d])  # type: ignore[misc]
        names[d] = w.let(f"{rest} % {size}", "d")
        rest = w.let(f"{rest} // {size}", "q")
    if dims:
        names[dims[0]] = rest


def terms(w: Writing, operand: Operand, dims: Sequence[int], names: dict[int, str]) -> list[str]:
    """The terms that indices along `dims` add to the address of an element."""
    added = []
    for n, (coefficients, _) in enumerate(operand.places):
        for d in dims:
            if d in coefficients:
                stride = w.stride(operand.value, n)
                factor = stride * coefficients[d] if isinstance(stride, int) else f"{stride} * {coefficients[d]}"
                added.append(f"{names[d]} * {factor}" if factor != 1 else names[d])
    return added


def start(w: Writing, operand: Operand) -> list[str]:
    """The terms of the address of an element that depend on no index."""
    return [f"{w.stride(operand.value, n)} * {begin}" for n, (_, begin) in enumerate(operand.places) if begin]


def element_terms(
    w: Writing, out: Operand, dims: Sequence[int], sizes: Sequence[Size], names: dict[int, str]
) -> list[str]:
    """The terms that indices along `dims` add to the row-major index of an output's element, which draws go by."""
    added, stride = [], "1"
    for coefficients, _ in reversed(out.places):
        (d,) = coefficients
        if d in dims:
            added.append(f"{names[d]} * {stride}")
        size = sizes[d] if isinstance(sizes[d], int) else w.size(*sizes[d])  # type: ignore[misc]
        stride = f"{stride} * {size}"
    return added


def sum_of(terms: Sequence[str], zero: str) -> str:
    """Their sum; of none, a zero of the shape of `zero`."""
    return " + ".join(terms) or f"{zero} * 0"
