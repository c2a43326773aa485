"""The arithmetics of a recipe: how they are given, and the texts that name them in histories and checkpoints."""

from __future__ import annotations

from numc.numerics.policy.load import arithmetic
from numc.numerics.policy.policy import Policy
from numc.numerics.policy.presets import Arithmetic
from numc.support.arguments import checked
from numc.support.errors import NumcError, quoted

Given = str | Policy | Arithmetic
"""An arithmetic as a recipe takes it: a text, see `named`, or an object."""


def named(given: Given) -> tuple[str, Arithmetic]:
    """Return an arithmetic with its name, a text that gives the same arithmetic again.

    given: a preset or an operator, perhaps with others for roles, ``bf16_1_1 with update=fp32 norm=fp32``; the text of
    a policy; or an object. Raises NumcError for anything else.
    """
    want = "a preset, an operator, such a text with roles, or a policy"
    checked(given, "the arithmetic of a recipe", (str, Policy, Arithmetic), want)
    if isinstance(given, Policy):
        return _on_one_line(given), Arithmetic(given=given)
    if isinstance(given, Arithmetic):
        return _on_one_line(given.policy()), given
    if "\n" in given or ";" in given or given.lstrip().startswith(("default ", "role ", "layer ", "op ")):
        return " ".join(given.split("\n")) if ";" in given else given, arithmetic(policy=given)
    name, _, parts = (part.strip() for part in given.partition(" with "))
    roles: dict[str, str] = {}
    for part in parts.split():
        role, equals, value = part.partition("=")
        if not equals or role in roles:
            raise NumcError(
                f"arithmetic {quoted(given)}: got {quoted(part)} after 'with', want ROLE=OPERATOR, each role once"
            )
        roles[role] = value
    return given, arithmetic(name, **roles)


def _on_one_line(policy: Policy) -> str:
    return "; ".join(line for line in str(policy).splitlines() if line.strip())
