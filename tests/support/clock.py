"""A clock that stands still, so that no step of a test falls on another day."""

from __future__ import annotations

from datetime import datetime, tzinfo

import pytest


def stop_the_clock(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """Make it this moment for everything in this process that the library dates."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Stopped:
            return cls.fromtimestamp(moment.timestamp(), tz)

    monkeypatch.setattr("tinymem.steps.ids.datetime", Stopped)
