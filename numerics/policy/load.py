"""The ways to name an arithmetic: the text of a policy, its file, a preset, or operators by role."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path

from numc.numerics.grammar import parse_fma
from numc.numerics.policy.layer import ROLES
from numc.numerics.policy.ops import parse_ops
from numc.numerics.policy.policy import LONGEST, Policy
from numc.numerics.policy.presets import PRESETS, Arithmetic, Given
from numc.support.arguments import checked, checked_text
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.files import checked_path

_STATEMENT = re.compile(r"\s*(#|(format|fma|default|layer|op|role)\s)")


def load_policy(given: str | os.PathLike[str] | Policy) -> Policy:
    """Return a policy given as such, as its text, as the name of a file, or as the name of a preset.

    Raises NumcError if there is no such file or preset, or if the text is not a policy.
    """
    if isinstance(given, Policy):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise NumcError(f"policy: got {type(given).__name__}, want a text, the name of a file, or a preset")
    if isinstance(given, str) and ("\n" in given or _STATEMENT.match(given) or _is_text(given)):
        return _parsed(given)
    if isinstance(given, str) and given in PRESETS and not os.path.isfile(given):
        return arithmetic(given).policy()
    path = checked_path(given)
    name = str(given)
    try:
        text = _read(path) if name.strip() else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise _no_policy(name, f"{reason}{_meant(name)}") from None
    policy = _parsed(text, name)
    if not policy.definitions and not policy.rules:
        raise _no_policy(name, "has no rule in it")
    return policy


def _parsed(text: str, name: str = "policy") -> Policy:
    from numc.numerics.policy.text import parse_policy  # its parser takes long to import

    return parse_policy(text, name)


def _read(path: Path) -> str:
    """Return the text of a file, or so much of it that the parser sees that it is too long."""
    with open(path, encoding="utf-8-sig") as file:
        return file.read(LONGEST + 1)


def _no_policy(name: str, reason: str) -> NumcError:
    return NumcError(
        f"policy {quoted(name)}: {reason}: want a file, the text of a policy, or a preset: {', '.join(PRESETS)}"
    )


def _meant(name: str) -> str:
    """Return a hint for the name of a file that cannot be read."""
    with contextlib.suppress(NumcError):
        return f" (the operator would be 'default fma = {parse_fma(name)}')"
    return did_you_mean(name, PRESETS)


def _is_text(given: str) -> bool:
    """Whether a text looks like a rule, possibly a wrong one, and is not the name of a file."""
    return any(c in given.strip() for c in " \t=") and not os.path.isfile(given)


def arithmetic(name: str | Arithmetic = "fp32", /, *, respect_dtypes: object = None, **given: Given) -> Arithmetic:
    """Return the arithmetic of a preset or of an FMA operator for everything, changed by what is `given`.

    respect_dtypes: whether what tensors of narrow dtypes store is rounded to these; None: as `name` has it.

    given: ``fma``, ``ops`` and roles. The value of a role is an operator, or a pair of an operator and the format of
    other operations; with an operator alone, that format is `ops`, or fp32 if the operator is fp32. Or ``policy``
    alone: see `load_policy`.
    Raises NumcError for an unknown name or role, or for a policy beside other arguments.
    """
    if respect_dtypes is None:
        respect_dtypes = name.respect_dtypes if isinstance(name, Arithmetic) else True
    plain = replace(name, respect_dtypes=True) if isinstance(name, Arithmetic) else name
    respected = bool(checked(respect_dtypes, "respect_dtypes", bool, "True or False"))
    return replace(_operators(plain, given), respect_dtypes=respected)


def _operators(name: str | Arithmetic, given: dict[str, Given]) -> Arithmetic:
    """Return the arithmetic of `arithmetic` with the dtypes respected."""
    if (policy := given.pop("policy", None)) is not None:
        if given or name not in ("fp32", Arithmetic()):
            raise NumcError("a policy says what every operation computes in: leave operators, formats and roles out")
        return Arithmetic(given=load_policy(policy))  # type: ignore[arg-type]
    if isinstance(name, Arithmetic) and name.given is not None:
        if given:
            raise NumcError("a policy says what every operation computes in: leave operators, formats and roles out")
        return name
    if isinstance(name, Arithmetic):
        chosen: dict[str, Given] = {"fma": name.fma, "ops": name.ops, **{r: (f, o) for r, f, o in name.roles}}
    elif isinstance(name, str):
        chosen = dict(PRESETS[name]) if name in PRESETS else {"fma": name}
        if (text := chosen.get("policy")) is not None:
            if given:
                raise NumcError(f"preset {quoted(name)}: is a policy: leave {', '.join(given)} out, or give a policy")
            return Arithmetic(given=_parsed(str(text), name))
    else:
        raise NumcError(f"arithmetic: got {type(name).__name__}, want the name of a preset or an operator")
    for key, value in given.items():
        if key not in ("fma", "ops", *ROLES):
            raise NumcError(f"unknown role {quoted(key)}{did_you_mean(key, ROLES)}: want fma, ops, {', '.join(ROLES)}")
        if value is not None:
            chosen[key] = value
    fma, ops = (chosen.pop(key, "fp32") for key in ("fma", "ops"))
    if not isinstance(fma, str) or not isinstance(ops, str):
        raise NumcError("fma and ops are one text each; a role may be a pair of both")
    parse_fma(fma), parse_ops(ops)
    roles = []
    for role, value in sorted(chosen.items()):
        alone = isinstance(value, str) and value == "fp32"
        pair = value if isinstance(value, tuple) else (value, "fp32" if alone else ops)
        if len(pair) != 2:
            raise NumcError(f"role '{role}': got {len(pair)} texts, want an operator, or a pair of it and a format")
        own_fma, own_ops = (checked_text(word, f"role '{role}'", LONGEST) for word in pair)
        parse_fma(own_fma), parse_ops(own_ops)
        roles.append((role, own_fma, own_ops))
    return Arithmetic(fma, ops, tuple(roles))
