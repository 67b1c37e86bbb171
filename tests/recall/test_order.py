"""The order of the excerpts in a block."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import InputError

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SAID = ("The cat sat on the mat.", "Staging is at 10.0.0.7.", "I like pears.", "The staging server is at 10.0.0.9 now.")


def test_by_relevance_the_best_day_stands_first_and_in_it_the_best_excerpt() -> None:
    with HierarchicalMemory() as memory:
        memory.add_steps([MessageStep("user", text, timestamp=NOON + timedelta(hours=8 * n))
                          for n, text in enumerate(SAID)])  # fmt: skip
        recall = partial(memory.recall, "Where is the staging server?", 300, min_relevance=0)
        by_time, by_relevance = recall(), recall(order="relevance")
        assert [item.step.step_number for item in by_time.items] == [1, 2, 3, 4]
        assert [item.step.step_number for item in by_relevance.items] == [4, 3, 2, 1]
        assert by_relevance.text.splitlines()[1:3] == ["[2026-03-02]", f"user: {SAID[3]}"]
        assert abs(by_relevance.tokens - by_time.tokens) <= 2
        with pytest.raises(InputError, match="order"):
            memory.recall("staging", order="rank")  # type: ignore[arg-type]
