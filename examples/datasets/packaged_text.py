"""Texts in packages: news and pages of Wikipedia in gensim, and the sentence pairs of Django's translations."""

from __future__ import annotations

import bz2
import importlib.util
from pathlib import Path
from xml.etree import ElementTree

from sources import DataError, of_package
from text import Pairs, lines

GENSIM, DJANGO = "--no-deps gensim", "--no-deps Django"
_WIKIPEDIA = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def news(path: Path | None = None) -> tuple[str, ...]:
    """Return the articles of the Lee background corpus (Pincombe 2004), 300 of Australian news of 2001.

    path: another file with an article in each line, instead of gensim's. Raises DataError.
    """
    path = path or _gensim("lee_background.cor")
    articles = tuple(filter(None, lines(path)))
    if not articles:
        raise DataError(f"{path}: is empty: want an article in each line")
    return articles


def wikipedia(path: Path | None = None) -> dict[str, str]:
    """Return the articles of an excerpt of the English Wikipedia by their titles, in wiki markup, without redirects.

    path: another dump of MediaWiki, compressed by bzip2, instead of gensim's. Raises DataError.
    """
    path = path or _gensim(_WIKIPEDIA)
    articles: dict[str, str] = {}
    try:
        with bz2.open(path) as file:
            for _, element in ElementTree.iterparse(file):
                if element.tag.rpartition("}")[2] == "page":
                    if element.findtext("{*}ns") == "0" and element.find("{*}redirect") is None:
                        text = element.findtext("{*}revision/{*}text") or ""
                        articles[element.findtext("{*}title") or ""] = text
                    element.clear()
    except (OSError, EOFError, ElementTree.ParseError) as error:
        raise DataError(f"{path}: want a dump of MediaWiki, compressed by bzip2: {error}") from None
    if not articles:
        raise DataError(f"{path}: has no article: want a dump of MediaWiki, compressed by bzip2")
    return articles


def translations(language: str = "fr", folder: Path | None = None) -> Pairs:
    """Return the pairs of English and another language that the .po files of Django have, read by polib.

    Plurals, and what is marked as fuzzy, are left out; what occurs twice is there once. All pairs are the split train.
    folder: another one, of which ``**/locale/LANGUAGE/LC_MESSAGES/*.po`` are read. Raises DataError.
    """
    if importlib.util.find_spec("polib") is None:
        raise DataError("translations are read by polib, which is not installed: pip install polib")
    import polib

    folder = folder or of_package("django", install=DJANGO)
    files = sorted(folder.glob(f"**/locale/{language}/LC_MESSAGES/*.po"))
    if not files:
        known = sorted({path.parts[-3] for path in folder.glob("**/locale/*/LC_MESSAGES/*.po")})
        found = f"the languages are {', '.join(known)}" if known else "there is no locale/LANGUAGE/LC_MESSAGES/*.po"
        raise DataError(f"{folder}: no translations into {language!r}: {found}")
    pairs: dict[tuple[str, str], None] = {}
    for file in files:
        try:
            entries = polib.pofile(str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file}: want a .po file: {error}") from None
        pairs |= {
            (each.msgid, each.msgstr): None
            for each in entries
            if each.msgid and each.msgstr and not (each.msgid_plural or each.fuzzy or each.obsolete)
        }
    return Pairs(("en", language), {"train": tuple(pairs)})


def _gensim(name: str) -> Path:
    return of_package("gensim", "test", "test_data", name, install=GENSIM)
