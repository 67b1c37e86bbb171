"""Dates and spans of time that a question names: "on 9 January", "in late May 2023", "two weeks ago", "last Friday".

English, ISO 8601, and the common words of German, French, Spanish and Italian. A date is a soft hint for ranking, never
a filter: people misremember dates, and speak of a day on another.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Vectors
from tinymem.steps.ids import moment

__all__ = ["Span", "closeness", "spans"]

Span: TypeAlias = tuple[float, float]  # [start, end) in seconds since 1970

DAY = 86_400.0
LONGEST = 2_000  # characters of a question that are read
MOST = 60  # spans that are taken from a question
YEARS = 20  # that a date without a year may stand for, at most: the newest that the memory spans

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
PARTS = {"": (0, 31), "early": (0, 10), "first half of": (0, 15), "mid": (10, 20), "second half of": (15, 31),
         "late": (20, 31)}  # fmt: skip

# What English calls them, and four other languages do; "_" is a space, and a number of three digits is not of a month
_TABLE = """\
January januar jänner janvier enero gennaio
February februar février febrero febbraio
March märz mars marzo
April avril abril aprile
May mai mayo maggio
June juni juin junio giugno
July juli juillet julio luglio
August août agosto
September septembre septiembre settembre
October oktober octobre octubre ottobre
November novembre noviembre
December dezember décembre diciembre dicembre
on_monday montag lundi lunes lunedì
on_tuesday dienstag mardi martes martedì
on_wednesday mittwoch mercredi miércoles mercoledì
on_thursday donnerstag jeudi jueves giovedì
on_friday freitag vendredi viernes venerdì
on_saturday samstag sonnabend samedi sábado sabato
on_sunday sonntag dimanche domingo domenica
weekend wochenende week-end fin_de_semana fine_settimana
000_days_ago today tonight this_morning heute aujourd'hui hoy oggi
001_days_ago yesterday last_night gestern hier ayer ieri anoche
002_days_ago the_day_before_yesterday vorgestern avant-hier anteayer antes_de_ayer altro_ieri
014_days_ago a_fortnight_ago
last letzten letzte letztes letzter letztem vergangenen vergangene vergangenes vorigen vorige voriges
last dernier dernière derniers dernières passé passée pasado pasada último última últimos últimas
last scorso scorsa scorsi scorse ultimo ultima ultimi ultime
day tage tagen jour jours día días giorno giorni
week woche wochen semaine semaines semana semanas settimana settimane
month monat monate monaten mois mes meses mese mesi
year jahr jahre jahren ans année año años anno anni
001 a an one ein eine einem einer einen un une una
002 two couple_of zwei deux dos due
003 three few drei trois tres tre
004 four vier quatre cuatro quattro
005 five fünf cinq cinco cinque
006 six sechs seis sei
007 seven sieben sept siete sette
008 eight acht huit ocho otto
009 nine neun neuf nueve nove
010 ten zehn dix diez dieci
ago vor il_y_a hace fa
early beginning_of start_of anfang début principios inizio
mid middle_of mitte metà mediados
late end_of ende fin fines finales
in im en nel
1st 1er 1º
_ de di del .
"""
_ENGLISH: dict[str, str] = {}
for _line in _TABLE.splitlines():
    _name, *_others = _line.split(" ")
    _ENGLISH |= dict.fromkeys(_others, _name)

_IS_GERMAN = re.compile(r"\b(?:ist|sind|war|wir|ich|der|das|wo|wie|wer)\b", re.IGNORECASE)
_SEVERAL = "|".join(name for name in _ENGLISH if "_" in name).replace("_", " ")
_WORD = re.compile(rf"{_SEVERAL}|aujourd.hui|[\w-]+|(?<=\d)\.(?= )", re.IGNORECASE)
_UNIT = r"(?:day|week|month|year|weekend)\b"
_AGO_FIRST = re.compile(rf"\bago (\w+ {_UNIT})")
_LAST_BEHIND = re.compile(rf"\b({_UNIT}) last\b(?! {_UNIT})")

_MONTH = (  # "may", "march" and the short ones can be words: these want their capital
    r"(?P<month>(?i:january|february|april|june|july|august|september|october|november|december)|"
    r"M(?i:arch|ay)|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b", r"(?P<year>(?:19|20)\d\d)\b"
_TO = r"(?:\s*(?:-|–|to|and|until|through)\s*(?:the\s+)?(?P<to>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?"
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)[-/](?P<month>\d{1,2})(?:[-/](?P<day>\d{1,2}))?(?!\d)")  # a "T" may follow
_NUMBERS = re.compile(rf"\b(?P<day>\d{{1,2}})[/.](?P<month>\d{{1,2}})[/.]{_YEAR}")
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}(?!:){_TO}(?:,?\s+(?:of\s+)?{_YEAR})?")
_DAY_MONTH = re.compile(rf"\b{_DAY}{_TO}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?")
_PART = rf"(?i:(?P<part>{'|'.join(filter(None, PARTS))})[\s-]+(?:the\s+)?)"
_MONTH_YEAR = re.compile(rf"\b{_PART}?{_MONTH},?\s+(?:of\s+)?{_YEAR}", re.IGNORECASE)
# Without a year or a day, "may" and "march" are words: something must say that a month is meant.
_MONTH_ONLY = re.compile(rf"\b(?:{_PART}|(?i:in|of|since|during|by|until|through|for|last|this|to|from)\s+){_MONTH}")
_YEAR_ONLY = re.compile(rf"\b(?:in|of|since|during|year)\s+{_YEAR}", re.IGNORECASE)
# In small letters
_AGO = re.compile(r"\b(?:(?P<number>\d{1,3})\s+)(?P<unit>day|week|month|year)s?\s+ago\b")
_PAST = re.compile(
    r"\b(?:last|past|previous|recent)\s+(?:(?P<number>\d{1,3})\s+)?(?P<unit>day|week|month|year)s?\b",
)
_WEEKDAY = re.compile(rf"\b(?:last|past|on|since|this(?! weekend))\s+(?P<weekday>{'|'.join(WEEKDAYS)}|weekend)\b")


def spans(text: str, now: datetime, first: float, last: float) -> list[Span]:
    """Return the spans of time that a question names.

    >>> from datetime import timezone
    >>> (march_5,) = spans("What did Ann say on March 5?", datetime(2024, 3, 10, tzinfo=timezone.utc), 1.705e9, 1.71e9)
    >>> [datetime.fromtimestamp(at, timezone.utc).day for at in march_5]
    [5, 6]

    Args:
        text: The question.
        now: The time when it is asked.
        first: The time of the oldest step, in seconds since 1970; it limits the years of a date without one.
        last: The time of the newest step.
    """
    return list(islice(dict.fromkeys(_found(text[:LONGEST], now, first, last)), MOST))


def _found(text: str, now: datetime, first: float, last: float) -> Iterator[Span]:
    either = r"\g<year>-\g<month>-\g<day> \g<year>-\g<day>-\g<month>"  # may be the day
    text = _NUMBERS.sub(either, _in_english(text))
    newest = _year(last, now)
    years = range(max(_year(first, now), newest - YEARS + 1), newest + 1)
    for pattern in (_ISO, _MONTH_DAY, _DAY_MONTH, _MONTH_YEAR, _MONTH_ONLY, _YEAR_ONLY):
        for match in pattern.finditer(text):
            named = match.groupdict()
            year = named.get("year")
            for each in [int(year)] if year else years:
                with suppress(ValueError):  # the 31st of June
                    yield _span(named, each, now)
        text = pattern.sub(" ", text)  # a date is read once, by the most exact pattern
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for days, length in _relative(text.lower(), today.weekday()):
        yield _between(today - timedelta(days=min(days, today.toordinal() - 1)), length)


def _in_english(text: str) -> str:
    """Return a text with the English words for days, where it is in another language.

    >>> _in_english("Was war vor zwei Wochen und letzten Montag?")
    'Was war 002 week ago und last on monday?'
    """
    if _IS_GERMAN.search(text):
        text = text.replace("hier", "")  # "here", in French "yesterday"
    text = text.replace("Mars", "")  # the planet
    text = _WORD.sub(lambda word: _ENGLISH.get(word[0].lower().replace(" ", "_"), word[0]), text).replace("_", " ")
    return _LAST_BEHIND.sub(r"last \1", _AGO_FIRST.sub(r"\1 ago", text))


def _year(seconds: float, now: datetime) -> int:
    """Return the year of a moment, in the time zone of `now`; in UTC where a datetime cannot hold it otherwise."""
    when = moment(seconds)
    try:
        return when.astimezone(now.tzinfo).year
    except (OverflowError, ValueError):  # the first or the last hours of all
        return when.year


def _span(named: dict[str, str | None], year: int, now: datetime) -> Span:
    month, day, to = named.get("month"), named.get("day"), named.get("to")
    if month is None:
        return _between(datetime(year, 1, 1, tzinfo=now.tzinfo), 365 + calendar.isleap(year))
    number = int(month) if month.isdigit() else 1 + MONTHS.index(month[:3].lower())
    length = calendar.monthrange(year, number)[1]
    if day is None:
        before, last = PARTS[(named.get("part") or "").lower()]
    else:
        before, last = int(day) - 1, int(day)
        if to and last < int(to) <= length:  # "on March 5 and 60 people" is a day
            last = int(to)
    return _between(datetime(year, number, before + 1, tzinfo=now.tzinfo), min(last, length) - before)


def _relative(text: str, weekday: int) -> Iterator[tuple[int, int]]:
    """Yield how many days ago a span begins that is named by its distance from a `weekday`, and its days."""
    for match in _AGO.finditer(text):
        unit = UNITS[match["unit"]]
        slack = unit // 2  # "two weeks ago" is about two weeks ago
        yield int(match["number"]) * unit + slack, 2 * slack + 1
    for match in _PAST.finditer(text):
        days = int(match["number"] or 2) * UNITS[match["unit"]]
        yield days, days + bool(match["number"])
    for match in _WEEKDAY.finditer(text):
        named = match["weekday"]
        begin = WEEKDAYS.index("saturday" if named == "weekend" else named)
        yield (weekday - begin - 1) % 7 + 1, 1 + (named == "weekend")


def _between(start: datetime, days: int) -> Span:
    """So many days from `start` on, by the calendar where that goes so far."""
    begin = start.timestamp()
    try:
        return begin, (start + timedelta(days=days)).timestamp()
    except OverflowError:
        return begin, begin + days * DAY


def closeness(times: npt.NDArray[np.float64], named: Sequence[Span]) -> Vectors:
    """Rate the closeness of `times` (seconds since 1970) to a span: 1 inside, falling to 0 by days: `(len(times),)`."""
    close = np.zeros(len(times), np.float32)
    for start, end in named:
        gap = np.maximum(np.maximum(start - times, times - end), 0)
        np.maximum(close, np.exp(-gap / (DAY + (end - start) / 4)), out=close, casting="same_kind")
    return close
