"""Several objects as one: the ``ar`` format, as far as the runtime's loader reads it (names mean nothing to it)."""

from __future__ import annotations

from collections.abc import Sequence

MAGIC = b"!<arch>\n"


def archive(objects: Sequence[bytes]) -> bytes:
    """Return the objects as members ``0.o/``, ``1.o/`` ..., with no date and no owner, so that equal input is equal."""
    parts = [MAGIC]
    for number, data in enumerate(objects):
        head = f"{f'{number}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
        parts += [head.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)
