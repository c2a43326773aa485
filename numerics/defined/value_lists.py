"""``numc.format_of``: a list of values becomes a format that texts can name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from numc.numerics.defined.naming import checked_name, version_of
from numc.numerics.formats.kinds.table import DEFINED, Table
from numc.numerics.grammar import forget, parse_any_conversion
from numc.numerics.operators import DEFINED as OPERATORS
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened
from numc.support.toml import parsed

_LONGEST = 1 << 22  # characters of a file: more than 65536 values take


@in_default_environment
def format_of(
    values: Iterable[float] | str | os.PathLike[str], *, name: str | None = None, round: str | None = None
) -> str:
    """Make a format of its values, and return its text: the name, which is one wherever formats have texts.

    values: binary32 numbers in the order of their codes, 2 to 65536 of them, none twice, one of them 0; a NaN may be
    among them. Or a TOML file with ``name``, ``values`` and, if it is not rne, ``round``. round: the rounding of a text
    without one; to nearest, a tie goes to the even code.

    Numbers beyond the largest value become that value. Posits, takums, logarithmic numbers and codebooks are such
    lists. Raises NumcError for a list that is none, for a name that numc has for something else, and for a file that is
    not readable.
    """
    if isinstance(values, str | os.PathLike):
        own_name, values, own_rounding = _from_file(os.fspath(values))
        name, round = name or own_name, round or own_rounding
    called = checked_name("format", name, "takum8", OPERATORS)
    _check_text(called)
    numbers = tuple(_number(called, value) for value in values)
    table = Table(numbers, f"{called}#{version_of(repr((numbers, round)))}", round or "rne")
    if 0 not in numbers:
        raise NumcError(
            f"format '{called}': no zero among {len(numbers)} values, which padding and empty sums are: want 0 in the "
            "list; only a codebook for operands, table(v,w,...), goes without"
        )
    DEFINED[called] = table
    forget()
    return called


def _from_file(path: str) -> tuple[str, list[float], str | None]:
    what = f"format file {quoted(path)}"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
        table = parsed(text)
    except OSError as error:
        raise NumcError(f"{what}: {error.strerror or error}") from None
    except ValueError as error:  # what is no UTF-8 or no TOML
        raise NumcError(f"{what}: not TOML: {shortened(error, 200)}") from None
    want = 'want name = "...", values = [...] and, if it is not rne, round = "..."'
    unknown = [key for key in table if key not in ("name", "values", "round")]
    if unknown:
        raise NumcError(f"{what}: unknown key {quoted(unknown[0])}: {want}")
    name, values, rounding = table.get("name"), table.get("values"), table.get("round")
    if not isinstance(name, str) or not isinstance(values, list) or not isinstance(rounding, str | None):
        raise NumcError(f"{what}: {want}")
    return name, values, rounding


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise NumcError(
            f"format '{name}': {shortened(value)} is no finite float32 number: want those, and nan"
        ) from None


def _check_text(name: str) -> None:
    """Raise NumcError for a name that is the text of a format of numc, as e5m6 is."""
    if name in DEFINED:
        return
    try:
        parse_any_conversion(name)
    except NumcError:
        return
    raise NumcError(f"format '{name}': numc has a format of that name, want another one: name='my_{name}'")
