"""Times as they may be given: seconds since 1970, or datetimes, in UTC unless they have a zone; and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymem import ConversationMemory, HierarchicalMemory, MemoryManager
from tinymem.errors import InputError, StepError
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.checks import to_utc

MARCH = datetime(2025, 3, 1, 12, tzinfo=timezone.utc)
MESSAGE: dict[str, Any] = {"role": "user", "content": "The staging server is at 10.0.0.7."}
WRONG = ["in March", True, float("nan"), 10**400]


@given(st.datetimes(timezones=st.just(timezone.utc), min_value=datetime(1950, 1, 1), max_value=datetime(2100, 1, 1)))
def test_seconds_and_datetimes_are_the_same_time(when: datetime) -> None:
    assert to_utc("now", when.timestamp()) == to_utc("now", when) == when
    assert to_utc("now", when.astimezone(timezone(timedelta(hours=5)))) == when
    assert to_utc("now", None) is None


def test_a_time_without_a_zone_is_in_utc(memory: HierarchicalMemory) -> None:
    assert to_utc("now", datetime(2025, 3, 1, 12)) == MARCH
    zeros: list[Any] = [0, 0.0, np.float32(0), np.int64(0)]  # the first second is a time
    assert {to_utc("now", zero) for zero in zeros} == {datetime(1970, 1, 1, tzinfo=timezone.utc)}
    memory.add_messages([MESSAGE], timestamp=datetime(2025, 3, 1, 12))
    assert memory.steps[0].timestamp == MARCH and memory.steps[0].timestamp.tzinfo is timezone.utc
    assert memory.recall("staging", since=datetime(2025, 3, 1, 12), until=MARCH).items
    assert memory.forget(until=datetime(2025, 3, 1, 11, 59), dry_run=True) == 0


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_what_is_no_time_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"^until must be "):
        to_utc("until", wrong)
    with pytest.raises(StepError, match=r"^timestamp must be "):
        to_utc("timestamp", wrong, StepError)


def test_every_call_takes_seconds(memory: HierarchicalMemory, tmp_path: Path) -> None:
    at = MARCH.timestamp()
    assert memory.add_messages([MESSAGE], timestamp=at)[0].timestamp == MARCH
    assert steps_from_messages([MESSAGE], timestamp=0)[0].timestamp.year == 1970
    assert MemoryManager().add_message(**MESSAGE, timestamp=at).timestamp == MARCH
    assert memory.context("staging", now=at + 60).messages == memory.context("staging", now=MARCH).messages
    assert memory.recall("staging", now=at, since=at, until=at).items
    assert not memory.recall("staging", since=at + 1).items
    assert memory.forget(before=at, dry_run=True) == 0
    assert memory.forget(since=at, dry_run=True) == 1
    with ConversationMemory(tmp_path / "c", embedder="hashing", store="exact") as conversation:
        assert conversation.add_message("user", "Hello.", timestamp=at).timestamp == MARCH
        assert conversation.search("Hello", since=at).items
