"""A warning that repeats is given once per memory and hour."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

import tinymem.errors
from tinymem.errors import HOUR, new_log_key, warn_hourly

logger = logging.getLogger("tinymem.test_hourly")


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
