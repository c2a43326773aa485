"""Pack several object files into one ``ar`` archive, which the runtime loads as a whole."""

from __future__ import annotations

from collections.abc import Sequence

MAGIC = b"!<arch>\n"


def archive(objects: Sequence[bytes]) -> bytes:
    """Return an archive of the objects, called ``0.o/``, ``1.o/`` ...; equal objects give equal bytes."""
    parts = [MAGIC]
    for number, data in enumerate(objects):
        head = f"{f'{number}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
        parts += [head.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)
