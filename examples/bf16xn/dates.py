"""Dates in words and their translations, English and French, which are made by the rules of both languages."""

from __future__ import annotations

import datetime

FIRST, LAST = datetime.date(1920, 1, 1), datetime.date(2029, 12, 31)
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
)
_MONTHS = (
    "january february march april may june july august september october november december",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_BELOW_TWENTY = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf",
)
_TENS = ("twenty thirty forty fifty sixty seventy eighty ninety", "vingt trente quarante cinquante soixante")
VIGESIMAL = 60
"""From here on, French counts on to the next multiple of twenty: 75 is sixty fifteen, 95 four twenty fifteen."""


def pair(day: datetime.date) -> tuple[str, str]:
    """Return a date in English and in French.

    Such as ``tuesday the twenty first of march nineteen ninety five`` and ``mardi vingt et un mars mille neuf cent
    quatre vingt quinze``.
    """
    names = [(_DAYS[n].split()[day.weekday()], _MONTHS[n].split()[day.month - 1]) for n in (0, 1)]
    century, rest = divmod(day.year, 100)
    english = [english_number(century), english_number(rest) or "hundred"] if century < 20 else ["two thousand"]
    french = ["mille neuf cent" if century < 20 else "deux mille", french_number(rest)]
    if century >= 20 and rest:
        english += ["and", english_number(rest)]
    return (
        " ".join([names[0][0], "the", _ordinal(day.day), "of", names[0][1], *english]),
        " ".join([names[1][0], "premier" if day.day == 1 else french_number(day.day), names[1][1], *french]).strip(),
    )


def english_number(number: int) -> str:
    """Return a number below 100 in words; nothing for 0."""
    tens, ones = divmod(number, 10) if number >= 20 else (0, number)
    return " ".join([*([_TENS[0].split()[tens - 2]] if tens else []), *([_one(0, ones)] if ones else [])])


def french_number(number: int) -> str:
    """Return a number below 100 in words, ``et`` and the words of a compound apart; nothing for 0."""
    if number < 20:
        return _one(1, number) if number else ""
    base = 10 if number < VIGESIMAL else 20
    tens, ones = divmod(number, base)
    if base == 20 and tens == 4:
        return " ".join(["quatre", "vingt", *([_one(1, ones)] if ones else [])])
    words = [_TENS[1].split()[number // 10 - 2 if base == 10 else 4]]
    return " ".join([*words, *(["et"] if ones in (1, 11) else []), *([_one(1, ones)] if ones else [])])


def _one(language: int, number: int) -> str:
    return _BELOW_TWENTY[language].split()[number - 1]


def _ordinal(number: int) -> str:
    tens, ones = divmod(number, 10) if number >= 20 else (0, number)
    if tens and not ones:
        return "twentieth" if tens == 2 else "thirtieth"
    return " ".join([*([_TENS[0].split()[tens - 2]] if tens else []), _ORDINALS.split()[ones - 1]])
