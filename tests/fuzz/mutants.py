"""Damage: of bytes, and of texts, as lists of edits, so that a finding can be reduced to the edits that it needs."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

Edit = tuple[str, int, bytes]  # what is done, where, and with which bytes
TextEdit = tuple[str, int, int, str]  # what is done, from where, to where, and with which text

# Sizes and indices at which arithmetic overflows.
NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63,
    2**64 - 1,
)

CHARACTERS = ["\0", "\n", "\r", "\t", " ", "'", '"', "\\", "(", ")", "{", "}", "[", ",", ":", ";", "=", "#", "-", "+",
              ".", "0", "9", "a", "_", "é", "٣", "²", "Ⅷ", "𝟗", "\u2028", "\x85", "\ud800", "\U0010ffff", "%s", "{0}",
              "\x1b[31m"]  # fmt: skip
# Long ones are of the lengths at which numbers, recursion and messages have their limits.
LONG = ("9" * 30, "9" * 5000, "0" * 5000, "(" * 300, "fma(a=" * 300, "x" * 3000, " " * 3000, ":" * 300, "1/" * 300)


def edits_of_bytes(rng: random.Random, size: int, most: int = 6) -> list[Edit]:
    edits: list[Edit] = []
    for _ in range(rng.randrange(1, most + 1)):
        at = rng.randrange(size)
        kind = rng.choice(["flip", "set", "number", "number", "insert", "delete", "copy", "cut"])
        if kind == "flip":
            edits.append(("flip", at, bytes([1 << rng.randrange(8)])))
        elif kind == "number":
            form = rng.choice(["<B", "<H", "<I", "<Q"])
            mask = (1 << 8 * struct.calcsize(form)) - 1
            edits.append(("set", at, struct.pack(form, (rng.choice(NUMBERS) + rng.randrange(-1, 2)) & mask)))
        elif kind in ("set", "insert"):
            edits.append((kind, at, rng.randbytes(rng.choice([1, 1, 2, 8]))))
        elif kind == "cut" and rng.random() < 0.7:
            continue
        else:
            edits.append((kind, at, struct.pack("<H", rng.choice([1, 2, 4, 8, 64, 1000]))))
    return edits


def damaged(data: bytes, edits: Sequence[Edit]) -> bytes:
    found = bytearray(data)
    for kind, place, value in edits:
        at = min(place, len(found))
        if kind == "flip" and at < len(found):
            found[at] ^= value[0]
        elif kind == "set":
            found[at : at + len(value)] = value
        elif kind == "insert":
            found[at:at] = value
        elif kind == "delete":
            del found[at : at + struct.unpack("<H", value)[0]]
        elif kind == "copy":
            found[at:at] = found[at : at + struct.unpack("<H", value)[0]]
        elif kind == "cut":
            del found[at:]
    return bytes(found)


def edits_of_text(rng: random.Random, text: str, words: Sequence[str], most: int = 4) -> list[TextEdit]:
    edits: list[TextEdit] = []
    for _ in range(rng.randrange(1, most + 1)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 20]))
        kind = rng.choices(["word", "character", "delete", "copy", "long"], [6, 5, 3, 3, 1])[0]
        if kind == "word":
            edits.append(("put", start, end, rng.choice(words)))
        elif kind == "character":
            edits.append(("put", start, end, rng.choice(CHARACTERS)))
        elif kind == "delete":
            edits.append(("put", start, end, ""))
        elif kind == "long":
            edits.append(("put", start, end, rng.choice(LONG)))
        else:
            edits.append(("copy", start, end, ""))
    return edits


def rewritten(text: str, edits: Sequence[TextEdit]) -> str:
    for kind, start, end, new in edits:
        start, end = min(start, len(text)), min(end, len(text))
        text = text[:end] + text[start:] if kind == "copy" else text[:start] + new + text[end:]
    return text
