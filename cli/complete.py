"""Names that a shell completes: of operators, formats and policies, where options take them."""

from __future__ import annotations

import re

import click


def operators(_: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the operators whose names begin with what was typed."""
    from numc.numerics.kinds import GROUP_FORMATS
    from numc.numerics.operators import FMAS
    from numc.numerics.units import UNITS

    last = re.split("[,=]", begun)[-1] if option.multiple else begun  # compare takes several, which may have names
    before = begun[: len(begun) - len(last)]
    return [before + name for name in (*FMAS, *UNITS, *GROUP_FORMATS) if name.startswith(last)]


def formats(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the formats of single values whose names begin with what was typed."""
    from numc.numerics.formats import FORMATS

    return [name for name in FORMATS if name.startswith(begun)]
