"""A warning that repeats is given once per memory and hour."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

import tinymem.errors
from tinymem.errors import HOUR, new_log_key, warn_hourly

logger = logging.getLogger("tinymem.test_hourly")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_it_is_given_again_after_an_hour_and_held_back_ones_can_be_seen(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(tinymem.errors, "time", SimpleNamespace(monotonic=lambda: clock.now))
    place = new_log_key()
    with caplog.at_level(logging.DEBUG):
        for passed in (0.0, 1.0, HOUR - 2, 1.0, 5.0):
            clock.now += passed
            warn_hourly(logger, place, "behind: %s", passed)
        assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG", "WARNING", "DEBUG"]
        assert {record.funcName for record in caplog.records} == {
            test_it_is_given_again_after_an_hour_and_held_back_ones_can_be_seen.__name__
        }


def test_other_memories_other_messages_and_other_callbacks_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    places = new_log_key(), new_log_key()
    for _ in range(3):
        for place in places:
            warn_hourly(logger, place, "one")
            warn_hourly(logger, place, "other", level=logging.ERROR)
            warn_hourly(logger, place, "other", about="a callback")
    assert warnings(caplog) == ["one", "other", "other"] * 2
