"""A filter means the same for a step, for the rows of a catalog, and in the SQL of both engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START, catch_up, entry
from strategies import MODERATE

from tinymem.protocols import Journal
from tinymem.recall.snapshot import Snapshot
from tinymem.steps.actions import ToolCall
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, MessageStep
from tinymem.stores.filter import Beginning, Filter
from tinymem.stores.sqlite.journal import SqliteJournal

SESSIONS = (None, "", "a", "team", "team/a", "team/b", "team*", "nul \x00")
SPEAKERS = (None, "Ana", "Ben", "'; --")
TOOLS = ((), ("grep",), ("grep", "ls"), ("two\nlines",))
LABELS = ((), (("user", '"ann"'),), (("user", '"ann"'), ("age", "7")))


def a_step(number: int) -> Step:
    place: dict[str, Any] = {"step_number": number, "id": f"id-{number}", "session": SESSIONS[number % len(SESSIONS)]}
    place["timestamp"] = START + timedelta(seconds=number // 2)
    calls = tuple(ToolCall(name, observation="found") for name in TOOLS[number % len(TOOLS)])
    if calls:
        return ActionStep("Look.", tool_calls=calls, **place)
    return MessageStep("user", "the key", speaker=SPEAKERS[number // 4 % len(SPEAKERS)], **place)


STEPS = {number: a_step(number) for number in range(1, 61)}
moments = st.none() | st.integers(-1, 31).map(lambda second: START + timedelta(seconds=second))
filters = st.builds(
    Filter,
    since=moments,
    until=moments,
    before=moments,
    session=st.sampled_from([*SESSIONS, "te*", "*", "x", *map(Beginning, ("team/", "te", "team*", ""))]),
    speaker=st.none() | st.sampled_from(["Ana", "Ben", "'; --", "Nobody"]),
    tool=st.none() | st.sampled_from(["grep", "ls", "gre", "two\nlines"]),
    type=st.none() | st.sampled_from(["action", "message", "task"]),
    labels=st.sampled_from(LABELS),
)
HAVING: dict[Any, tuple[int, ...]] = {
    labels: tuple(n for n in range(1, 61) if {*labels} <= {*LABELS[n % len(LABELS)]}) for labels in LABELS
}


def is_meant(only: Filter, step: Step) -> bool:
    """The filter's documentation, word for word."""
    session = (step.session or "").replace("\x00", "\ufffd")
    wanted = None if only.session is None else only.session.replace("\x00", "\ufffd")
    begins = isinstance(only.session, Beginning) and session.startswith(wanted or "")
    return (
        (only.since is None or step.timestamp >= only.since)
        and (only.until is None or step.timestamp <= only.until)
        and (only.before is None or step.timestamp < only.before)
        and (wanted is None or (step.session is not None and (begins or session == wanted)))
        and only.speaker in (None, step.speaker)
        and (only.tool is None or (isinstance(step, ActionStep) and only.tool in [c.name for c in step.tool_calls]))
        and only.type in (None, step.type)
        and (not only.labels or step.step_number in only.numbers)
    )


def filled(journal: Journal) -> Journal:
    for number, step in STEPS.items():
        row = entry(step)[0]
        clean = None if row.session is None else row.session.replace("\x00", "\ufffd")
        journal.add([replace(row, session=clean, labels=LABELS[number % len(LABELS)])])
    catch_up(journal)
    return journal


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    with closing(SqliteJournal(Path(tmp_path_factory.mktemp("filter"), "journal.db"))) as journal:
        yield filled(journal)


@pytest.fixture(scope="module")
def postgresql(postgres: Any) -> Iterator[Journal]:
    from tinymem.stores.postgres.journal import PostgresJournal

    with closing(PostgresJournal(postgres.url(), "a filter")) as journal:
        yield filled(journal)


def check(only: Filter, journal: Any, catalog: Snapshot) -> None:
    assert not only.labels or not only.mask(catalog).any(), "what no journal has found is not accepted"
    only = replace(only, numbers=HAVING[only.labels])
    meant = {number for number, step in STEPS.items() if is_meant(only, step)}
    assert {number for number, step in STEPS.items() if only.accepts(step)} == meant
    assert {*catalog.step[only.mask(catalog)].tolist()} == meant
    whoever = replace(only, tool=None)
    assert journal.matching(only) == [number for number, step in STEPS.items() if is_meant(whoever, step)]


def catalog_of(journal: Journal) -> Snapshot:
    return Snapshot(8).with_tail(journal.passages())


def test_a_filter_means_the_same_to_steps_catalog_and_sqlite(sqlite: Journal) -> None:
    catalog = catalog_of(sqlite)
    MODERATE(given(filters)(lambda only: check(only, sqlite, catalog)))()


def test_a_filter_means_the_same_to_postgresql(postgresql: Journal) -> None:
    catalog = catalog_of(postgresql)
    MODERATE(given(filters)(lambda only: check(only, postgresql, catalog)))()


def test_time_zones_are_only_other_names_for_a_moment() -> None:
    tokyo = (START + timedelta(seconds=9)).astimezone(timezone(timedelta(hours=9)))
    assert [n for n, step in STEPS.items() if Filter(since=tokyo, until=tokyo).accepts(step)] == [18, 19]
