"""Dates in questions: which spans of time they name, and how close a moment is to them."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import fill, open_archive, said, sentences
from strategies import THOROUGH, texts
from work import grows_linearly

from tinymem.recall.query.dates import DAY, MOST, YEARS, spans
from tinymem.recall.search import Search

UTC = timezone.utc
NOW = datetime(2024, 3, 10, 15, 30, tzinfo=UTC)  # a Sunday
FIRST = datetime(2022, 6, 1, tzinfo=UTC)


def named(text: str, now: datetime = NOW, first: datetime = FIRST) -> list[tuple[str, int]]:
    """The first day of each span, and how many days it has."""
    found = spans(text, now, first.timestamp(), NOW.timestamp())
    return [(datetime.fromtimestamp(at, now.tzinfo).isoformat()[:10], round((end - at) / DAY)) for at, end in found]


EXAMPLES: dict[str, list[tuple[str, int]]] = {
    # ISO 8601
    "on 2024-02-03": [("2024-02-03", 1)],
    "at 2024-02-03T10:15:00Z": [("2024-02-03", 1)],
    "in 2024-02": [("2024-02-01", 29)],
    "from 2023-12-30 to 2024-01-02": [("2023-12-30", 1), ("2024-01-02", 1)],
    # a day
    "on 9 January 2023": [("2023-01-09", 1)],
    "on January 9th, 2023": [("2023-01-09", 1)],
    "on Jan. 9 of 2023": [("2023-01-09", 1)],
    "on MARCH 5, 2023": [("2023-03-05", 1)],
    "on August 5 at 10:30": [("2022-08-05", 1), ("2023-08-05", 1), ("2024-08-05", 1)],
    # several days
    "March 5-7, 2023": [("2023-03-05", 3)],
    "between March 5 and 7 of 2023": [("2023-03-05", 3)],
    "December 30-2, 2023": [("2023-12-30", 1)],
    "on 2024-01-02 and on May 5 and 60 people": [
        ("2024-01-02", 1),
        *((f"{year}-05-05", 1) for year in (2022, 2023, 2024)),
    ],
    # a month, and parts of it
    "in May 2023": [("2023-05-01", 31)],
    "early May 2023": [("2023-05-01", 10)],
    "end of February 2023": [("2023-02-21", 8)],
    "the first half of June 2023": [("2023-06-01", 15)],
    "the second half of June 2023": [("2023-06-16", 15)],
    # a year
    "in 2023": [("2023-01-01", 365)],
    # without a year: one span for each year of the memory
    "on July 4": [("2022-07-04", 1), ("2023-07-04", 1), ("2024-07-04", 1)],
    "Mid-March": [("2022-03-11", 10), ("2023-03-11", 10), ("2024-03-11", 10)],
    "on 29 February": [("2024-02-29", 1)],
    # ago
    "3 days ago": [("2024-03-07", 1)],
    "a couple of days ago": [("2024-03-08", 1)],
    "A month ago": [("2024-01-25", 31)],
    "a year ago": [("2022-09-10", 365)],
    "999 years ago": [("1025-05-10", 365)],
    "0 days ago": [("2024-03-10", 1)],
    # last
    "last week": [("2024-02-25", 14)],
    "in the last 3 days": [("2024-03-07", 4)],
    "last Friday": [("2024-03-08", 1)],
    "last sunday": [("2024-03-03", 1)],
    "on Monday": [("2024-03-04", 1)],
    "last weekend": [("2024-03-09", 2)],
    "a fortnight ago": [("2024-02-25", 1)],
    "on 13/11/2023 or 13.11.2023": [("2023-11-13", 1)],
    "on 05/11/2023": [("2023-11-05", 1), ("2023-05-11", 1)],
    "What was yesterday?": [("2024-03-09", 1)],
    "the day before yesterday": [("2024-03-08", 1)],
    "Today or yesterday?": [("2024-03-10", 1), ("2024-03-09", 1)],
    # in other languages
    "Was war vor zwei Wochen, am 9. Januar 2023 und letzten Montag?": [
        ("2023-01-09", 1),
        ("2024-02-22", 7),
        ("2024-03-04", 1),
    ],
    "Was war vorgestern hier?": [("2024-03-08", 1)],
    "Anfang März 2023": [("2023-03-01", 10)],
    "Qu'a dit Ann hier, le week-end dernier et il y a 3 jours ?": [
        ("2024-03-09", 1),
        ("2024-03-07", 1),
        ("2024-03-09", 2),
    ],
    "le 1er mai 2023 et en mars 2023": [("2023-05-01", 1), ("2023-03-01", 31)],
    "¿Qué dijo el lunes pasado, hace diez días y el 3 de mayo de 2023?": [
        ("2023-05-03", 1),
        ("2024-02-29", 1),
        ("2024-03-04", 1),
    ],
    "el fin de semana pasado": [("2024-03-09", 2)],
    "due settimane fa, l'altro ieri e a metà maggio 2023": [("2023-05-11", 10), ("2024-02-22", 7), ("2024-03-08", 1)],
    "la settimana scorsa": [("2024-02-25", 14)],
    "Who lives on Mars, and who is fine?": [],
    # each once
    "yesterday, I said yesterday": [("2024-03-09", 1)],
    # words, and what is no date
    "Who may march with May?": [],
    "May I go in?": [],
    "Which port is 8080?": [],
    "March 10:30": [],
    "the 5th": [],
    "": [],
    # invalid
    "31 June 2023": [],
    "0 May 2023 or May 0": [],
    "2023-13-01": [],
    "2023-02-30": [],
    "99999999999999999999 years ago": [],
    "last 9999 days": [],
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items(), ids=list(EXAMPLES))
def test_the_days_that_a_question_names(text: str, expected: list[tuple[str, int]]) -> None:
    assert named(text) == expected


def test_days_are_those_of_the_zone_in_which_it_is_asked() -> None:
    tokyo, west = timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))
    for zone, text in ((tokyo, "on 2024-03-05"), (west, "on March 5, 2024"), (west, "5 days ago")):
        ((start, end),) = spans(text, NOW.astimezone(zone), FIRST.timestamp(), NOW.timestamp())
        assert datetime.fromtimestamp(start, zone) == datetime(2024, 3, 5, tzinfo=zone)
        assert end - start == DAY
    late = datetime(2024, 3, 10, 23, 30, tzinfo=UTC)
    assert named("today", late.astimezone(tokyo)) == [("2024-03-11", 1)]
    assert named("today", late.astimezone(west)) == [("2024-03-10", 1)]


def test_the_year_of_a_memory_is_that_of_its_zone() -> None:
    new_year = datetime(2023, 12, 31, 20, tzinfo=UTC)
    tokyo = timezone(timedelta(hours=9))
    for zone, year in ((UTC, "2023"), (tokyo, "2024")):
        ((start, _),) = spans("July 4", NOW.astimezone(zone), new_year.timestamp(), new_year.timestamp())
        assert datetime.fromtimestamp(start, zone).isoformat()[:4] == year


def test_a_date_without_a_year_stands_for_the_newest_years_only() -> None:
    found = named("on July 4", first=datetime(1800, 1, 1, tzinfo=UTC))
    assert [day for day, _ in found] == [f"{year}-07-04" for year in range(2025 - YEARS, 2025)]


def test_of_very_many_dates_some_are_taken() -> None:
    text = ", ".join(f"May {day}" for day in range(1, 32))
    assert len(named(text, first=datetime(1800, 1, 1, tzinfo=UTC))) == MOST


HOSTILE = {
    "words": "in the last May of " * 6_000,
    "spaces": "March 5 to" + " " * 100_000,
    "spaces behind a digit": ("5" + " " * 500) * 200,
    "dates": "May 1 " * 17_000,
    "ISO": "2000-" * 20_000,
    "controls": "\x00\ud800\u202e" * 30_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_long_and_odd_texts_take_linear_time(text: str) -> None:
    assert len(spans(text, NOW, 0, NOW.timestamp())) <= MOST
    assert grows_linearly(lambda size: spans(text[:size], NOW, 0, NOW.timestamp()), len(text))


EVER = (datetime.min.replace(tzinfo=UTC).timestamp(), datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp())
ZONES = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))
EDGES = st.sampled_from([datetime.min, datetime.max, datetime(1, 1, 1, 23), datetime(9999, 12, 31)])
MOMENTS = st.tuples(st.datetimes() | EDGES, ZONES).map(lambda given: given[0].replace(tzinfo=given[1]))
TIMES = st.floats(*EVER) | st.sampled_from([*EVER, 0.0])
PHRASES = st.lists(
    st.sampled_from([*EXAMPLES, "May", "5", "March", "2023", "1900", "2099", "to", "-", "last", "999 years ago", "٣ "]),
    max_size=5,
).map(" ".join)


@THOROUGH
@given(texts(60) | PHRASES, MOMENTS, TIMES, TIMES)
def test_any_text_at_any_time_names_spans_that_are_some(text: str, now: datetime, one: float, other: float) -> None:
    found = spans(text, now, min(one, other), max(one, other))
    assert found == spans(text, now, min(one, other), max(one, other))
    assert len(found) == len(set(found)) <= MOST
    for start, end in found:
        assert math.isfinite(start) and math.isfinite(end) and start < end


# closeness


# recall


@pytest.mark.parametrize("others", [0, 700])
def test_a_question_with_a_date_prefers_what_was_said_then(tmp_path: Path, others: int) -> None:
    dishes = ["soup", "rice", "fish", "beans", "pasta", "curry", "salad", "pizza", "stew"]
    archive = open_archive(tmp_path)
    fill(archive, [
        *(said(text, at, timestamp=datetime(2023, 1, 1, tzinfo=UTC)) for at, text in enumerate(sentences(others), 1)),
        *(
            said(f"We did eat {dish} at noon.", 2_000 + at, timestamp=datetime(2024, 3, at, 12, tzinfo=UTC))
            for at, dish in enumerate(dishes, 1)
        ),
    ])  # fmt: skip
    for when, day in (("on March 5", 5), ("on 2024-03-07", 7), ("last Friday", 8), ("yesterday", 9), ("6 days ago", 4)):
        found = Search(archive).recall(f"What did we eat {when}?", 60, NOW)
        best = max(found.items, key=lambda item: item.score)
        assert best.text == f"We did eat {dishes[day - 1]} at noon."
        assert best.why["dated"] > 0
    archive.close()
